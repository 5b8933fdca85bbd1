#!/bin/sh
# Slurm's Prolog: the node's agent yields its devices to the job. It takes no
# more measurements, and the job starts when the one that runs has ended, or
# after half a minute. Without a coordinator the agent has no work; the job
# starts. In slurm.conf:
#
#   Prolog=/usr/share/ucudnn/slurm/prolog.sh
#   Epilog=/usr/share/ucudnn/slurm/epilog.sh
#   TaskProlog=/usr/share/ucudnn/slurm/task_prolog.sh
#   PrologFlags=Alloc
# shellcheck source-path=SCRIPTDIR
. "${0%/*}/common.sh"

touch "$jobs/$SLURM_JOB_ID"
agent=$(member id) || exit 0
if [ -z "$agent" ]; then
  # It would measure beside the job.
  echo "ucudnn: no agent has the name of node '$node': give UCUDNN_NODE in" \
    "$settings the agent's, as 'ucudnn nodes' lists it" >&2
  rm -f "$jobs/$SLURM_JOB_ID"
  exit 1
fi
# Whoever holds the node already keeps it.
[ "$(member state)" = online ] || exit 0
ucudnn cordon "$agent" --reason "slurm: job $SLURM_JOB_ID" >/dev/null || exit 0
tries=0
while ucudnn devices --filter "node=$node" --no-headers | grep -q ' measuring ' &&
  [ $tries -lt 120 ]; do
  sleep 0.25
  tries=$((tries + 1))
done
exit 0
