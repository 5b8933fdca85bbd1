# shellcheck shell=bash disable=SC2154  # $out and $tmp are run.sh's
# The stage memory of run.sh; to be sourced by it.

# NETWORK:BATCH:PRECISION, those that matter most first.
memory_rows="vgg16:64:FP32 resnet50:128:TF32 vgg16:64:TF32 alexnet:256:FP32
  alexnet:256:TF32 resnet50:128:FP32"

# Every policy on every budget, then PyTorch, then the largest batches within
# 8 GiB. UCUDNN_ROWS selects rows; UCUDNN_SECONDS (245) is the limit of all,
# UCUDNN_PARTS ("budgets torch largest") what is run. Nothing begins after its
# share of the time.
memory() {
  local begun=$SECONDS limit=${UCUDNN_SECONDS:-245} status=0 row
  local parts=" ${UCUDNN_PARTS:-budgets torch} " specs=()
  for row in ${UCUDNN_ROWS:-$memory_rows}; do
    specs+=("tests/data/onnx/${row%%:*}.onnx:${row#*:}")
  done
  if [[ $parts == *" budgets "* ]]; then
    local most=$limit
    [[ $parts == *" torch "* ]] && most=$((limit - 55))
    timeout $((most + 40)) .carry/bin/ucudnn_gpu_memory \
      --seconds $((most - 10)) --threads $(($(nproc) > 5 ? $(nproc) - 4 : 1)) \
      "${specs[@]}" >"$out/memory.jsonl" 2>"$out/memory.log" || status=1
  fi
  if [[ $parts == *" torch "* ]]; then
    # shellcheck disable=SC2086
    timeout 120 python3 tests/gpu/memory_torch.py -o "$out/memory-torch.jsonl" \
      --seconds $((limit - (SECONDS - begun) - 5)) \
      ${UCUDNN_ROWS:-$memory_rows} >>"$out/memory.log" 2>&1 || status=1
  fi
  if [[ $parts == *" largest "* ]]; then
    timeout $((limit + 40)) .carry/bin/ucudnn_gpu_memory \
      --seconds $((limit - (SECONDS - begun) - 10)) \
      --largest $((8 << 30)) --steps 3 --plan-seconds 5 \
      tests/data/onnx/resnet50.onnx:1:TF32 tests/data/onnx/vgg16.onnx:1:TF32 \
      >"$out/memory-largest.jsonl" 2>>"$out/memory.log" || status=1
  fi
  python3 tests/gpu/memory.py "$out" >"$out/memory.md" || status=1
  return $status
}
