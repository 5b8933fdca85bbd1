#!/bin/sh
# Slurm's Epilog: after the node's last job its agent takes the devices back,
# unless someone else cordoned or drained the node. It never fails. Jobs whose
# own epilog did not run, as when slurmd was killed, are over too once Slurm has
# ended them; as HealthCheckProgram, without a job, it finds them by itself.
# shellcheck source-path=SCRIPTDIR
. "${0%/*}/common.sh"

# is_over JOB: nothing of it runs here, and Slurm does not have it here either.
is_over() {
  ! grep -qsa "^slurmstepd: \[$1\." /proc/[0-9]*/cmdline || return 1
  command -v squeue >/dev/null || return 0
  if found=$(squeue -h -j "$1" -w "$host" -o %T 2>&1); then
    [ -z "$found" ]
  else
    case $found in *"Invalid job id"*) ;; *) return 1 ;; esac
  fi
}

for job in $(ls "$jobs"); do
  if [ "$job" = "$SLURM_JOB_ID" ] || is_over "$job"; then
    rm -f "$jobs/$job"
  fi
done
[ -z "$(ls "$jobs")" ] || exit 0
case "$(member hold.reason)" in
  "slurm: "*) ucudnn resume "$(member id)" >/dev/null ;;
esac
exit 0
