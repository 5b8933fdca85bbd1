# shellcheck shell=bash disable=SC2154  # $out and $tmp are run.sh's
# The stage memory of run.sh; to be sourced by it.

# NETWORK:BATCH:PRECISION, those that matter most first.
memory_rows="resnet50:128:TF32 vgg16:64:TF32 alexnet:256:TF32 resnet50:128:FP32
  vgg16:64:FP32 alexnet:256:FP32"
memory_policies=best,best+recompute,vdnn-ext,vdnn-all,modnn,hmms
memory_parts="budgets torch largest sanitizer"

# The policies on every budget, PyTorch's own ways, the largest batch of each
# policy within 8 GiB, and small networks under compute-sanitizer. UCUDNN_PARTS
# names parts, UCUDNN_ROWS rows, UCUDNN_MEMORY_POLICIES policies, UCUDNN_SHARES
# budgets in percent, the first with the times of each task, the second also with
# poisoned memory. UCUDNN_SECONDS (570) is the limit of all; nothing begins after
# its part's share of it.
memory() {
  local limit=${UCUDNN_SECONDS:-570} status=0 part left=0
  local -A weight=([budgets]=48 [torch]=10 [largest]=27 [sanitizer]=15)
  for part in ${UCUDNN_PARTS:-$memory_parts}; do
    left=$((left + weight[$part]))
  done
  local begun=$SECONDS
  for part in $memory_parts; do
    [[ " ${UCUDNN_PARTS:-$memory_parts} " == *" $part "* ]] || continue
    # What a part leaves is the others'.
    "memory_$part" $(((limit - (SECONDS - begun)) * weight[$part] / left)) ||
      status=1
    left=$((left - weight[$part]))
    python3 tests/gpu/memory.py "$out" >"$out/memory.md" || status=1
  done
  return $status
}

memory_budgets() {
  local row specs=()
  for row in ${UCUDNN_ROWS:-$memory_rows}; do
    specs+=("tests/data/onnx/${row%%:*}.onnx:${row#*:}")
  done
  timeout $(($1 + 30)) .carry/bin/ucudnn_gpu_memory --seconds $(($1 - 10)) \
    --threads $(($(nproc) > 5 ? $(nproc) - 4 : 1)) \
    --shares "${UCUDNN_SHARES:-50,25,100}" \
    --policies "${UCUDNN_MEMORY_POLICIES:-$memory_policies}" \
    -- "${specs[@]}" >"$out/memory.jsonl" 2>"$out/memory.log"
}

memory_torch() {
  # shellcheck disable=SC2086
  timeout $(($1 + 30)) python3 tests/gpu/memory_torch.py \
    -o "$out/memory-torch.jsonl" --seconds $(($1 - 5)) \
    ${UCUDNN_ROWS:-$memory_rows} >>"$out/memory.log" 2>&1
}

memory_largest() {
  timeout $(($1 + 30)) .carry/bin/ucudnn_gpu_memory --seconds $(($1 - 15)) \
    --largest $((8 << 30)) --steps 3 --plan-seconds 8 \
    --policies "$memory_policies,vdnn-conv" \
    -- tests/data/onnx/resnet50.onnx:1:TF32 tests/data/onnx/vgg16.onnx:1:TF32 \
    >"$out/memory-largest.jsonl" 2>>"$out/memory.log"
}

# Plans that offload and prefetch, replayed: a chain with pools under memcheck
# and racecheck, then normalised residual blocks under memcheck.
memory_sanitizer() {
  local tool net=$tmp/net.csv until=$((SECONDS + $1)) status=0
  tool=$(command -v compute-sanitizer ||
    echo /usr/local/cuda/bin/compute-sanitizer)
  printf '%s\n' "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups" \
    "a,3,16,16,8,3,3,1,1,1,1,1" "b,8,16,16,8,3,3,1,1,1,1,1" \
    "c,8,8,8,10,1,1,0,0,1,1,1" >"$net"
  {
    memory_checked memcheck "$net" 4 &&
      memory_checked racecheck "$net" 4 &&
      memory_checked memcheck tests/data/onnx/resnet18.onnx 2
  } >"$out/memory-sanitizer.txt" 2>&1 || status=1
  tail -n 1 "$out/memory-sanitizer.txt"
  return $status
}

# TOOL NETWORK BATCH
memory_checked() {
  [ $((until - SECONDS)) -gt 5 ] || { echo "no time for $*"; return 1; }
  echo "== $*"
  timeout $((until - SECONDS)) "$tool" --tool "$1" --error-exitcode 3 \
    .carry/bin/ucudnn-train --network "$2" --batch "$3" \
    --memory-policy vdnn-all --steps 4 --device-model \
    tests/data/h200/device_model.json
}
