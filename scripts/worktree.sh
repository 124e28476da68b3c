# Gives scripts that build other commits (they source it after steps.sh) a git worktree in a
# temporary folder, so that the user's checkout keeps its files, its branch and its builds. Worktree
# and folder are removed when the script ends, also by Ctrl-C.

# This builds a folder of sources when it runs there; it leaves build/cpu/attnlab.
build_command="cmake --preset cpu && cmake --build --preset cpu --parallel $JOBS --target attnlab"
unset ATTNLAB_COMMIT  # it would give every commit the same name

# commit_of WORDS: prints its full hash; fails where it names none.
commit_of() { git rev-parse --verify --quiet --end-of-options "$1^{commit}"; }

# add_worktree COMMIT: makes the folder $work and the worktree $work/tree. A runner of GitHub
# empties $RUNNER_TEMP, however a job ends.
add_worktree() {
  work=$(mktemp -d --tmpdir="${RUNNER_TEMP:-${TMPDIR:-/tmp}}")
  trap 'end_step; remove_worktree' EXIT
  git worktree add --quiet --detach "$work/tree" "$1"
  local folder
  for folder in .cuda .packages; do  # scripts/setup.sh brings these into a tree
    [[ ! -e $folder ]] || ln -s "$PWD/$folder" "$work/tree/$folder"
  done
}

remove_worktree() {
  rm -rf "$work" 2>/dev/null || { sleep 1 && rm -rf "$work"; }  # a compiler may still be dying
  git worktree prune
}

# build_in FOLDER LOG: builds it; where that fails, shows what the compiler said and fails. The
# program of another commit is removed first, so that it cannot be taken for this one's.
build_in() {
  rm -f "$1/build/cpu/attnlab"
  (cd "$1" && bash -c "$build_command") >"$2" 2>&1 && [[ -x $1/build/cpu/attnlab ]] && return
  tail -n 20 "$2"
  return 1
}
