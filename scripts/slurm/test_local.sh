#!/bin/bash
# Proves scripts/slurm/sweep.sbatch on a real Slurm of one machine, from the distribution's packages
# slurm-wlm and munge: an array whose program is killed, and whose task is killed, ends in a merged
# file that has each key of the sweep once; a second writer of a file writes nothing, also where
# every lock is granted. Needs root; skipped with words where it cannot run. Ends every process that
# it started, by its id.
#   scripts/slurm/test_local.sh ATTNLAB             less than a minute
#   scripts/slurm/test_local.sh ATTNLAB --daemons   slurmd and slurmctld are killed instead; minutes
set -euo pipefail
attnlab=$(realpath "$1")
part=${2-}
here=$(dirname "$(realpath "$0")")

for program in munged slurmctld slurmd sbatch; do
  PATH=$PATH:/usr/sbin command -v $program >/dev/null || {
    echo "skipped: no $program: apt-get install slurm-wlm munge"
    exit
  }
done
PATH=$PATH:/usr/sbin
if ((EUID != 0)); then
  echo "skipped: slurmd needs root"
  exit
fi

folder=$(mktemp -d)
munged='' controller='' node=''
# pids_of WORDS: prints the processes with these words, which name the folder of this test.
pids_of() { pgrep -f -- "$1" || true; }
# end_child ID [SIGNAL]: signals the child, if there is one, and waits until it has ended.
end_child() {
  [[ -n $1 ]] || return 0
  kill "${2--TERM}" "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}
finish() {
  # Steps of jobs are processes of their own, which end with their jobs.
  if [[ -n $controller ]] && timeout 10 scancel --quiet --user root 2>/dev/null; then
    for ((i = 0; i < 50; ++i)); do
      [[ -n $(timeout 10 squeue -h 2>/dev/null) ]] || break
      sleep 0.2
    done
  fi
  end_child "$node"
  end_child "$controller"
  end_child "$munged"
  # Nothing told the programs of a killed daemon to end, so they are killed here.
  for process in $(pids_of "$folder/"); do kill -9 "$process" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap finish EXIT
fail() {
  echo "FAILED: $*" >&2
  tail -n 20 "$folder"/*.log >&2
  exit 1
}

# wait_for SECONDS WHAT COMMAND...: waits until the command succeeds, else fails with "no WHAT".
wait_for() {
  local left=$(($1 * 5)) what=$2
  shift 2
  until "$@"; do
    ((left-- > 0)) || fail "no $what"
    sleep 0.2
  done
}

# --- a Slurm of its own ---------------------------------------------------------------------------
chmod 755 "$folder"
mkdir "$folder"/{munge,state,spool}
dd if=/dev/urandom of="$folder/munge/key" bs=1024 count=1 status=none
chmod 600 "$folder/munge/key"
chown -R munge "$folder/munge"
chmod 755 "$folder/munge"
setpriv --reuid munge --regid munge --clear-groups munged --foreground \
  --key-file="$folder/munge/key" --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" \
  --seed-file="$folder/munge/seed" --log-file="$folder/munge/log" >"$folder/munged.log" 2>&1 &
munged=$!
wait_for 10 "munged" test -S "$folder/munge/socket"

host=$(hostname -s)
port=$((20000 + RANDOM % 20000))
gres='' gpu=()
if mknod "$folder/gpu0" c 1 3 2>/dev/null && mknod "$folder/gpu1" c 1 3 2>/dev/null; then
  echo "NodeName=$host Name=gpu File=$folder/gpu[0-1]" >"$folder/gres.conf"
  gres='Gres=gpu:2' gpu=(--gres=gpu:1)
else
  echo "mknod is refused here: without fake GPUs (gres)"
fi
cat >"$folder/slurm.conf" <<END
ClusterName=attnlab
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthInfo=cred_expire=5,socket=$folder/munge/socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobRequeue=1
RequeueExit=75
ReturnToService=2
SlurmdTimeout=10
MpiDefault=none
GresTypes=gpu
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) $gres State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF=$folder/slurm.conf
start_controller() {
  slurmctld -D "$@" >>"$folder/slurmctld.log" 2>&1 &
  controller=$!
}
start_node() {
  slurmd -D >>"$folder/slurmd.log" 2>&1 &
  node=$!
}
start_controller -c
start_node
is_up() { [[ $(sinfo -h -o %t 2>/dev/null) =~ ^(idle|mix|alloc)$ ]]; }
wait_for 30 "node" is_up

# --- a sweep of twelve cases in three shards ------------------------------------------------------
sweep=$folder/sweep.json out=$folder/out
cat >"$sweep" <<'END'
{"schema": "attnlab.sweep/1", "name": "slurm", "backend": "cpu",
 "axes": {"kernel": ["naive", "v2"], "heads": 1, "head_dim": 8, "block": "16x16",
          "seqlen": "8:64:x2", "mask": ["none", "causal", "window:3:0"]},
 "protocol": {"min_rounds": 1, "max_rounds": 1, "warmup_seconds": 0.5}}
END
mkdir "$out"
submit() {
  ATTNLAB=$attnlab sbatch --parsable --chdir="$folder" --output="$folder/task-%a.log" \
    --open-mode=append "$@"
}
# submit_shards ARRAY FOLDER [FLAG...]: submits these shards, whose records go to FOLDER.
submit_shards() {
  local array=$1 records=$2
  shift 2
  submit --array="$array" "${gpu[@]}" "$here/sweep.sbatch" 3 "$sweep" "$records" --threads 1 "$@"
}
submit_merge() { submit --dependency=afterany:"$1" "$here/sweep.sbatch" merge "$out"; }

has_records() { [[ -s $out/$1.jsonl ]]; }
is_over() { [[ $(squeue -h -j "$1" 2>&1) =~ ^$|Invalid\ job\ id ]]; }
was_said() { grep -q "$2" "$folder/task-$1.log"; }
# starts_of SHARD: prints Slurm's number of each start.
starts_of() { sed -n 's/^sweep.sbatch: shard .* restart \([0-9]*\), .*/\1/p' "$folder/task-$1.log"; }
count_starts() { starts_of "$1" | wc -l; }
# program_of SHARD: prints its id.
program_of() { pids_of "run $sweep --shard $1/3"; }
# keep_for_later SHARD...: keeps their whole lines.
keep_for_later() {
  for shard; do grep '}$' "$out/$shard.jsonl" >>"$folder/before.jsonl"; done
}
check_merged() {
  python3 - "$out/all.jsonl" "$folder/before.jsonl" <<'END' || fail "the merged file is not whole"
import json, sys
merged, before = ([line.rstrip("\n") for line in open(file)] for file in sys.argv[1:])
keys = [json.loads(line)["key"] for line in merged]
if not len(keys) == len(set(keys)) == 24:
    sys.exit(f"{len(keys)} records of {len(set(keys))} points, not 24 of 24")
lost = set(before) - set(merged)
if not before or lost:
    sys.exit(f"{len(lost)} of {len(before)} records from before the kills are lost")
END
  echo "24 points, each key once"
}

# --- a program and a task are killed --------------------------------------------------------------
test_kills() {
  local job program again merge
  job=$(submit_shards 1-3 "$out")
  wait_for 60 "first record of shard 1" has_records 1
  program=$(program_of 1)
  kill -9 "$program"
  keep_for_later 1
  echo "killed the program of shard 1"
  wait_for 90 "first record of shard 2" has_records 2
  program=$(program_of 2)
  kill -9 "$(($(ps -o ppid= -p "$program")))"
  keep_for_later 2
  echo "killed the task of shard 2"
  wait_for 120 "end of the array" is_over "$job"
  was_said 1 'to be queued again' || fail "shard 1 was not queued again"
  if ((${#gpu[@]})); then
    { was_said 1 ', GPU 0$' && was_said 2 ', GPU 1$'; } || fail "two tasks had no GPU each"
    echo "each of two tasks had a GPU of its own"
  fi

  # Slurm does not queue a killed batch script again: here the shard is submitted once more.
  again=$(submit_shards 2 "$out")
  merge=$(submit_merge "$again")
  wait_for 90 "merge" is_over "$merge"
  check_merged
}

# --- a file that another program has: nothing is written, and the task runs later -----------------
# hold SHARD PRELOADED: starts a program, $held, which begins to write to the shard's file, and a
# task, $task, which wants to. PRELOADED is a library that both get.
hold() {
  mkdir "$folder/taken$1"
  : >"$folder/task-$1.log"
  LD_PRELOAD=$2 "$attnlab" run "$sweep" --shard "$1/3" --resume "$folder/taken$1/$1.jsonl" \
    --threads 1 --protocol warmup_seconds=60 >"$folder/held$1.log" 2>&1 &
  held=$!
  wait_for 30 "first writer" test -e "$folder/taken$1/$1.jsonl"
  task=$(LD_PRELOAD=$2 submit_shards "$1" "$folder/taken$1" --protocol warmup_seconds=0)
}
# check_refusal SHARD PROGRAM: checks that the task was refused, and ends the program.
check_refusal() {
  wait_for 60 "refusal of a second writer" was_said "$1" 'is writing to it'
  wait_for 10 "second queueing" was_said "$1" 'attnlab ended with 3 before'
  [[ ! -s $folder/taken$1/$1.jsonl ]] || fail "a second writer wrote"
  end_child "$2" -KILL
}
# check_later SHARD TASK: checks that the task ran after all.
check_later() {
  wait_for 90 "end of the task that was refused" is_over "$2"
  [[ $(wc -l <"$folder/taken$1/$1.jsonl") == 8 ]] || fail "what was refused did not run later"
}
test_second_writers() {
  local held task first first_task
  hold 1 ''
  first=$held first_task=$task
  c++ -shared -fPIC "$here/../../tests/no_locks.cpp" -o "$folder/no_locks.so"
  # AddressSanitizer's runtime wants to be the first library, which a preloaded one is instead.
  export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0
  hold 2 "$folder/no_locks.so"
  check_refusal 1 "$first"
  check_refusal 2 "$held"
  check_later 1 "$first_task"
  echo "a second writer wrote nothing, and ran later"
  check_later 2 "$task"
  echo "so did one where every lock is granted"
}

# --- the daemons are killed -----------------------------------------------------------------------
# The tasks last a minute, so that Slurm takes their machine for dead meanwhile.
test_daemons() {
  local job merge
  job=$(submit_shards 1-3 "$out" --protocol warmup_seconds=8)
  wait_for 90 "first record of shard 1" has_records 1
  wait_for 90 "first record of shard 2" has_records 2
  end_child "$node" -KILL
  keep_for_later 1 2
  echo "killed slurmd at $SECONDS s"
  is_queued_again() { squeue -h -r -j "$job" -t PENDING -o %K 2>/dev/null | grep -qx 1; }
  wait_for 180 "second queueing of shard 1" is_queued_again
  echo "shard 1 is queued again at $SECONDS s"
  start_node
  is_started_again() { (($(count_starts 1) > 1)); }
  wait_for 240 "second start of shard 1" is_started_again
  echo "shard 1 is started again at $SECONDS s"
  end_child "$controller" -KILL
  echo "killed slurmctld at $SECONDS s"
  sleep 5
  start_controller
  wait_for 60 "node after slurmctld was killed" is_up
  wait_for 400 "end of the array" is_over "$job"
  for shard in 1 2 3; do
    echo "shard $shard was started $(count_starts $shard) times, as restarts" \
      "$(starts_of $shard | paste -sd ' ')"
  done
  merge=$(submit_merge "$job")
  wait_for 90 "merge" is_over "$merge"
  check_merged

  # A task that has finished may run again, as after a controller that died before it noted the end.
  # The job's number alone would name the whole array, so the task is named.
  local before
  before=$(cat "$out"/[123].jsonl | sha256sum)
  scontrol requeue "${job}_3"
  wait_for 240 "end of the task that ran again" is_over "$job"
  was_said 3 'has all of them: nothing is left to run' || fail "shard 3 does not say that it is whole"
  [[ $(cat "$out"/[123].jsonl | sha256sum) == "$before" ]] || fail "a second run changed records"
  merge=$(submit_merge "$job")
  wait_for 90 "second merge" is_over "$merge"
  check_merged
  echo "a finished task ran again, said so, and changed nothing"
}

if [[ $part == --daemons ]]; then
  test_daemons
else
  test_kills
  test_second_writers
fi
echo "$SECONDS s in all"
