# Stage train of run.sh: data-parallel training on unlike ranks. Sourced there.
# shellcheck shell=bash disable=SC2154  # $out and $tmp are run.sh's

# Prints the kind of the slice of $1 multiprocessors; waits for one.
kind_of() {
  local i kind
  for ((i = 0; i < 150; ++i)); do
    kind=$(.carry/bin/ucudnn devices -o json | python3 -c '
import json, sys
print(next((d["kind"] for d in json.load(sys.stdin) if d["state"] != "lost"
            and d["kind_details"]["units"] == int(sys.argv[1])), ""))' "$1")
    if [ -n "$kind" ]; then break; fi
    sleep 0.2
  done
  [ -n "$kind" ] || echo "no slice of $1 multiprocessors came online" >&2
  echo "$kind"
}

# Trains ResNet-18 at batch 128, FP32, 64 MiB per kernel, on ranks with 64, 32
# and 16 multiprocessors: as planned, and evenly split. With as many GPUs as
# ranks, each rank has its own and all compute at once; with four GPUs there is
# also a rank of 48 multiprocessors, and with two only those of 64 and 16. On one
# GPU, all are its slices and compute in turns, each timed alone. The agents stop
# before the training: they avoid a busy GPU, but do not keep others off it.
train() {
  local net=resnet18-3x224x224-1000 batch=128 slices=(64 32 16)
  local sms i gpus ranks kind split status=0 coordinator agents=()
  gpus=$(gpu_count)
  if [ "$gpus" -ge 4 ]; then slices=(64 48 32 16); fi
  if [ "$gpus" -eq 2 ]; then slices=(64 16); fi
  ranks=${#slices[@]}
  local job=(--net resnet18 --batch "$batch" --workspace-limit 64MiB
    --images 512 --rate 0.001 --measurements 10)
  .carry/bin/ucudnn-coord serve --listen 127.0.0.1:0 --http 127.0.0.1:0 \
    --database "sqlite://$tmp/train.db" --create --ready-file "$tmp/train.ready" \
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
      for ((i = 0; i < ranks; ++i)); do
        .carry/bin/ucudnn-agent --gpus $i --slice "sm=${slices[i]}" \
          --id "gpu-$i" 2>"$out/train-agent-$i.log" &
        agents+=($!)
      done
    else
      # shellcheck disable=SC2046  # sm=N has no spaces
      .carry/bin/ucudnn-agent --gpus 0 $(printf -- '--slice sm=%s ' \
        "${slices[@]}") 2>"$out/train-agent.log" &
      agents=($!)
    fi
    # The plan of all ranks, which requests its own measurements; then the
    # measurements of the even shares.
    local kinds=() limit=(--workspace-limit 64MiB)
    for sms in "${slices[@]}"; do
      kinds+=(--device-kind "$(kind_of "$sms")")
    done
    date +%s.%N
    .carry/bin/ucudnn plan --network $net --batch "$batch" "${limit[@]}" \
      --ranks "$ranks" "${kinds[@]}" || status=1
    date +%s.%N
    for ((i = 0; i < ranks; ++i)); do
      .carry/bin/ucudnn plan --network $net "${limit[@]}" \
        --batch $((batch / ranks + (i < batch % ranks ? 1 : 0))) \
        --device-kind "${kinds[2 * i + 1]}" || status=1
    done
    date +%s.%N
    kill "${agents[@]}"
    wait "${agents[@]}" || true
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
    # Whole GPUs, undivided.
    local equal=()
    if [ "$gpus" -ge 2 ]; then
      echo "== equal"
      env -u UCUDNN_COORDINATOR timeout 120 mpirun --allow-run-as-root \
        --bind-to none -np 2 .carry/bin/ucudnn-train "${job[@]}" --steps 24 \
        -o json >"$out/train-equal.json" || status=1
      equal=("$out/train-equal.json")
    fi
    python3 tests/gpu/train_summary.py "$out/train-planned.json" \
      "$out/train-even.json" "${equal[@]}" || status=1
  } >"$out/train.txt" 2>&1
  kill $coordinator
  wait $coordinator || true
  return $status
}
