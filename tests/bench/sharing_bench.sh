#!/usr/bin/env bash
# The time of AlexNet's campaign (batch 256, FP32, powers of two) with one, two
# and four equal devices: a real coordinator, and agents that replay an H200's
# recorded measurements in real time. Prints CSV; takes half a minute.
#
#   tests/bench/sharing_bench.sh [build/release]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/release}
tmp=$(mktemp -d)
pids=()
stop() {
  [ ${#pids[@]} = 0 ] || { kill "${pids[@]}" && wait "${pids[@]}"; } || true
  pids=()
}
trap 'stop 2>/dev/null; rm -rf "$tmp"' EXIT

await() {
  local i
  for ((i = 0; i < 300; ++i)); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.1
  done
  echo "sharing_bench.sh: waited too long for: $*" >&2
  return 1
}

has_devices() {
  [ "$("$build"/bin/ucudnn devices | grep -c ' idle ')" = "$1" ]
}

net=tests/data/networks/alexnet_torchvision.csv
awk -F, 'NR == 1 || $5 == "FP32"' tests/data/h200/alexnet_b256_pow2.csv \
  >"$tmp/profile.csv"
echo "devices,measuring_s,points"
for devices in 1 2 4; do
  "$build"/bin/ucudnn-coord serve --listen 127.0.0.1:0 --http 127.0.0.1:0 \
    --database "sqlite://$tmp/$devices.db" --create --ready-file "$tmp/$devices.ready" \
    2>>"$tmp/log" &
  pids+=($!)
  await test -s "$tmp/$devices.ready"
  UCUDNN_COORDINATOR=127.0.0.1:$(sed -n 's/.*"grpc_port":\([0-9]*\).*/\1/p' \
    "$tmp/$devices.ready")
  export UCUDNN_COORDINATOR
  "$build"/bin/ucudnn networks put alexnet $net >/dev/null
  for ((i = 0; i < devices; ++i)); do
    "$build"/tests/integration/recorded_agent \
      --coordinator "$UCUDNN_COORDINATOR" --id "agent-$i" \
      --profile "$tmp/profile.csv" --network $net --noise 0.005 --real-time \
      2>>"$tmp/log" &
    pids+=($!)
  done
  await has_devices "$devices"
  start=$EPOCHREALTIME
  "$build"/bin/ucudnn measure --network alexnet --batch 256 \
    --workspace-limit 64MiB >/dev/null 2>>"$tmp/log"
  seconds=$(echo "$start $EPOCHREALTIME" | awk '{ printf "%.2f", $2 - $1 }')
  points=$("$build"/bin/ucudnn profiles -o json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["points"])')
  echo "$devices,$seconds,$points"
  if "$build"/bin/ucudnn devices | grep 'than others'; then
    echo "sharing_bench.sh: equal devices were found unlike" >&2
    exit 1
  fi
  stop 2>/dev/null
done
