#!/usr/bin/env bash
# Runs attnlab profile on the emulated GPU, under an ncu that writes down its arguments and starts
# the program: looks at what is launched while profilers watch, and at the exit code.
#   build/cpu/emulated tests/emulator/profile_test.sh ATTNLAB
set -euo pipefail
attnlab=$1

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir bin
cat >bin/ncu <<'END'
#!/usr/bin/env bash
printf '%s\n' "$@" >arguments
while [[ $1 == -* ]]; do
  case $1 in
    --nvtx | --force-overwrite) shift ;;
    *) shift 2 ;;
  esac
done
export ATTNLAB_EMULATED_LOG=log
exec "$@"
END
chmod +x bin/ncu
export PATH=$PWD/bin:$PATH

# profile KERNELS OPTIONS... profiles a small point.
profile() {
  rm -f log arguments
  "$attnlab" profile --kernel "$1" --dtype f16 --head-dim 64 --heads 1 --seqlen 64 --mask causal \
    --protocol "warmup_seconds=0,warmup_launches=${warmups:-1}" "${@:2}" >out
}
# count LINE counts in the part of the log that comes in.
count() { grep -c "^$1\$" || true; }

profile v2
command=$(head -n 1 out)
[[ $command == "ncu --target-processes application-only "*" --cache-control none "*" run "* ]] ||
  fail "the first line is not the command: $command"
[[ ncu\ $(tr '\n' ' ' <arguments) == "$command " ]] || fail "another command ran: $(<arguments)"
[[ $(tr '\n' ' ' <out) == *' ok: fwd/f16/'*'/v2/cuda/'* ]] || fail "the point was not run: $(<out)"

# Exactly the kernels of one launch lie between start and stop.
watched() { sed -n '/^profiler start$/,/^profiler stop$/p' log | count launch; }
starts() { count 'profiler start' <log; }
[[ $(watched) == 1 && $(starts) == 1 ]] || fail "$(watched) launches of $(starts) starts: $(<log)"
[[ $(count 'profiler stop' <log) == 1 ]] || fail "the profiler was not stopped"

# The launches that warm up come before.
before() { sed '/^profiler start$/q' log | count launch; }
with_one=$(before)
warmups=5 profile v2
[[ $(before) == $((with_one + 4)) ]] || fail "$(before) launches before, of one warm-up $with_one"
[[ $(watched) == 1 ]] || fail "$(watched) launches are watched behind five warm-ups"

# Each kernel has a span for all of its kernels.
profile v2 --pass bwd
[[ $(watched) -gt 1 && $(starts) == 1 ]] || fail "a backward has several kernels: $(<log)"
profile v1,v2
[[ $(starts) == 2 && $(count 'profiler stop' <log) == 2 ]] || fail "two kernels: $(<log)"

# Cold caches are the tool's work.
profile v2 --protocol cache=cold
[[ $(grep -x -A 1 -e --cache-control arguments | tail -n 1) == all ]] || fail "cold is not all"

# The exit code is that of the run.
code=0
profile minimal || code=$?
[[ $code == 3 ]] || fail "a kernel that cannot run ended with $code"
echo "profiled: all is well"
