#!/usr/bin/env bash
# Compiles the units of every kernel for GPUs for all archs, head_dims, types, masks and passes, and
# looks for spilled registers: the whole product, of which tests/units/units_test.cpp takes every
# pair. It takes long the first time; what is compiled stays in the build folder.
# scripts/compile_all.sh [BUILD FOLDER]
set -euo pipefail
build=${1:-$(dirname "$0")/../build/cpu}
shards=$(nproc)
pids=()
for ((shard = 0; shard < shards; ++shard)); do
  ATTNLAB_ALL_UNITS=1 GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard \
    "$build/units_test" --gtest_brief=1 --gtest_filter='*/CompiledUnits.*' &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do wait "$pid" || code=1; done
exit $code
