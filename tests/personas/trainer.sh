#!/usr/bin/env bash
# Someone who trains: what a job refuses to start with, what is seen of it after
# another plan, and what happens when a rank is silent and when its node goes down.
#
#   trainer.sh ROOT PYTHON
source "$(dirname "$0")/common.sh" "$1"
python=$2
project=$(cd "$(dirname "$0")/project" && pwd)
printf 'job-timeout-ms = 5000\nreport-after-ms = 100\n' >"$tmp/own.toml"
settings=$tmp/own.toml
start_coordinator
export UCUDNN_COORDINATOR=127.0.0.1:$grpc
start_agent node-1 --cpu-threads 1
ucudnn networks put small "$tmp/small.csv"
for batch in 4 8; do
  for ranks in 1 2; do
    ucudnn plan --network small --batch $batch --ranks $ranks --workspace-limit 1MiB >"$tmp/plan"
  done
done

train=("$python" "$project/train.py" "$tmp")
says "network or network_file is required" "${train[@]}"
says "does not know network 'smal'" "${train[@]}" network=smal
says "rank 1 has precision=BF16" \
  mpirun -n 2 "${train[@]}" "network_file=$tmp/small.csv" "precision=FP32|BF16"

mpirun -n 2 "${train[@]}" network=small workspace_limit=1MiB \
  </dev/null >"$tmp/train.log" 2>&1 &
daemons+=($!)
told() { ucudnn jobs -o "jsonpath={[0].$1}"; }
is() { [ "$(told "$1")" = "$2" ]; }
await "the job runs" is state running
await "rank 1 runs" test -s "$tmp/rank1"
job=$(told id)

# Another plan, which lists and details then tell.
ucudnn replan "$job" --batch 4 >/dev/null
await "the new batch is listed" is request.batch 4
says "at batch 4" ucudnn show job "$job"

reports() { ucudnn show job "$job" | grep -Eq '^ +1 +cpu-.* 2 +[0-9]+ +50\.0 ms'; }
await "rank 1 reports steps of the new plan" reports

# A silent rank has a plan without it proposed, until it reports again.
kill -STOP "$(cat "$tmp/rank1")"
await "a plan without rank 1 is proposed" is proposed_revision 3
kill -CONT "$(cat "$tmp/rank1")"
await "the proposal is withdrawn" is proposed_revision 0

# The agent offers one device, but both ranks are on its host.
says "ranks 0, 1" ucudnn drain node-1 --reason fans
touch "$tmp/stop"
await "the job ends" is state finished
echo "ok trainer"
