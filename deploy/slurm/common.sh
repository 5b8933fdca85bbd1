# What prolog.sh and epilog.sh share. Slurm runs both as root on each node of a
# job; a failure would drain the node, so neither fails, whatever the coordinator
# does: an agent without one has no work.

# Where the agent's environment names the coordinators, over TLS the agent's
# certificate, with which it may cordon and resume its own node, and, if the
# agent has another name than the node, UCUDNN_NODE.
settings=${UCUDNN_AGENT_SETTINGS:-/etc/default/ucudnn-agent}
# shellcheck disable=SC1090
[ ! -r "$settings" ] || . "$settings"
export UCUDNN_COORDINATOR UCUDNN_CA UCUDNN_CERT UCUDNN_KEY
node=${UCUDNN_NODE:-$SLURMD_NODENAME}
# A file for each job on the node.
jobs=${UCUDNN_SLURM_STATE:-/run/ucudnn-slurm}/$node
mkdir -p "$jobs"
exec 9>"$jobs.lock"
flock 9

# member PATH: of this node, such as state or hold.reason.
member() {
  ucudnn nodes --filter "node=$node" -o "jsonpath={[*].$1}" 2>/dev/null
}
