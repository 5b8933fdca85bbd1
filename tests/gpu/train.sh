# Stage train of run.sh: data-parallel training on unlike ranks. Sourced there.
# shellcheck shell=bash disable=SC2154  # $out and $tmp are run.sh's

# Trains ResNet-18 at batch 128, FP32, on ranks with 64, 32 and 16
# multiprocessors: as planned from measurements of each slice, and evenly split.
# With as many GPUs as ranks, each rank has its own and all compute at once; with
# four GPUs there is also a rank of 48 multiprocessors, and with two only those of
# 64 and 16. On one GPU, all are its slices. Statistics are each rank's, so that
# ranks on one GPU can compute in turns, each timed alone. The last rank, which is
# the slowest, has 3 GiB, the others 1.5 GiB.
train() {
  local batch=128 slices=(64 32 16) sms gpus split status=0 budgets
  gpus=$(gpu_count)
  if [ "$gpus" -ge 4 ]; then slices=(64 48 32 16); fi
  if [ "$gpus" -eq 2 ]; then slices=(64 16); fi
  budgets=$(printf '1536MiB,%.0s' "${slices[@]:1}")3GiB
  local job=(--network tests/data/onnx/resnet18.onnx --batch "$batch"
    --images 512 --rate 0.001 --batch-statistics rank --recompute
    --memory-budget "$budgets" --measurements "$tmp/measured.json")
  {
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
      timeout 120 mpirun --allow-run-as-root --bind-to none -np 2 \
        .carry/bin/ucudnn-train --network tests/data/onnx/resnet18.onnx \
        --batch "$batch" --images 512 --rate 0.001 --steps 24 -o json \
        >"$out/train-equal.json" || status=1
      equal=("$out/train-equal.json")
    fi
    python3 tests/gpu/train_summary.py "$out/train-planned.json" \
      "$out/train-even.json" "${equal[@]}" || status=1
  } >"$out/train.txt" 2>&1
  return $status
}
