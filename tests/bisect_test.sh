#!/usr/bin/env bash
# Tests scripts/bisect.sh and scripts/ci_gate.sh on small repositories, in which a script stands for
# attnlab: its gate ends with the code that the commit's file "state" names.
#   tests/bisect_test.sh SOURCE_FOLDER
set -euo pipefail

source_folder=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder/tmp GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_{AUTHOR,COMMITTER}_NAME=tester GIT_{AUTHOR,COMMITTER}_EMAIL=tester@localhost
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE RUNNER_TEMP
mkdir "$TMPDIR"

fail() {
  echo "FAILED: $*" >&2
  sed 's/^/  | /' "$folder/said" >&2
  exit 1
}

# Builds the program that stands for attnlab, which keeps the state of the folder it was built in.
# Its gate ends with 99 where it is asked wrongly, or to compare with what is not the good end:
# the state of that is 0.
cat >"$folder/build" <<'BUILD'
state=$(cat state)
[ "$state" != no-build ] || { echo "state: error: does not compile"; exit 1; }
[ "$state" != no-program ] || exit 0
mkdir -p build/cpu
cat >build/cpu/attnlab <<PROGRAM
#!/bin/sh
state=$state
PROGRAM
cat >>build/cpu/attnlab <<'PROGRAM'
[ "$1" = state ] && echo "$state" && exit
[ "$1" = gate ] || exit 99
shift
[ "$1" != sweeps/gate.json ] || shift  # scripts/ci_gate.sh names none
[ "$1" = --against ] || exit 99
against=$2
echo "gate: $*"
if [ -d "$against" ]; then
  for folder in "$@"; do :; done  # --kernel-sources comes last
  [ "$(cat "$against/state")" = 0 ] || exit 99
  state=$(cat "$folder/state")
else
  [ "$("$against" state)" = 0 ] || exit 99
fi
[ "$state" != hang ] || { touch "$HANGS"; sleep 20; }
exit "$state"
PROGRAM
chmod +x build/cpu/attnlab
BUILD
export BISECT_BUILD="sh $folder/build" HANGS=$folder/hangs

# repository STATE... makes a commit for each, and a checkout with work in progress.
repository() {
  rm -rf "$folder/repository" "$HANGS"
  mkdir -p "$folder/repository"/{scripts,sweeps}
  cd "$folder/repository"
  git init --quiet --initial-branch=main
  echo build/ >.gitignore
  echo '{}' >sweeps/gate.json
  cp "$source_folder"/scripts/{steps,worktree,bisect,ci_gate}.sh scripts/
  git add .
  local number=0 state
  for state in "$@"; do
    number=$((number + 1))
    echo "$state" >state
    git add state
    git commit --quiet --allow-empty --message "commit $number"
    git tag "c$number"
  done
  echo "work in progress" >>.gitignore
  echo "a new file" >new
  before=$(checkout)
}

# checkout prints everything of it that must be the same afterwards.
checkout() {
  git rev-parse HEAD
  git symbolic-ref HEAD
  git for-each-ref
  git status --porcelain
  git diff
  git worktree list
  find . -path ./.git -prune -o -type f -print | sort
  ls -A "$TMPDIR"
}

is_untouched() { [[ $(checkout) == "$before" ]] || fail "$1: the checkout differs: $(checkout)"; }

# ends NAME CODE PART COMMAND... expects that the command ends with the code, says the part and
# leaves the checkout alone.
ends() {
  local name=$1 want=$2 part=$3 code=0
  shift 3
  "$@" >"$folder/said" 2>&1 || code=$?
  [[ $code == "$want" ]] || fail "$name: ends with $code, not $want"
  grep -qF -- "$part" "$folder/said" || fail "$name: does not say '$part'"
  is_untouched "$name"
  echo "ok $name"
}

# finds NAME FIRST_BAD COMMAND... expects that the search ends with it.
finds() {
  ends "$1" 0 "first bad: " "${@:3}"
  grep -qxE "first bad: ([0-9a-f]+ )?$2" "$folder/said" || fail "$1: $2 is not found"
}

# gates COUNT expects that a gate was asked so often.
gates() { [[ $(grep -c '^gate: ' "$folder/said") == "$1" ]] || fail "not $1 gates"; }

bisect() { scripts/bisect.sh "$@"; }

# --- commits --------------------------------------------------------------------------------------
repository 0 0 0 0 0 0 0 0 0 0 4 4 4 4 4 4
finds "a commit among 16" "commit 11" bisect c1 c16 sweeps/gate.json
gates 5
ends "arguments of the gate" 0 "--backend cpu --where a='b c'" \
  bisect c9 main sweeps/gate.json --backend cpu --where "a='b c'"
finds "neighbours" "commit 11" bisect c10 c11 sweeps/gate.json
ends "nothing to find" 1 "BAD is no worse than the good end" bisect c1 c10 sweeps/gate.json
ends "no commit" 2 "BAD 'c99' is no commit" bisect c1 c99 sweeps/gate.json
ends "no sweep" 2 "there is no sweep lost.json" bisect c1 c16 lost.json
ends "too few arguments" 2 "give GOOD, BAD and SWEEP" bisect c1 c16
ends "an unknown option" 2 "there is no option --fast" bisect --fast c1 c16 sweeps/gate.json
ends "the same commit twice" 2 "the same commit" bisect c3 c3 sweeps/gate.json

repository 0 0 0 0 5 0 0 no-build 3 0 4 2 4 4 4 4
finds "skips beside the commit" "commit 11" bisect c1 c16 sweeps/gate.json
grep -q 'commit 8: skip (it does not build)' "$folder/said" || fail "commit 8 is not skipped"
ends "BAD cannot be judged" 3 "BAD cannot be judged" bisect c1 c12 sweeps/gate.json
ends "BAD does not build" 3 "BAD does not build" bisect c1 c8 sweeps/gate.json
ends "GOOD does not build" 3 "GOOD does not build" bisect c8 c16 sweeps/gate.json

repository 0 0 5 no-build no-program 4
ends "only skips are left" 5 "commit 6 or one that git lists above" bisect c1 c6 sweeps/gate.json
ends "a build without a program" 3 "BAD does not build" bisect c1 c5 sweeps/gate.json

repository 0 0 0 0 0 0 0 0 0 1 1 1 4 4 4 4
ends "wrong results are skipped" 5 "some were skipped" bisect c1 c16 sweeps/gate.json
finds "wrong results are looked for" "commit 10" bisect --verification c1 c16 sweeps/gate.json
ends "a wrong BAD is no slower one" 3 "BAD cannot be judged" bisect c1 c10 sweeps/gate.json

repository 0 0 143 0 4
ends "a gate that somebody stops" 3 "git bisect stopped" bisect c1 c5 sweeps/gate.json

# It runs in a process group of its own, which gets the signal as a terminal sends it.
repository 0 0 hang 0 4
set -m
bisect c1 c5 sweeps/gate.json >"$folder/said" 2>&1 &
set +m
for ((tries = 0; tries < 100; ++tries)); do
  [[ ! -e $HANGS ]] || break
  sleep 0.05
done
[[ -e $HANGS ]] || fail "Ctrl-C: no gate runs"
[[ $(git worktree list | wc -l) == 2 ]] || fail "Ctrl-C: there is no worktree to remove"
kill -INT -- -$!
code=0
wait $! || code=$?
[[ $code == 130 ]] || fail "Ctrl-C: ends with $code, not 130"
is_untouched "Ctrl-C"
echo "ok Ctrl-C"

# --- kernel texts ---------------------------------------------------------------------------------
# trees STATE... makes a tree of kernel texts for each, texts/01, texts/02, ...
trees() {
  repository 0
  local number=0 state
  for state in "$@"; do
    number=$((number + 1))
    mkdir -p "texts/$(printf %02d $number)"
    echo "$state" >"texts/$(printf %02d $number)/state"
  done
  sh "$folder/build"
  before=$(checkout)
}
texts() { bisect --texts texts "$@"; }

trees 0 0 0 0 4 4 4 4 4 4 4 4 4 4 4 4
finds "a text among 16" 05 texts sweeps/gate.json --backend cuda
gates 5
grep -q -- ' --backend cuda --kernel-sources texts/05$' "$folder/said" || fail "an argument is lost"
mv build/cpu/attnlab other
before=$(checkout)
finds "another program" 05 texts --attnlab ./other sweeps/gate.json
ends "no program" 2 "there is no program build/cpu/attnlab" texts sweeps/gate.json
ends "an option without its value" 2 "lacks its value" bisect --texts
ends "no folder" 2 "lost holds no two folders" bisect --texts lost --attnlab ./other sweeps/gate.json
trees 0 0 0 0 0 0 5 3 0 2 0 4 4 4 4 4
finds "texts that are skipped" 12 texts sweeps/gate.json
trees 0 0 5 5 5 4 4
ends "only skipped texts are left" 5 "one of 03 04 05 06" texts sweeps/gate.json
trees 0 0 1 1 4
ends "wrong texts are skipped" 5 "one of 03 04 05" texts sweeps/gate.json
finds "wrong texts are looked for" 03 texts --verification sweeps/gate.json
trees 0 0 0
ends "no bad text" 1 "03 is no worse" texts sweeps/gate.json

# --- the gate of a pull request -------------------------------------------------------------------
mkdir "$folder/bin"
printf '#!/bin/sh\n[ "$1" = --preset ] || exec sh "%s"\n' "$folder/build" >"$folder/bin/cmake"
chmod +x "$folder/bin/cmake"
out=$folder/out
ci_gate() { PATH=$folder/bin:$PATH scripts/ci_gate.sh "$1" "$out" "${@:2}"; }

repository 0 4
mkdir -p build/cpu && touch build/cpu/attnlab  # of which the script makes head's
before=$(checkout)
ends "a slower head" 4 "the gate ends with 4" ci_gate c1 --backend cpu
grep -q -- "--out $out/ --junit $out/gate.xml --summary $out/summary.md" "$folder/said" ||
  fail "the gate is asked for no outputs"
grep -q -- "--backend cpu" "$folder/said" || fail "an argument is lost"
[[ $(<"$out/summary.md") == "The gate ended with 4 before"* ]] || fail "no summary"
ends "a base that is no commit" 2 "BASE_COMMIT 'c9' is no commit" ci_gate c9
repository no-build 0
ends "a base that does not build" 3 "base does not build" ci_gate c1
[[ $(<"$out/summary.md") == "The gate did not run: base does not build"* ]] || fail "no summary"
[[ $(<"$out/build-base.log") == *"does not compile"* ]] || fail "no log"
echo "ok what the runner keeps of a failed build"
