#!/usr/bin/env bash
# An operator: checks settings, watches readiness and metrics, takes a node out
# and back, cancels work, reloads, kills the coordinator, restores a backup, and
# finds who did what.
#
#   operator.sh ROOT
source "$(dirname "$0")/common.sh" "$1"

says "no errors found" ucudnn-coord check "$root/etc/ucudnn/coordinator.toml"
printf 'lease-ms = 5\n' >"$tmp/wrong.toml"
says "wrong.toml:1: lease-ms" ucudnn-coord check "$tmp/wrong.toml"
printf 'listen = "0.0.0.0:7460"\n' >"$tmp/wrong.toml"
says "everybody who reaches it" ucudnn-coord check "$tmp/wrong.toml"

cp "$settings" "$tmp/own.toml"
settings=$tmp/own.toml
start_coordinator
export UCUDNN_COORDINATOR=127.0.0.1:$grpc
says "is in use by process $coordinator" ucudnn-coord serve --listen 127.0.0.1:0 \
  --http 127.0.0.1:0 --database "sqlite://$tmp/coordinator.db"
[ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$http/readyz")" = 200 ] ||
  fail "the coordinator is not ready"
start_agent node-1 --cpu-threads 1
curl -s "http://127.0.0.1:$http/metrics" >"$tmp/metrics"
says "ucudnn_agents_online 1" cat "$tmp/metrics"
# Alerts and the dashboard look at metrics that there are.
deploy=$(dirname "$0")/../../deploy/monitoring
for metric in $(grep -oh 'ucudnn_[a-z_]*' "$deploy"/* | sort -u); do
  # The administrator's coordinator has certificates.
  [ "$metric" != ucudnn_certificate_expires_timestamp_seconds ] || continue
  grep -q "^$metric[ {]" "$tmp/metrics" || fail "there is no metric $metric"
done

# A cordoned node measures nothing; what is requested waits for it.
says "node node-1 is cordoned" ucudnn cordon node-1 --reason "new fans"
says "new fans" ucudnn nodes
ucudnn networks put small "$tmp/small.csv"
says "none of their devices takes work" ucudnn plan --network small --batch 2 --workspace-limit 1MiB --dry-run
says "cancel" ucudnn measure --network small --batch 2 --workspace-limit 1MiB --no-wait --wait-for-device
says "pending" ucudnn tasks -o json
[ "$(ucudnn tasks --state running -o name | wc -l)" = 0 ] || fail "a cordoned node measures"
says "measurements cancelled" ucudnn cancel 1 --reason "wrong batch"
says "node node-1 is online" ucudnn resume nod  # only one begins so
says "--reason is required" ucudnn drain node-1
says "node node-1 is draining" ucudnn drain node-1 --reason "moves" --deadline 4
says "hold deadline  in 4 h" ucudnn show node node-1
says "none found" ucudnn jobs
says "node node-1 is online" ucudnn resume node-1
says "there is no node 'nobody'" ucudnn cordon nobody
says "there is no node 'node1'; did you mean node-1?" ucudnn cordon node1
ucudnn history -o json >"$tmp/history.json"
python3 -c '
import json, sys
done = [entry["what"] for entry in json.load(open(sys.argv[1]))]
for what in ("cordon", "cancel", "resume", "drain"):
    assert any(what in each for each in done), (what, done)
' "$tmp/history.json"

plan=(ucudnn plan --network small --batch 2 --workspace-limit 1MiB)
says "conv2" "${plan[@]}"

# A reload, then a kill: the plan is still there.
printf 'log-level = "debug"\n' >>"$tmp/own.toml"
kill -HUP "$coordinator"
await "the reload is logged" grep -q event=reloaded "$tmp/coordinator.log"
kill -9 "$coordinator"
wait "$coordinator" 2>/dev/null || true
start_coordinator
says "conv2" ucudnn show plan 1

# A backup of the running database, restored after a loss.
sqlite3 "$tmp/coordinator.db" ".backup $tmp/backup.db"
kill "$coordinator"
wait "$coordinator"
rm "$tmp"/coordinator.db*
cp "$tmp/backup.db" "$tmp/coordinator.db"
start_coordinator
says "conv2" ucudnn show plan 1
await "the agent comes back" online
says "conv2" "${plan[@]}"

# The agent ends well within its unit's limit.
kill "$agent"
wait "$agent" || fail "the agent ends with status $?"
await "the node is gone" sh -c "ucudnn nodes -o jsonpath={[*].state} | grep -q gone"
says "node node-1 removed" ucudnn nodes rm node-1
says "none found" ucudnn nodes
echo "ok operator"
