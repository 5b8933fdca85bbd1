#!/bin/sh
# Slurm's TaskProlog: tells each task where the coordinator is, unless the job
# says so itself.
settings=${UCUDNN_AGENT_SETTINGS:-/etc/default/ucudnn-agent}
given=$UCUDNN_COORDINATOR
# shellcheck disable=SC1090
[ ! -r "$settings" ] || . "$settings"
coordinator=${given:-$UCUDNN_COORDINATOR}
[ -z "$coordinator" ] || echo "export UCUDNN_COORDINATOR=$coordinator"
