#!/usr/bin/env bash
# Checks that each name of the program has one definition (C++'s one-definition rule): links attnlab
# with the types of all sources at hand (-flto -Wodr). Two types of one name are an error there, and
# at run time one would stand in for the other. Needs GCC.
#
# JOBS=N limits compile jobs (default: all cores).
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
case ${1:-} in -h | --help) help && exit ;; esac

step "configure (odr)"
cmake --preset odr
step "build and link ($JOBS jobs)"
cmake --build --preset odr --parallel "$JOBS" --target attnlab
