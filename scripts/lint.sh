#!/usr/bin/env bash
# Checks formatting, include rules, text and where mutants edit; with --tidy also runs clang-tidy.
#
#   scripts/lint.sh                      a few seconds
#   scripts/lint.sh --tidy [FILE.cpp...] of all sources, or of these: minutes
#
# clang-tidy reads build/cpu/compile_commands.json, and remembers which sources it found good
# (scripts/tidy.py). JOBS=N limits how many run side by side (default: all cores). Version 14 of
# both tools is meant: others format and judge differently. scripts/setup.sh --dev installs them.
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
case ${1:-} in -h | --help) help && exit ;; esac

# sources SUFFIX...: tracked and new files, null-terminated; files just deleted are left out.
sources() {
  git ls-files -z --cached --others --exclude-standard -- "$@" |
    while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done
}

tidy() {
  cmake --preset cpu >/dev/null
  cmake --build --preset cpu --target attnlab_build_info  # a header that sources include
  ./scripts/tidy.py --jobs "$JOBS" build/cpu "$@"
}

step "format"
sources '*.h' '*.cuh' '*.cpp' '*.cu' | xargs -0 clang-format-14 --dry-run --Werror
step "include rules"
./scripts/check_includes.py --self-test
./scripts/check_includes.py --compiler "${CXX:-g++}"
step "text"
./scripts/check_text.py --self-test
./scripts/check_text.py
step "mutants: their edits fit the sources"
for backend in cpu cuda; do ./tests/mutants/mutants.py check --backend "$backend"; done
if [[ ${1:-} == --tidy ]]; then
  shift
  step "clang-tidy ($JOBS jobs)"
  tidy "$@"
fi
step "lint: good"
