#!/usr/bin/env bash
# Nsight Compute on the kernels of a point, its counters and source lines.
#
#   scripts/profile/ncu.sh POINT... [-- OPTIONS OF NCU...]
#   scripts/profile/ncu.sh --kernel naive --seqlen 1k --dtype f16
#   scripts/profile/ncu.sh --kernel minimal --seqlen 1k -- --set roofline --export minimal
#
# POINT is what `attnlab run` takes. Each kernel is launched once in the NVTX range
# attnlab@profile, and ncu looks at those launches alone: not at those that verify, draw inputs or
# hash results. Without options of ncu it prints the sections of --set detailed.
#
# ncu replays a kernel once a pass and fixes the clocks, so its times are not those of
# `attnlab run`. It needs the permission that `attnlab doctor` asks for on the line of CUPTI.
set -euo pipefail
me=ncu.sh
source "$(dirname "$0")/nsight.sh"
((${#of_tool[@]} != 0)) || of_tool=(--set detailed)
# The slash says that it is a range that was pushed, at any depth.
exec "$nsight" --nvtx --nvtx-include "attnlab@profile/" "${of_tool[@]}" \
  "$attnlab" run --backend cuda "${of_attnlab[@]}" --profile 1 --no-progress
