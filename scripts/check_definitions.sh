#!/usr/bin/env bash
# Checks that each name of the program has one definition (C++'s one-definition rule): links all
# objects of attnlab with the types of their sources at hand (-flto -Wodr). Two types of one name
# are an error there, and at run time one would stand in for the other. Needs GCC.
#
# The objects are those of the preset asan, in which types are kept: nothing is compiled where its
# tests were built. JOBS=N limits compile jobs (default: all cores).
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
case ${1:-} in -h | --help) help && exit ;; esac

step "configure (asan)"
cmake --preset asan
step "build and link ($JOBS jobs)"
cmake --build --preset asan --parallel "$JOBS" --target attnlab_one_definition
