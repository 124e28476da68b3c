#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job: the kernels there are, verified and timed
# over a few lengths, head dims, masks and block sizes, as a table and as records in results/. With
# a GPU: on both the CPU and the GPU, and last both side by side.
#
#   scripts/demo.sh [ARGUMENTS OF attnlab run...]
#   scripts/demo.sh --kernel naive --mask causal
#
# JOBS=N limits the compile jobs (default: all cores). PRESET=NAME builds that preset in place of
# cpu.
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
case ${1:-} in -h | --help) help && exit ;; esac

preset=${PRESET:-cpu}
attnlab=./build/$preset/attnlab

has_gpu() {
  "$attnlab" list --format json | python3 -c \
    'import json, sys; sys.exit(all(d["backend"] != "cuda" for d in json.load(sys.stdin)["devices"]))'
}

set_up "$preset" attnlab
if ! has_gpu; then
  step "run sweeps/quick.json"
  "$attnlab" run sweeps/quick.json "$@"
  exit
fi
records=results/demo-$(date -u +%Y%m%dT%H%M%SZ).jsonl
status=0
for backend in cpu cuda; do
  step "run sweeps/quick.json --backend $backend"
  "$attnlab" run sweeps/quick.json --backend "$backend" --out "$records" "$@" || status=$?
done
step "CPU and GPU side by side: the kernels that run on both"
for pass in fwd bwd fwdbwd; do
  printf '\n%s\n' "$pass"
  "$attnlab" table "$records" --cols backend,kernel --value time_ms \
    --where "pass=$pass" --where kernel=naive,minimal || true  # arguments may leave none
done
exit $status
