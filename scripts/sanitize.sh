#!/usr/bin/env bash
# Runs compute-sanitizer's tools on short checks of a CUDA kernel, forward and backward: masks,
# dropout, packed batches, block patterns, grouped heads, tiles of many sizes and of large head
# dims, dQ in any and in a fixed order, e4m3 of kernels that have it.
#
#   scripts/sanitize.sh [KERNEL]      v2 if none is named; minutes
#
# Prints one line a tool, with its errors (of racecheck: hazards, warnings too); what the tools said
# is in build/sanitize. $ATTNLAB names another program than build/cpu/attnlab.
#
# racecheck takes an arrival at an mbarrier for that of one lane, also behind __syncwarp(), and
# reports what the warp's other lanes have read. So it gets kernels in which every lane arrives
# (kArrivingLanes in kernels/device/ring.cuh; results/nvidia-h200/verification.md has the proof).
#
# Exit: 0 no tool has errors, 1 one has or a check fails, 3 compute-sanitizer, a GPU or the
# program is missing.
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
case ${1:-} in -h | --help) help && exit ;; esac

attnlab=${ATTNLAB:-build/cpu/attnlab}
kernel=${1:-v2}
logs=build/sanitize
checks=("--repeat 2" "--only */shapes/lengths/129/*" "--only */shapes/dropout/0.5/150/*"
        "--only */shapes/packed/causal/*" "--only */shapes/tiles/causal/*"
        "--only */shapes/head_dim/*/window*")
case $kernel in naive | v3) checks+=("--only */shapes/e4m3/*") ;; esac

# run_checks NAME COMMAND...: runs the checks under the command, with their output in NAME.log.
run_checks() {
  local log=$logs/$1.log check flags
  shift
  for check in "${checks[@]}"; do
    read -ra flags <<<"$check"
    "$@" "$attnlab" verify --backend cuda --kernel "$kernel" --timeout 3600 --no-progress \
      "${flags[@]}" || return
  done >"$log" 2>&1
}

if ! sanitizer=$(PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin command -v compute-sanitizer); then
  echo "sanitize.sh: compute-sanitizer is not on PATH, nor in \$CUDA_HOME/bin or" \
    "/usr/local/cuda/bin: it comes with NVIDIA's CUDA toolkit" >&2
  exit 3
fi
if [[ ! -x $attnlab ]]; then
  echo "sanitize.sh: there is no $attnlab: build it (README.md), or name it in \$ATTNLAB" >&2
  exit 3
fi
mkdir -p "$logs"
sources=$logs/sources
rm -rf "$sources" && mkdir "$sources" && cp -r kernels reference "$sources"
sed -i 's/kArrivingLanes = 1;/kArrivingLanes = kWarp;/' "$sources/kernels/device/ring.cuh"
grep -q 'kArrivingLanes = kWarp;' "$sources/kernels/device/ring.cuh"

# The checks first run without a tool: that compiles the kernels, which is slow under one.
for compiled in none every-lane; do
  environment=()
  [[ $compiled == none ]] || environment=(ATTNLAB_KERNEL_SOURCES="$sources")
  code=0
  run_checks "$compiled" env "${environment[@]}" || code=$?
  if ((code != 0)); then
    cat "$logs/$compiled.log" >&2
    exit "$code"
  fi
done
for tool in memcheck racecheck initcheck synccheck; do
  environment=()
  [[ $tool != racecheck ]] || environment=(ATTNLAB_KERNEL_SOURCES="$sources")
  failed=""
  run_checks "$tool" env "${environment[@]}" "$sanitizer" --tool "$tool" ||
    failed=", and a check fails"
  # Each run of checks ends so: "ERROR SUMMARY: 0 errors", "RACECHECK SUMMARY: 0 hazards".
  errors=$(awk -v runs="${#checks[@]}" \
    'sub(/.* SUMMARY: /, "") { --runs; sum += $1 } END { if (runs <= 0) print sum }' \
    "$logs/$tool.log")
  printf '%-10s %s errors%s\n' "$tool" "${errors:-unknown}" "$failed"
  [[ $errors == 0 && -z $failed ]] || code=1
done
exit "$code"
