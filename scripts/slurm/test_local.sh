#!/bin/bash
# Proves scripts/slurm/sweep.sbatch on a real Slurm of one machine, from the distribution's packages
# slurm-wlm and munge: an array whose program is killed, and whose task is killed, ends in a merged
# file that has each key of the sweep once. Needs root; skipped with words where it cannot run. Ends
# every process that it started, by its id.
#   scripts/slurm/test_local.sh ATTNLAB
set -euo pipefail
attnlab=$(realpath "$1")
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
daemons=()
finish() {
  # Steps of jobs are processes of their own, which end with their jobs.
  if [[ -n ${SLURM_CONF-} ]] && scancel --quiet --user root 2>/dev/null; then
    for ((i = 0; i < 50; ++i)); do
      [[ -n $(squeue -h 2>/dev/null) ]] || break
      sleep 0.2
    done
  fi
  for ((i = ${#daemons[@]} - 1; i >= 0; --i)); do
    kill "${daemons[i]}" 2>/dev/null || true
    wait "${daemons[i]}" 2>/dev/null || true
  done
  rm -rf "$folder"
}
trap finish EXIT
fail() {
  echo "FAILED: $*" >&2
  tail -n 20 "$folder"/*.log >&2
  exit 1
}

# wait_for SECONDS WHAT COMMAND...
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
daemons+=($!)
wait_for 10 "munged" test -S "$folder/munge/socket"

host=$(hostname -s)
port=$((20000 + RANDOM % 20000))
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
JobRequeue=1
RequeueExit=75
ReturnToService=2
SlurmdTimeout=10
MpiDefault=none
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF=$folder/slurm.conf
slurmctld -c -D >>"$folder/slurmctld.log" 2>&1 &
daemons+=($!)
slurmd -D >>"$folder/slurmd.log" 2>&1 &
daemons+=($!)
is_up() { [[ $(sinfo -h -o %t 2>/dev/null) =~ ^(idle|mix|alloc) ]]; }
wait_for 30 "node" is_up

# --- a sweep of twelve cases in three shards, two killed ------------------------------------------
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
job=$(submit --array=1-3 "$here/sweep.sbatch" 3 "$sweep" "$out" --threads 1)

# pids_of WORDS: the process with these words, which name the folder of this test.
pids_of() { pgrep -f -- "$1" || true; }
has_records() { [[ -s $out/$1.jsonl ]]; }
wait_for 60 "first record of shard 1" has_records 1
program=$(pids_of "run $sweep --shard 1/3")
[[ -n $program ]] || fail "no program of shard 1"
kill -9 $program
echo "killed the program of shard 1"
wait_for 90 "first record of shard 2" has_records 2
program=$(pids_of "run $sweep --shard 2/3")
[[ -n $program ]] || fail "no program of shard 2"
script=$(ps -o ppid= -p "$program")
kill -9 $script
cat "$out"/[12].jsonl >"$folder/before.jsonl"
echo "killed the task of shard 2"
queue_is_empty() { [[ -z $(squeue -h -j "$1" 2>/dev/null) ]]; }
wait_for 120 "end of the array" queue_is_empty "$job"
grep -q 'to be queued again' "$folder/task-1.log" || fail "shard 1 was not queued again"

# A batch script that was killed is not queued again by Slurm: somebody starts the shard again.
again=$(submit --array=2 "$here/sweep.sbatch" 3 "$sweep" "$out" --threads 1)
merge=$(submit --dependency=afterany:"$again" "$here/sweep.sbatch" merge "$out")
wait_for 90 "merge" queue_is_empty "$merge"

python3 - "$out/all.jsonl" "$folder/before.jsonl" <<'END' || fail "the merged file is not whole"
import json, sys
merged, before = ([line for line in open(file) if line.endswith("}\n")] for file in sys.argv[1:])
keys = [json.loads(line)["key"] for line in merged]
if not len(keys) == len(set(keys)) == 24:
    sys.exit(f"{len(keys)} records of {len(set(keys))} points, not 24 of 24")
lost = set(before) - set(merged)
if not before or lost:
    sys.exit(f"{len(lost)} of {len(before)} records from before the kills are lost")
END
echo "24 points, each key once"

# --- a file that another program has: nothing is written, and the task runs later ----------------
taken=$folder/taken
mkdir "$taken"
: >"$taken/3.jsonl"
flock "$taken/3.jsonl" sleep 8 &
holder=$!
beside=$(submit --array=3 "$here/sweep.sbatch" 3 "$sweep" "$taken" --threads 1)
was_refused() { grep -q 'is writing to it' "$folder/task-3.log"; }
wait_for 60 "refusal of a second writer" was_refused
[[ ! -s $taken/3.jsonl ]] || fail "a second writer wrote"
wait "$holder"
wait_for 90 "end of the task that was refused" queue_is_empty "$beside"
[[ -s $taken/3.jsonl ]] || fail "the task that was refused was not queued again"
echo "a second writer wrote nothing, and ran later; $SECONDS s in all"
