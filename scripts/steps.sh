# Gives the scripts that source it the project's root, its options and steps that several of them
# take. Leaves the shell in the project's root. Every step ends with the time it took.

set -euo pipefail
SCRIPT=$(realpath "$0")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

JOBS=${JOBS:-$(nproc)}

step_began=
end_step() {
  [[ -z $step_began ]] || printf -- '-- %d s\n' $((SECONDS - step_began))
  step_began=
}
trap end_step EXIT

step() {
  end_step
  printf '\n== %s\n' "$*"
  step_began=$SECONDS
}

# Prints the comment block at the top of the script that was started, as its help.
help() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$SCRIPT"; }

# set_up PRESET [TARGET...]: goes from a bare machine to a build in build/PRESET.
set_up() {
  local preset=$1
  shift
  step "setup"
  ./scripts/setup.sh
  step "configure ($preset)"
  cmake --preset "$preset"
  step "build ($JOBS jobs)"
  cmake --build --preset "$preset" --parallel "$JOBS" ${1:+--target "$@"}
}
