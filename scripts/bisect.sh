#!/usr/bin/env bash
# Finds the commit that made a sweep slower, or the tree of kernel texts that did, by a binary
# search: in each step it and the good end take turns on this machine, and attnlab gate judges.
#
#   scripts/bisect.sh [--verification] GOOD BAD SWEEP [ARGUMENTS OF gate...]
#       drives git bisect run in a worktree of its own, so that the checkout is left alone. Each
#       commit is built and judged by its own attnlab gate SWEEP --against the program of GOOD; one
#       that does not build is skipped
#   scripts/bisect.sh [--verification] --texts FOLDER [--attnlab FILE] SWEEP [ARGUMENTS OF gate...]
#       searches without git: FOLDER holds trees of kernel texts, the oldest one first in the order
#       of their names. One program judges all: FILE gate SWEEP --kernel-sources FOLDER/NAME
#       --against FOLDER/FIRST (default of FILE: build/cpu/attnlab)
#
#   scripts/bisect.sh v0.1 HEAD sweeps/quick.json --backend cpu --kernel v2
#
# A step is good where the gate ends with 0, bad with 4, and skipped with anything else. A step that
# fails verification (1) is skipped as well, or bad with --verification. Paths are given as from the
# tree's root. JOBS=N limits compile jobs (default: all cores). BISECT_BUILD=COMMAND builds in place
# of CMake: it runs in the worktree's root and leaves build/cpu/attnlab.
#
# Exit: 0 found, 1 BAD is not bad, so there is nothing to find, 2 bad arguments, 3 GOOD or BAD does
# not build, BAD cannot be judged, or git bisect stops, 5 those that are left were skipped: it is
# one of them.
worktree=$PWD  # git bisect run starts --judge there
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
source "$(dirname "${BASH_SOURCE[0]}")/worktree.sh"
build_command=${BISECT_BUILD:-$build_command}

end_with() {
  echo "bisect.sh: $2" >&2
  exit "$1"
}

# title COMMIT: prints its short hash and its subject.
title() { git log -1 --format='%h %s' "$1"; }

# judge NAME COMMAND...: sets $verdict to what the gate's code means for NAME: good, bad or skip.
judge() {
  local name=$1 code=0
  shift
  "$@" || code=$?
  case $code in
    0) verdict=good ;;
    1) verdict=$verification_failed ;;
    4) verdict=bad ;;
    130 | 143) exit $code ;;  # somebody stopped it
    *) verdict=skip ;;
  esac
  echo "-- $name: $verdict (the gate ends with $code)"
}

# judge_end NAME COMMAND...: ends if the bad end is not bad, since then there is nothing to find.
judge_end() {
  judge "$@"
  case $verdict in
    good) end_with 1 "$1 is no worse than the good end: there is nothing to find" ;;
    skip) end_with 3 "$1 cannot be judged: see what the gate says above" ;;
  esac
}

search_commits() {
  (($# >= 3)) || end_with 2 "give GOOD, BAD and SWEEP, or --help"
  local good bad code=0
  good=$(commit_of "$1") || end_with 2 "GOOD '$1' is no commit"
  bad=$(commit_of "$2") || end_with 2 "BAD '$2' is no commit"
  [[ $good != "$bad" ]] || end_with 2 "GOOD and BAD are the same commit"
  [[ -f $3 ]] || end_with 2 "there is no sweep $3"
  shift 2
  step "build GOOD, $(title "$good")"
  add_worktree "$good"
  local tree=$work/tree
  build_in "$tree" "$work/build.log" || end_with 3 "GOOD does not build"
  cp "$tree/build/cpu/attnlab" "$work/good-attnlab"
  step "judge BAD, $(title "$bad")"
  git -C "$tree" checkout --quiet --detach "$bad"
  build_in "$tree" "$work/build.log" || end_with 3 "BAD does not build"
  judge_end BAD "$tree/build/cpu/attnlab" gate "$1" --against "$work/good-attnlab" "${@:2}"

  step "git bisect run"
  local flags=()
  [[ $verification_failed == skip ]] || flags=(--verification)
  git -C "$tree" bisect start "$bad" "$good" || end_with 3 "git bisect does not start"
  git -C "$tree" bisect run "$SCRIPT" "${flags[@]}" --judge "$work" "$@" || code=$?
  echo  # git's last line has no end
  step "what was judged"
  git -C "$tree" bisect log | grep '^# '
  local first
  first=$(title "$(git -C "$tree" rev-parse refs/bisect/bad)")
  case $code in
    0) echo "first bad: $first" ;;
    2) end_with 5 "some were skipped: the first bad one is $first or one that git lists above" ;;
    *) end_with 3 "git bisect stopped" ;;
  esac
}

# judge_commit WORK SWEEP [ARGUMENTS OF gate...]: is what git bisect run starts, with git's codes.
judge_commit() {
  local work=$1 name
  name=$(title "$(git -C "$worktree" rev-parse HEAD)")
  shift
  if ! build_in "$worktree" "$work/build.log"; then
    echo "-- $name: skip (it does not build)"
    exit 125
  fi
  judge "$name" "$worktree/build/cpu/attnlab" gate "$1" --against "$work/good-attnlab" "${@:2}"
  case $verdict in
    good) exit 0 ;;
    bad) exit 1 ;;
    skip) exit 125 ;;
  esac
}

# nearest: prints the place between good and bad, not skipped so far, nearest to their middle.
nearest() {
  local middle=$(((good + bad) / 2)) distance at
  for ((distance = 0; distance < bad - good; ++distance)); do
    for at in $((middle - distance)) $((middle + distance)); do
      if ((good < at && at < bad)) && [[ -z ${skipped[at]:-} ]]; then
        echo "$at"
        return
      fi
    done
  done
  return 1
}

search_texts() {
  (($# >= 1)) || end_with 2 "give SWEEP, or --help"
  [[ -f $1 ]] || end_with 2 "there is no sweep $1"
  [[ -x $attnlab ]] || end_with 2 "there is no program $attnlab"
  local folders=("$texts"/*/) good=0 bad skipped=() at
  local names=("${folders[@]%/}")
  names=("${names[@]##*/}")
  bad=$((${#names[@]} - 1))
  ((bad >= 1)) || end_with 2 "$texts holds no two folders"
  local command=("$attnlab" gate "$1" --against "$texts/${names[0]}" "${@:2}" --kernel-sources)

  step "judge the last, ${names[bad]}"
  judge_end "${names[bad]}" "${command[@]}" "$texts/${names[bad]}"
  while at=$(nearest); do
    step "judge ${names[at]}, one of $((bad - good - 1)) between ${names[good]} (good) and" \
      "${names[bad]} (bad)"
    judge "${names[at]}" "${command[@]}" "$texts/${names[at]}"
    case $verdict in
      good) good=$at ;;
      bad) bad=$at ;;
      skip) skipped[at]=yes ;;
    esac
  done
  step "the search ends"
  ((bad - good == 1)) ||
    end_with 5 "some were skipped: the first bad one is one of ${names[*]:good+1:bad-good}"
  echo "first bad: ${names[bad]}"
}

verification_failed=skip texts='' attnlab=build/cpu/attnlab search=search_commits
while [[ ${1:-} == -* ]]; do
  case $1 in
    -h | --help) help && exit ;;
    --verification) verification_failed=bad ;;
    --texts) texts=${2:-} search=search_texts && shift ;;
    --attnlab) attnlab=${2:-} && shift ;;
    --judge) search=judge_commit ;;
    *) end_with 2 "there is no option $1, see --help" ;;
  esac
  shift || end_with 2 "an option lacks its value, see --help"
done
"$search" "$@"
