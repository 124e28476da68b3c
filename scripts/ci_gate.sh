#!/usr/bin/env bash
# Gates a pull request: builds a base commit in a git worktree and the tree as it stands, and lets
# the two take turns on this machine over sweeps/gate.json, with --backend cpu over
# sweeps/gate-cpu.json. .github/workflows/gate.yml runs it; it runs anywhere else as well.
#
#   scripts/ci_gate.sh BASE_COMMIT OUT_FOLDER [ARGUMENTS OF gate...]
#   scripts/ci_gate.sh "$(git merge-base main HEAD)" build/gate --backend cpu
#
# OUT_FOLDER gets the logs of both builds, and of the gate the records of both sides, gate.xml
# (JUnit), summary.md and benchmark.json. JOBS=N limits compile jobs (default: all cores).
#
# Exit: as attnlab gate (see its --help); 2 BASE_COMMIT is none, 3 one of the two does not build.
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
source "$(dirname "${BASH_SOURCE[0]}")/worktree.sh"
case ${1:-} in -h | --help) help && exit ;; esac
(($# >= 2)) || { help && exit 2; }

base=$(commit_of "$1") || {
  echo "ci_gate.sh: BASE_COMMIT '$1' is no commit" >&2
  exit 2
}
out=$2
shift 2
mkdir -p "$out"
# Files of an older run are removed: they would be shown if this one writes none.
rm -f "$out"/{summary.md,gate.xml,benchmark.json} "$out"/{base,head}*.{jsonl,txt}

# build WHICH FOLDER: builds it; the summary says so where it does not build.
build() {
  build_in "$2" "$out/build-$1.log" && return
  echo "The gate did not run: $1 does not build, see build-$1.log." | tee "$out/summary.md"
  exit 3
}

step "build base, $(git log -1 --format='%h %s' "$base")"
add_worktree "$base"
build base "$work/tree"
step "build head, $(git log -1 --format='%h %s')"
build head .
step "gate"
code=0
./build/cpu/attnlab gate --against "$work/tree/build/cpu/attnlab" \
  --out "$out/" --junit "$out/gate.xml" --summary "$out/summary.md" \
  --benchmark-json "$out/benchmark.json" "$@" || code=$?
[[ -s $out/summary.md ]] ||
  echo "The gate ended with $code before it wrote a summary: see its log." >"$out/summary.md"
step "the gate ends with $code"
exit $code
