#!/usr/bin/env bash
# Runs compute-sanitizer's tools on short checks of a CUDA kernel, forward and backward: masks,
# dropout, packed batches, block patterns, grouped heads, tiles of many sizes and of large head
# dims, dQ in any and in a fixed order.
#
#   scripts/sanitize.sh [KERNEL]      v2 if none is named; minutes
#
# Prints one line a tool, with its errors (of racecheck: hazards, warnings too); what the tools said
# is in build/sanitize. $ATTNLAB names another program than build/cpu/attnlab.
#
# Exit: 0 no tool has errors, 1 one has or a check fails, 3 compute-sanitizer, a GPU or the
# program is missing.
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
case ${1:-} in -h | --help) help && exit ;; esac

attnlab=${ATTNLAB:-build/cpu/attnlab}
verify=("$attnlab" verify --backend cuda --kernel "${1:-v2}" --timeout 3600 --no-progress)
logs=build/sanitize

# run_checks NAME COMMAND...: runs the checks under the command, with their output in NAME.log.
run_checks() {
  local log=$logs/$1.log
  shift
  {
    "$@" "${verify[@]}" --repeat 2 &&
      "$@" "${verify[@]}" --only '*/shapes/lengths/129/*' &&
      "$@" "${verify[@]}" --only '*/shapes/dropout/0.5/150/*' &&
      "$@" "${verify[@]}" --only '*/shapes/packed/causal/*' &&
      "$@" "${verify[@]}" --only '*/shapes/tiles/causal/*' &&
      "$@" "${verify[@]}" --only '*/shapes/head_dim/*/window*'
  } >"$log" 2>&1
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

# The checks first run without a tool: that compiles the kernels, which is slow under one.
code=0
run_checks none env || code=$?
if ((code != 0)); then
  cat "$logs/none.log" >&2
  exit "$code"
fi
for tool in memcheck racecheck initcheck synccheck; do
  failed=""
  run_checks "$tool" "$sanitizer" --tool "$tool" || failed=", and a check fails"
  # Each of the six runs ends so: "ERROR SUMMARY: 0 errors", "RACECHECK SUMMARY: 0 hazards".
  errors=$(awk 'sub(/.* SUMMARY: /, "") { ++runs; sum += $1 } END { if (runs >= 6) print sum }' \
    "$logs/$tool.log")
  printf '%-10s %s errors%s\n' "$tool" "${errors:-unknown}" "$failed"
  [[ $errors == 0 && -z $failed ]] || code=1
done
exit "$code"
