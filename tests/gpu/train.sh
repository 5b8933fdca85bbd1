# Stage train of run.sh: data-parallel training on unlike ranks. Sourced there.
# shellcheck shell=bash disable=SC2154  # $out and $tmp are run.sh's

# The kind of the idle device of the agent named $1; waits for it.
kind_of() {
  local i kind
  for ((i = 0; i < 150; ++i)); do
    kind=$(.carry/bin/ucudnn devices -o json | python3 -c '
import json, sys
print(*(d["kind"] for d in json.load(sys.stdin)
        if d["agent_id"] == sys.argv[1] and d["state"] == "idle"))' "$1")
    if [ -n "$kind" ]; then break; fi
    sleep 0.2
  done
  [ -n "$kind" ] || echo "agent $1 has no idle device" >&2
  echo "$kind"
}

# measure_slice GPU SMS BATCH...: what plans for these batches may use.
measure_slice() {
  local gpu=$1 sms=$2 batch kind agent status=0
  shift 2
  .carry/bin/ucudnn-agent --gpus "$gpu" --slice "sm=$sms" --id "slice-$sms" \
    2>"$out/train-agent-$sms.log" &
  agent=$!
  kind=$(kind_of "slice-$sms")
  for batch in "$@"; do
    echo "== $kind, batch $batch"
    date +%s.%N
    .carry/bin/ucudnn measure --network "$net" --batch "$batch" \
      --device-kind "$kind" --workspace-limit 64MiB || status=1
  done
  date +%s.%N
  kill $agent
  wait $agent || true
  return $status
}

# ResNet-18 at batch 128, FP32, 64 MiB a kernel, on ranks with 64, 32 and 16
# multiprocessors: as planned, and evenly split. With as many GPUs as ranks each
# has one of its own, all compute at once, and with four there is a rank of 48
# multiprocessors too. On fewer GPUs all are slices of the first, compute in
# turns, each timed alone, and are measured one after the other, since an agent
# leaves a GPU alone that somebody else works on.
train() {
  local net=resnet18-3x224x224-1000 batch=128 slices=(64 32 16)
  local sms i gpus ranks split status=0 coordinator
  gpus=$(nvidia-smi -L | wc -l)
  if [ "$gpus" -ge 4 ]; then slices=(64 48 32 16); fi
  ranks=${#slices[@]}
  local job=(--net resnet18 --batch "$batch" --workspace-limit 64MiB --images 512
    --rate 0.001 --measurements 10)
  # The whole mini-batch, and the even shares.
  local batches=("$batch" $(((batch + ranks - 1) / ranks)))
  if ((batch % ranks)); then batches+=($((batch / ranks))); fi
  .carry/bin/ucudnn-coord serve --listen 127.0.0.1:0 --http 127.0.0.1:0 \
    --database "sqlite://$tmp/train.db" --ready-file "$tmp/train.ready" \
    2>"$out/train-coordinator.log" &
  coordinator=$!
  for ((i = 0; i < 100; ++i)); do
    if [ -f "$tmp/train.ready" ]; then break; fi
    sleep 0.1
  done
  UCUDNN_COORDINATOR=127.0.0.1:$(sed -n \
    's/.*"grpc_port":\([0-9]*\).*/\1/p' "$tmp/train.ready")
  export UCUDNN_COORDINATOR UCUDNN_CACHE_DIR=$tmp/train-cache
  {
    .carry/bin/ucudnn-train "${job[@]}" --print-network >"$tmp/$net.csv"
    .carry/bin/ucudnn networks put $net "$tmp/$net.csv"
    if [ "$gpus" -ge "$ranks" ]; then
      local measuring=()
      for ((i = 0; i < ranks; ++i)); do
        measure_slice $i "${slices[i]}" "${batches[@]}" \
          >"$tmp/measure.$i" 2>&1 &
        measuring+=($!)
      done
      for i in "${measuring[@]}"; do wait "$i" || status=1; done
      cat "$tmp"/measure.*
    else
      for sms in "${slices[@]}"; do
        measure_slice 0 "$sms" "${batches[@]}" || status=1
      done
    fi
    for split in planned even; do
      local programs=()
      for sms in "${slices[@]}"; do
        programs+=(: -np 1 -x "UCUDNN_SLICE=sm=$sms" .carry/bin/ucudnn-train
          "${job[@]}" --steps 12 -o json)
        if [ $split = even ]; then programs+=(--even); fi
      done
      echo "== $split"
      timeout 240 mpirun --allow-run-as-root --bind-to none "${programs[@]:1}" \
        >"$out/train-$split.json" || {
        status=1
        cat "$out/train-$split.json"
      }
    done
    python3 tests/gpu/train_summary.py "$out/train-planned.json" \
      "$out/train-even.json" || status=1
  } >"$out/train.txt" 2>&1
  kill $coordinator
  wait $coordinator || true
  return $status
}
