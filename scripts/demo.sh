#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job: the kernels there are, verified and timed
# over a few lengths, head dims, masks and block sizes, as a table and as records in results/.
#
#   scripts/demo.sh [ARGUMENTS OF attnlab run...]
#   scripts/demo.sh --kernel v2 --mask causal
#
# JOBS=N limits the compile jobs (default: all cores).
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
case ${1:-} in -h | --help) help && exit ;; esac

set_up cpu attnlab
step "run sweeps/quick.json"
./build/cpu/attnlab run sweeps/quick.json "$@"
