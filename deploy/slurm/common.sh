# What prolog.sh and epilog.sh share. Slurm runs both as root on each node of a
# job; one that fails drains the node.

# Where the agent's environment names the coordinators, over TLS the agent's
# certificate, with which it may cordon and resume its own node, and, if the
# agent has another name than the node, UCUDNN_NODE. A PATH there finds Slurm's
# commands and ours, where they are not in the usual folders.
settings=${UCUDNN_AGENT_SETTINGS:-/etc/default/ucudnn-agent}
# shellcheck disable=SC1090
[ ! -r "$settings" ] || . "$settings"
export PATH UCUDNN_COORDINATOR UCUDNN_CA UCUDNN_CERT UCUDNN_KEY
host=${SLURMD_NODENAME:-$(uname -n)}
node=${UCUDNN_NODE:-$host}
# A file for each job on the node.
jobs=${UCUDNN_SLURM_STATE:-/run/ucudnn-slurm}/$node
mkdir -p "$jobs"
exec 9>"$jobs.lock"
flock 9

# member PATH: of this node's agent, such as id, state or hold.reason.
member() {
  ucudnn nodes --filter "node=$node" -o "jsonpath={[*].$1}"
}
