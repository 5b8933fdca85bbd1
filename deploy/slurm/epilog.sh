#!/bin/sh
# Slurm's Epilog: after the node's last job its agent takes the devices back,
# unless someone else cordoned or drained the node.
# shellcheck source-path=SCRIPTDIR
. "${0%/*}/common.sh"

rm -f "$jobs/$SLURM_JOB_ID"
[ -z "$(ls "$jobs")" ] || exit 0
case "$(member hold.reason)" in
  "slurm: "*) ucudnn resume "$node" >/dev/null ;;
esac
exit 0
