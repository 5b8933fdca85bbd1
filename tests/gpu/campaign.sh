# The measuring stages of run.sh: policies, sharing, judge, slices, failures.
# Sourced by it.
# shellcheck shell=bash disable=SC2154  # $out and $tmp are run.sh's

# Starts a coordinator with an empty database, and registers AlexNet.
begin_service() {
  rm -f "$tmp"/campaign.*
  .carry/bin/ucudnn-coord serve --listen 127.0.0.1:0 --http 127.0.0.1:0 \
    --database "sqlite://$tmp/campaign.db" --create --ready-file "$tmp/campaign.ready" \
    2>>"$out/campaign-coordinator.log" &
  coordinator=$!
  local i
  for ((i = 0; i < 100; ++i)); do
    [ -f "$tmp/campaign.ready" ] && break || sleep 0.1
  done
  UCUDNN_COORDINATOR=127.0.0.1:$(sed -n \
    's/.*"grpc_port":\([0-9]*\).*/\1/p' "$tmp/campaign.ready")
  export UCUDNN_COORDINATOR
  .carry/bin/ucudnn networks put alexnet "$net"
}

# Starts an agent with these arguments and waits until a device is idle.
begin_agent() {
  .carry/bin/ucudnn-agent "$@" 2>>"$out/campaign-agent.log" &
  agent=$!
  local i
  for ((i = 0; i < 100; ++i)); do
    .carry/bin/ucudnn devices | grep -q ' idle ' && break || sleep 0.2
  done
}

end_service() {
  kill "$agent" "$coordinator"
  wait "$agent" "$coordinator" || true
}

seconds_of() {
  local start=$EPOCHREALTIME
  "$@" >"$tmp/campaign.said" 2>"$tmp/campaign.why" ||
    cat "$tmp/campaign.why" >&2
  echo "$start $EPOCHREALTIME" | awk '{ printf "%.2f", $2 - $1 }'
}

# AlexNet at batch 256 (UCUDNN_BATCH), FP32: the cost of measuring under each
# policy, as wall time on one GPU, and the predicted time of its plans. `all` takes minutes
# and runs only if UCUDNN_POLICIES names it.
policies() {
  local net=tests/data/networks/alexnet_torchvision.csv policy limit seconds
  local batch=${UCUDNN_BATCH:-256}
  for policy in ${UCUDNN_POLICIES:-adaptive powerOfTwo}; do
    begin_service >/dev/null
    begin_agent --gpus 0
    echo "policy,limit_mib,measuring_s,predicted_us"
    for limit in ${UCUDNN_LIMITS:-64 32 96 128 256 512 16 8}; do
      seconds=$(seconds_of .carry/bin/ucudnn plan --network alexnet --batch "$batch" \
        --workspace-limit ${limit}MiB --batch-policy "$policy" -o json)
      python3 -c '
import json, sys
plan = json.load(open(sys.argv[1]))
print(*sys.argv[2:], plan["predicted_us"], sep=",")' \
        "$tmp/campaign.said" "$policy" "$limit" "$seconds"
    done
    .carry/bin/ucudnn profiles
    end_service
  done >"$out/policies.txt" 2>&1
}

# AlexNet's campaign by an agent with one GPU and by an agent with two, by turns.
# It begins once the device's model is measured, which one GPU does.
sharing() {
  local net=tests/data/networks/alexnet_torchvision.csv gpus seconds round kind i
  for round in 1 2 3; do
    for gpus in 0 0,1; do
      begin_service >/dev/null
      begin_agent --gpus $gpus
      kind=$(.carry/bin/ucudnn devices -o json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["kind"])')
      for ((i = 0; i < 150; ++i)); do
        .carry/bin/ucudnn show profile "$kind" && break || sleep 0.2
      done
      seconds=$(seconds_of .carry/bin/ucudnn plan --network alexnet \
        --batch "${UCUDNN_BATCH:-256}" --workspace-limit 64MiB \
        --batch-policy powerOfTwo)
      echo "round $round, GPUs $gpus: $seconds s"
      .carry/bin/ucudnn devices
      end_service
    done
  done >"$out/sharing.txt" 2>&1
  awk '/^round/ { sum[$4] += $5 } END {
    printf "two GPUs take %.3f of the time of one\n", sum["0,1:"] / sum["0:"]
  }' "$out/sharing.txt" | tee -a "$out/sharing.txt"
}

# The same with the legacy API and without a service: values the plans of all
# policies by the same times. `all` measures kernel by kernel, as far as
# UCUDNN_SECONDS (200) allow.
judge() {
  .carry/bin/ucudnn_gpu_policies --batch "${UCUDNN_BATCH:-256}" \
    --seconds "${UCUDNN_SECONDS:-200}" >"$out/judge.txt" 2>&1
}

# A network's measurements (UCUDNN_NETWORK, resnet152; UCUDNN_BATCH, 32), in FP32 and
# TF32, sizes that are powers of two: DIR/profile.csv.gz.
profile() {
  local network=${UCUDNN_NETWORK:-resnet152} batch=${UCUDNN_BATCH:-32} precision
  local net=tests/data/networks/$network.csv
  begin_service
  begin_agent --gpus 0
  for precision in FP32 TF32; do
    .carry/bin/ucudnn plan --network alexnet --batch "$batch" --precision "$precision" \
      --workspace-limit 1GiB --batch-policy powerOfTwo | tail -n 3
    .carry/bin/ucudnn profiles export --network alexnet | gzip >"$out/profile.csv.gz"
  done >"$out/profile.txt" 2>&1
  end_service
}

# Measures a slice as a device of its own kind, and runs a job on it.
slices() {
  local net=tests/data/networks/alexnet_torchvision.csv sms
  begin_service >"$out/slices.txt" 2>&1
  for sms in 32 64; do
    begin_agent --gpus 0 --slice sm=$sms --id "slice-$sms"
    .carry/bin/ucudnn devices
    kind=$(.carry/bin/ucudnn devices -o json | python3 -c '
import json, sys
print(*(d["kind"] for d in json.load(sys.stdin) if d["state"] == "idle"))')
    echo "== $kind"
    .carry/bin/ucudnn plan --network alexnet --batch 256 --device-kind "$kind" \
      --workspace-limit 64MiB --batch-policy adaptive
    UCUDNN_SLICE=sm=$sms mpirun --allow-run-as-root --bind-to none -np 1 \
      .carry/bin/ucudnn-train --network tests/data/onnx/resnet18.onnx \
      --batch 64 --memory-budget 4GiB --wait 300 --steps 10
    [ $sms = 64 ] && break
    kill "$agent"
    wait "$agent" || true
  done >>"$out/slices.txt" 2>&1
  end_service
}

failures() {
  .carry/bin/ucudnn_gpu_failures >"$out/failures.txt" 2>&1
}
