# Stage train of run.sh: data-parallel training on unlike ranks. Sourced there.
# shellcheck shell=bash disable=SC2154  # $out and $tmp are run.sh's

# ResNet-18 at batch 128, FP32, 64 MiB a kernel, on three ranks with 64, 32 and
# 16 multiprocessors: as planned, and evenly split. With three GPUs or more each
# rank has one of its own and all compute at once; on one GPU they compute in
# turns, each timed alone. Slices are measured one after the other, since an
# agent leaves a GPU alone that somebody else works on.
train() {
  local net=resnet18-3x224x224-1000 slices=(64 32 16) sms i agent coordinator
  local job=(--net resnet18 --batch 128 --workspace-limit 64MiB --images 512
    --rate 0.001 --measurements 10)
  .carry/bin/ucudnn-coord serve --listen 127.0.0.1:0 --http 127.0.0.1:0 \
    --database "sqlite://$tmp/train.db" --ready-file "$tmp/train.ready" \
    2>"$out/train-coordinator.log" &
  coordinator=$!
  for ((i = 0; i < 100; ++i)); do
    [ -f "$tmp/train.ready" ] && break || sleep 0.1
  done
  UCUDNN_COORDINATOR=127.0.0.1:$(sed -n \
    's/.*"grpc_port":\([0-9]*\).*/\1/p' "$tmp/train.ready")
  export UCUDNN_COORDINATOR UCUDNN_CACHE_DIR=$tmp/train-cache
  {
    .carry/bin/ucudnn-train "${job[@]}" --print-network >"$tmp/$net.csv"
    .carry/bin/ucudnn networks put $net "$tmp/$net.csv"
    for sms in "${slices[@]}"; do
      .carry/bin/ucudnn-agent --gpus 0 --slice "sm=$sms" --id "slice-$sms" \
        2>>"$out/train-agent.log" &
      agent=$!
      for ((i = 0; i < 100; ++i)); do
        .carry/bin/ucudnn devices | grep -q ' idle ' && break || sleep 0.2
      done
      local kind batch
      kind=$(.carry/bin/ucudnn devices -o json | python3 -c '
import json, sys
print(*(d["kind"] for d in json.load(sys.stdin) if d["state"] == "idle"))')
      # What the plan may use, and the even shares.
      for batch in 128 43 42; do
        echo "== $kind, batch $batch"
        date +%s.%N
        .carry/bin/ucudnn measure --network $net --batch $batch \
          --device-kind "$kind" --workspace-limit 64MiB
      done
      date +%s.%N
      kill $agent
      wait $agent || true
    done
    local split
    for split in planned even; do
      local ranks=()
      for sms in "${slices[@]}"; do
        ranks+=(: -np 1 -x "UCUDNN_SLICE=sm=$sms" .carry/bin/ucudnn-train
          "${job[@]}" --steps 12 -o json)
        if [ $split = even ]; then ranks+=(--even); fi
      done
      echo "== $split"
      mpirun --allow-run-as-root --bind-to none "${ranks[@]:1}" \
        >"$out/train-$split.json" || cat "$out/train-$split.json"
    done
    python3 tests/gpu/train_summary.py "$out/train-planned.json" \
      "$out/train-even.json"
  } >"$out/train.txt" 2>&1
  local status=$?
  kill $coordinator
  wait $coordinator || true
  return $status
}
