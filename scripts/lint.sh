#!/usr/bin/env bash
# Checks formatting and include rules; with --tidy also runs clang-tidy.
#
#   scripts/lint.sh                      a few seconds
#   scripts/lint.sh --tidy [FILE.cpp...] of all sources, or of these: minutes
#
# clang-tidy reads build/cpu/compile_commands.json. JOBS=N limits how many run side by side (default:
# all cores). Version 14 of both tools is meant: others format and judge differently.
# scripts/setup.sh --dev installs them.
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
case ${1:-} in -h | --help) help && exit ;; esac

# sources SUFFIX...: tracked and new files, null-terminated; files just deleted are left out.
sources() {
  git ls-files -z --cached --others --exclude-standard -- "$@" |
    while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done
}

# What this build compiles: not the fuzz targets, nor what stands for CUDA where it is left out.
built_sources() {
  local file
  sources '*.cpp' | while IFS= read -r -d '' file; do
    ! grep -qF "/$file\"" build/cpu/compile_commands.json || printf '%s\0' "$file"
  done
}

tidy() {
  cmake --preset cpu >/dev/null
  cmake --build --preset cpu --target attnlab_build_info  # a header that sources include
  if (($#)); then printf '%s\0' "$@"; else built_sources; fi |
    xargs -0 -n 1 -P "$JOBS" clang-tidy-14 -p build/cpu --quiet --warnings-as-errors='*' \
      2> >(grep -v 'warnings\? generated' >&2)
}

step "format"
sources '*.h' '*.cuh' '*.cpp' '*.cu' | xargs -0 clang-format-14 --dry-run --Werror
step "include rules"
./scripts/check_includes.py --self-test
./scripts/check_includes.py --compiler "${CXX:-g++}"
if [[ ${1:-} == --tidy ]]; then
  shift
  step "clang-tidy ($JOBS jobs)"
  tidy "$@"
fi
step "lint: good"
