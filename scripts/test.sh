#!/usr/bin/env bash
# Installs what is missing, builds, and runs the whole test suite.
#
#   scripts/test.sh [ARGUMENTS OF ctest...]
#   scripts/test.sh -R Mask
#
# JOBS=N limits compile jobs and tests side by side (default: all cores). PRESET=asan or tsan runs
# the same tests under sanitizers; PRESET=no-cuda is for scripts/test_without_cuda.sh.
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
case ${1:-} in -h | --help) help && exit ;; esac

preset=${PRESET:-cpu}
set_up "$preset"
step "test"
ctest --preset "$preset" --output-on-failure --parallel "$JOBS" "$@"
