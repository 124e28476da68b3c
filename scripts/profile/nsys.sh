#!/usr/bin/env bash
# Nsight Systems on a point: what the queue did when, with the ranges of attnlab over it.
#
#   scripts/profile/nsys.sh POINT... [-- OPTIONS OF NSYS PROFILE...]
#   scripts/profile/nsys.sh --kernel naive,minimal --seqlen 1k --dtype f32
#
# POINT is what `attnlab run` takes. Each kernel is launched 20 times in the NVTX range
# attnlab@profile. The trace goes to attnlab.nsys-rep, or where --output says; open it in Nsight's
# window, or ask `nsys stats --report nvtx_kern_sum attnlab.nsys-rep` for the kernels of each range.
set -euo pipefail
me=nsys.sh
source "$(dirname "$0")/nsight.sh"
((${#of_tool[@]} != 0)) || of_tool=(--output attnlab --force-overwrite true)
exec "$nsight" profile --trace cuda,nvtx,cublas --stats false "${of_tool[@]}" \
  "$attnlab" run --backend cuda "${of_attnlab[@]}" --profile 20 --no-progress
