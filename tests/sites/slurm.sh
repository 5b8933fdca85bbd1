#!/usr/bin/env bash
# Slurm itself: munged, slurmctld and two slurmd with the prologs of
# the package ucudnn, beside a coordinator and an agent for each node. The hetjob
# example trains over both partitions with the plan of the coordinator, the
# agents yield their devices to it and take them back, and a node that a person
# cordoned stays so.
#
#   slurm.sh ROOT      with the packages installed in ROOT, which packages_test
#                      leaves in build/ci/installed/root; 20 to 70 s seen
#
# Needs root for mount namespaces, and Debian's slurmctld, slurmd, slurm-client
# and munge; without them it says so and exits with status 77.
source "$(dirname "$0")/../personas/common.sh" "$1"
deploy=$root/usr/share/ucudnn/slurm

for program in slurmctld slurmd munged srun sbatch; do
  PATH=$PATH:/usr/sbin command -v $program >/dev/null ||
    { echo "slurm.sh: not run: there is no $program"; exit 77; }
done
export PATH=$PATH:/usr/sbin
unshare -m true 2>/dev/null ||
  { echo "slurm.sh: not run: no mount namespace can be made"; exit 77; }

start_coordinator
export UCUDNN_COORDINATOR=127.0.0.1:$grpc
start_agent n1 --cpu-threads 1
start_agent n2 --cpu-threads 2
both_online() { [ "$(ucudnn devices -o jsonpath='{[*].state}' | grep -c idle)" = 2 ]; }
await "both agents are online" both_online
# The kinds of n1 and n2, which are unlike.
kind() { ucudnn devices --filter "node=$1" -o jsonpath='{[*].kind}'; }
[ "$(kind n1)" != "$(kind n2)" ] || fail "both nodes are $(kind n1)"

cat >"$tmp/net.csv" <<'CSV'
name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups
conv1,8,12,12,16,3,3,1,1,1,1,1
CSV
training=(--network "$tmp/net.csv" --batch 4)
ucudnn networks put net "$tmp/net.csv"
# What a job asks for, so that its measurements are there.
ucudnn plan --network net --batch 4 --memory-budget 1GiB --ranks 2 \
  --device-kind "$(kind n1)" --device-kind "$(kind n2)" \
  >/dev/null 2>"$tmp/measure.log" || fail "measuring fails"

# The site. slurmd's folders differ by node, and each sees its own in a mount
# namespace: PMIx needs one name for all.
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }
printf 'UCUDNN_COORDINATOR=%s\n' "$UCUDNN_COORDINATOR" >"$tmp/agent.env"
for script in prolog epilog task_prolog; do
  cat >"$tmp/$script" <<SH
#!/bin/sh
export PATH=$PATH LD_LIBRARY_PATH=$LD_LIBRARY_PATH HOME=$tmp
export UCUDNN_AGENT_SETTINGS=$tmp/agent.env UCUDNN_SLURM_STATE=$tmp/jobs
exec $deploy/$script.sh
SH
  chmod +x "$tmp/$script"
done
mkdir -p "$tmp"/{state,spool,pmix,n1/spool,n1/pmix,n2/spool,n2/pmix}
chmod 755 "$tmp"
cat >"$tmp/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$(port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$tmp/munge.socket
StateSaveLocation=$tmp/state
SlurmdSpoolDir=$tmp/spool
SlurmctldPidFile=$tmp/slurmctld.pid
SlurmdPidFile=$tmp/%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1
ReturnToService=2
Prolog=$tmp/prolog
Epilog=$tmp/epilog
TaskProlog=$tmp/task_prolog
PrologFlags=Alloc
GresTypes=gpu
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$(port) CPUs=2 Gres=gpu:1
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$(port) CPUs=2 Gres=gpu:1
PartitionName=h200 Nodes=n1
PartitionName=a100 Nodes=n2
CONF
# Any character device will do.
echo "NodeName=n[1-2] Name=gpu File=/dev/null" >"$tmp/gres.conf"
echo "PMIxCliTmpDirBase=$tmp/pmix" >"$tmp/mpi.conf"
export SLURM_CONF=$tmp/slurm.conf
dd if=/dev/urandom of="$tmp/munge.key" bs=128 count=1 2>/dev/null
chmod 600 "$tmp/munge.key"
munged --foreground --force --key-file="$tmp/munge.key" \
  --socket="$tmp/munge.socket" --pid-file="$tmp/munge.pid" \
  --seed-file="$tmp/munge.seed" --log-file="$tmp/munge.log" 2>/dev/null &
daemons+=($!)
await "munged answers" munge -S "$tmp/munge.socket" -n
slurmctld -D -f "$SLURM_CONF" >"$tmp/slurmctld.log" 2>&1 &
daemons+=($!)
for name in n1 n2; do
  unshare -m sh -c "mount --bind $tmp/$name/spool $tmp/spool &&
    mount --bind $tmp/$name/pmix $tmp/pmix &&
    exec slurmd -D -N $name -f $SLURM_CONF" >"$tmp/slurmd-$name.log" 2>&1 &
  daemons+=($!)
done
nodes_idle() { [ "$(sinfo -h -N -t idle -o %N | sort -u | wc -l)" = 2 ]; }
await "both nodes are idle" nodes_idle

# The example, as a user submits it, who knows no coordinator.
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo
unset_coordinator() { env -u UCUDNN_COORDINATOR "$@"; }
nodes_free() { [ "$(ucudnn nodes -o jsonpath='{[*].state}' | grep -c online)" = 2 ]; }
unset_coordinator sbatch --wait --output="$tmp/job.out" --error="$tmp/job.log" \
  "$deploy/hetjob.sbatch" "${training[@]}" --memory-budget 1GiB \
  --threads 1,2 --steps 3 -o json >"$tmp/sbatch.log" 2>&1 ||
  { cat "$tmp/job.out"; fail "the job fails"; }
python3 - "$tmp/job.out" "$(kind n1)" "$(kind n2)" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
kinds = [rank["device_kind"] for rank in report["ranks"]]
assert kinds == sys.argv[2:], kinds
assert report["source"] == "coordinator", (report["source"], report.get("reason"))
assert sum(rank["batch"] for rank in report["ranks"]) == 4, report["ranks"]
print("ok shares", [rank["batch"] for rank in report["ranks"]])
PY
await "the agents take their devices back" nodes_free
ucudnn history -o json >"$tmp/history.json"
python3 - "$tmp/history.json" <<'PY'
import json, sys
texts = [json.dumps(entry) for entry in json.load(open(sys.argv[1]))]
for node in ("n1", "n2"):
    for what, why in (("cordon", "slurm: job"), ("resume", "")):
        assert any(node in t and what in t and why in t for t in texts), (node, what, texts)
PY

# While jobs run, the node is theirs; it stays so until the last has ended, and
# a node that a person holds stays held. The jobs end with this folder.
state() { ucudnn nodes --filter "node=$1" -o jsonpath='{[*].state}'; }
is() { [ "$(state "$1")" = "$2" ]; }
first=$(sbatch --parsable -p h200 -n 1 --output=/dev/null --wrap "while [ -d $tmp ] && [ ! -e $tmp/first ]; do sleep 0.1; done")
second=$(sbatch --parsable -p h200 -n 1 --output=/dev/null --wrap "while [ -d $tmp ] && [ ! -e $tmp/second ]; do sleep 0.1; done")
both_run() { [ "$(squeue -h -t running -o %i | sort | xargs)" = "$first $second" ]; }
await "two jobs run" both_run
await "n1 is cordoned while jobs run" is n1 cordoned
is n2 online || fail "n2 is $(state n2) without a job"
touch "$tmp/first"
ended() { [ -z "$(squeue -h -j "$1" -o %T 2>/dev/null)" ]; }
await "the first job ends" ended "$first"
is n1 cordoned || fail "n1 is $(state n1) before the last job has ended"
touch "$tmp/second"
await "n1 is free again" is n1 online
ucudnn cordon n2 --reason "new fans" >/dev/null
srun -p a100 -n 1 true 2>>"$tmp/srun.log" || fail "srun fails"
no_jobs() { [ -z "$(ls "$tmp/jobs/n2")" ]; }
await "the epilog of n2 has run" no_jobs
is n2 cordoned || fail "the epilog resumed a node that a person cordoned"
says "new fans" ucudnn nodes
echo "ok slurm, after $SECONDS s"
