#!/usr/bin/env bash
# Builds the fuzz targets into build/fuzz and runs each of them.
#
#   tests/fuzz/run.sh [RUNS] [TARGET...]    RUNS inputs each (default: 20000) of sweep, record,
#                                           safetensors, qkv, ncu
#
# Every input must be read or refused with a UsageError that names the file, within 5 s, no
# allocation above 4 MiB and 512 MiB in all, for inputs of up to 8 KiB. The first finding ends the
# script with exit 1; its input lies in build/fuzz/findings. What the fuzzer learns stays in
# build/fuzz/learned; CXX names another clang++ than clang++-14.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/steps.sh"
case ${1:-} in -h | --help) help && exit ;; esac

runs=${1:-20000}
targets=("${@:2}")
((${#targets[@]})) || targets=(sweep record safetensors qkv ncu)

step "build"
cmake -S . -B build/fuzz -G Ninja -DATTNLAB_FUZZ=ON -DBUILD_TESTING=OFF -DCMAKE_BUILD_TYPE=None \
  -DCMAKE_CXX_COMPILER="${CXX:-clang++-14}" >/dev/null
cmake --build build/fuzz --parallel "$JOBS" --target attnlab_fuzz

# seeds TARGET prints folders with inputs to start from.
seeds() {
  echo "tests/fuzz/corpus/$1"
  case $1 in
    sweep) echo sweeps ;;
    safetensors) echo tests/fuzz/corpus/qkv ;;
  esac
}

dictionary() {
  case $1 in qkv) set -- safetensors ;; esac
  cat tests/fuzz/json.dict "tests/fuzz/$1.dict"
}

mkdir -p build/fuzz/findings
export ASAN_OPTIONS=quarantine_size_mb=16:detect_leaks=1
for target in "${targets[@]}"; do
  step "$target ($runs inputs)"
  learned=build/fuzz/learned/$target
  mkdir -p "$learned"
  dictionary "$target" >"build/fuzz/$target.dict"
  mapfile -t folders < <(seeds "$target")
  log=build/fuzz/$target.log
  if ! "build/fuzz/${target}_fuzz" -runs="$runs" -max_len=8192 -timeout=5 -malloc_limit_mb=4 \
    -rss_limit_mb=512 -dict="build/fuzz/$target.dict" -artifact_prefix=build/fuzz/findings/ \
    -print_final_stats=1 "$learned" "${folders[@]}" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "$target: a finding; the whole log is $log" >&2
    exit 1
  fi
  grep -E '^Done|stat::(number_of_executed|average_exec|slowest_unit|peak_rss)' "$log"
done
