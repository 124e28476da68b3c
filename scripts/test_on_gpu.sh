#!/usr/bin/env bash
# Runs the test suite, with the GPU's tests, on a machine with a GPU that lacks some packages and
# may reach no network: carry them there with a copy of the tree.
#
#   scripts/test_on_gpu.sh --pack
#       where packages can be had: downloads into .packages (which git ignores) what a CUDA image
#       usually lacks: Highway, valijson and Boost.Context
#   scripts/test_on_gpu.sh COMMIT [FOLDER [--mutants]]
#       on the GPU machine, in a copy of the tree with .packages: unpacks them there, builds, runs
#       the whole suite but the tables of wrong kernels, which say nothing of a machine, then what
#       says how fast something is. COMMIT (12 digits or more) names what is tested, since history
#       does not travel with a copy; logs go to FOLDER (default: build). With --mutants also the
#       tables, those of a GPU among them: minutes more
#
# On a machine with several GPUs each runs its share of the GPU's tests, side by side.
# JOBS=N limits compile jobs and tests side by side (default: all cores).
#
# Exit: 0 all tests pass, 1 some fail, 2 COMMIT is none, 3 attnlab finds no GPU.
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
case ${1:-} in -h | --help | "") help && exit ;; esac

carried=(libhwy-dev libhwy1 libvalijson-dev libboost-context1.74-dev libboost1.74-dev
         libboost-context1.74.0)
if [[ $1 == --pack ]]; then
  mkdir -p .packages
  (cd .packages && apt-get -qq download "${carried[@]}")
  ls -sh .packages/*.deb
  exit
fi

[[ $1 =~ ^[0-9a-f]{12,40}$ ]] || {
  echo "test_on_gpu.sh: COMMIT '$1': give 12 digits, as git rev-parse --short=12 HEAD prints" >&2
  exit 2
}
export ATTNLAB_COMMIT=$1
logs=${2:-build}
mkdir -p "$logs"
step "unpack"
unpacked=$(mktemp -d)  # the test of an installed attnlab hides the tree
for package in .packages/*.deb; do dpkg-deb -x "$package" "$unpacked"; done
prefix=$unpacked/usr
sed -i "s#^prefix=/usr\$#prefix=$prefix#" "$prefix"/lib/*/pkgconfig/*.pc
export CMAKE_PREFIX_PATH=$prefix PKG_CONFIG_PATH LD_LIBRARY_PATH
PKG_CONFIG_PATH=$(echo "$prefix"/lib/*/pkgconfig)
LD_LIBRARY_PATH=${PKG_CONFIG_PATH%/pkgconfig}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
step "configure"
cmake --preset cpu
# build [TARGET...]: builds these targets, everything without one.
build() {
  cmake --build --preset cpu --parallel "$JOBS" "${@/#/--target=}" >>"$logs/build.log" 2>&1 || {
    grep -E -A5 'FAILED|error' "$logs/build.log" | head -60
    return 1
  }
}
: >"$logs/build.log"
step "build what the GPU's tests need ($JOBS jobs)"
build gpu_test

# tests NAME ARGUMENTS OF ctest...: logs them in NAME.log, and shows failures and the slowest here.
failed=0
tests() {
  local log=$logs/$1.log
  shift
  ctest --preset cpu --output-on-failure --no-tests=error "$@" >"$log" 2>&1 || failed=1
  sed -n '/tests passed/,$p' "$log"
  awk '/^ *[0-9]+\/[0-9]+ Test/ && $(NF-1) >= 10 {
    gsub(/\.\.+/, " "); print "  " $(NF-1) " s " $4 }' "$log" | sort -rn
}
list=$(./build/cpu/attnlab list --format json | python3 -c '
import json, sys
print("\n".join(d["name"] for d in json.load(sys.stdin)["devices"] if d["backend"] == "cuda"))')
mapfile -t devices <<<"$list"
IFS=, read -ra visible <<<"${CUDA_VISIBLE_DEVICES:-}"  # what the user leaves to these tests
[[ -n $list ]] || { ./build/cpu/attnlab doctor --backend cuda; exit 3; }
# The GPU's tests are few and wait for one another: they begin while the rest is built, and the
# build and the other tests leave them the processor. ctest's own list of failures covers one of
# the runs; the logs have all.
step "the GPU's tests; beside them the rest is built and tested"
(
  renice -n 19 $BASHPID >/dev/null
  sleep 5  # the other ctest reads what there is meanwhile
  build || exit
  echo "-- the rest is built after $((SECONDS - step_began)) s"
  tests processor --label-exclude 'gpu|mutants' --parallel "$JOBS"
  exit $failed
) &
running=($!)
for gpu in "${!devices[@]}"; do
  (
    export CUDA_VISIBLE_DEVICES=${visible[gpu]:-$gpu}
    tests "gpu-$gpu" --label-regex 'gpu(-alone)?$' --parallel $((1 + JOBS / ${#devices[@]})) \
      -I "$((gpu + 1)),,${#devices[@]}"
    exit $failed
  ) &
  running+=($!)
done
for part in "${running[@]}"; do wait "$part" || failed=1; done
step "tests of speed, one by one"
tests speed --label-regex gpu-speed
if [[ ${3:-} == --mutants ]]; then
  step "wrong kernels"
  tests mutants --label-regex mutants --parallel "$JOBS"
fi
step "commit $ATTNLAB_COMMIT on ${#devices[@]} x ${devices[0]}: $( ((failed)) && echo "tests fail" || echo "all pass")"
exit $failed
