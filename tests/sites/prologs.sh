#!/usr/bin/env bash
# The scripts for Slurm as slurmd runs them, without Slurm: jobs whose epilog
# never ran, nodes with full and short names, and nodes without an agent. slurm.sh
# runs them under Slurm itself.
#
#   prologs.sh BIN_FOLDER
set -euo pipefail
export PATH=$1:$PATH
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$tmp"' EXIT
fail() {
  echo "prologs.sh: $*" >&2
  tail -n 5 "$tmp"/*.log >&2
  exit 1
}
source tests/support/await.sh

ucudnn-coord serve --database sqlite::memory: --listen 127.0.0.1:0 \
  --http 127.0.0.1:0 --ready-file "$tmp/ready" 2>"$tmp/coordinator.log" &
await "the coordinator serves" test -s "$tmp/ready"
grpc=$(sed 's/.*"grpc_port":\([0-9]*\).*/\1/' "$tmp/ready")
export UCUDNN_COORDINATOR=127.0.0.1:$grpc UCUDNN_SLURM_STATE=$tmp/state
export UCUDNN_AGENT_SETTINGS=$tmp/settings
echo "UCUDNN_COORDINATOR=$UCUDNN_COORDINATOR" >"$tmp/settings"
state() { ucudnn nodes --filter "node=$1" -o jsonpath='{[*].state}'; }
is() { [ "$(state "$1")" = "$2" ]; }
for node in n1 n2.cluster.example n20.cluster.example; do
  ucudnn-agent --id "$node" --cpu-threads 1 2>"$tmp/agent-$node.log" &
  await "$node is online" is "$node" online
done
slurm() { SLURM_JOB_ID=$2 SLURMD_NODENAME=$3 bash "deploy/slurm/$1.sh"; }

# The epilog of job 101 never runs. Job 103 runs beside 102.
slurm prolog 101 n1
slurm prolog 102 n1
is n1 cordoned || fail "n1 does not yield to jobs"
mkdir "$tmp/slurm"
cat >"$tmp/slurm/squeue" <<'SH'
#!/bin/sh
case " $* " in
  *" 101 "*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;;
  *" 103 "*) [ -e "${0%/*}/ended" ] || echo RUNNING ;;
  *) echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1 ;;
esac
SH
chmod +x "$tmp/slurm/squeue"
export PATH=$PATH:$tmp/slurm
slurm prolog 103 n1
slurm epilog 102 n1
is n1 cordoned || fail "n1 is $(state n1) while job 103 runs"
# As its HealthCheckProgram, once 103 has ended without an epilog too.
touch "$tmp/slurm/ended"
SLURMD_NODENAME=n1 bash deploy/slurm/epilog.sh
is n1 online || fail "n1 is $(state n1) after all jobs: $(ls "$tmp/state/n1")"
# What Slurm does not tell is not taken for an end.
slurm prolog 104 n1
SLURMD_NODENAME=n1 bash deploy/slurm/epilog.sh
is n1 cordoned || fail "n1 is $(state n1) while nobody knows of job 104"
slurm epilog 104 n1
is n1 online || fail "n1 is $(state n1) after job 104"

# Agents may have full names where Slurm has short ones, and the reverse.
slurm prolog 105 n2
is n2.cluster.example cordoned || fail "n2.cluster.example does not yield"
is n20.cluster.example online || fail "n20 yields for n2"
slurm epilog 105 n2
is n2.cluster.example online || fail "n2.cluster.example is not given back"
slurm prolog 106 n1.cluster.example
is n1 cordoned || fail "n1 does not yield as n1.cluster.example"
slurm epilog 106 n1.cluster.example

# No agent: it would measure beside the job.
! slurm prolog 107 n3 2>"$tmp/said.log" || fail "the prolog of n3 does not fail"
grep -q "no agent has the name of node 'n3'.*UCUDNN_NODE" "$tmp/said.log" ||
  fail "the prolog of n3 does not say what to do"
echo "UCUDNN_NODE=n1" >>"$tmp/settings"
slurm prolog 108 n3
is n1 cordoned || fail "the agent that UCUDNN_NODE names does not yield"
# Without a coordinator the agent has no work, and the job starts.
echo "UCUDNN_COORDINATOR=127.0.0.1:1" >"$tmp/settings"
slurm prolog 109 n3 2>>"$tmp/said.log" || fail "a prolog fails for its coordinator"
echo "ok the scripts for Slurm"
