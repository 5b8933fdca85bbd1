# shellcheck shell=bash
# The stages engines, figures and deepbench of run.sh; to be sourced by it.

engines() {
  .carry/bin/ucudnn_gpu_probe --engines >"$out/engines.txt" 2>&1
}

# Prints the rows of the table that match UCUDNN_ROWS, in the order of its
# patterns ("*:NHWC vgg16:*:FP32:*"); all rows by default.
rows_of_table() {
  local all=() config network pattern row
  for config in PSEUDO_HALF:NHWC TF32:NHWC FP32:NCHW TF32:NCHW \
    PSEUDO_HALF:NCHW; do
    for network in alexnet_torchvision:256 resnet18:128 vgg16:64; do
      all+=("$network:$config")
    done
  done
  set -f
  for pattern in ${UCUDNN_ROWS:-*}; do
    for row in "${all[@]}"; do
      # shellcheck disable=SC2053
      if [[ $row == $pattern ]]; then echo "$row"; fi
    done
  done | awk '!seen[$0]++'
  set +f
}

# Resumes an earlier run under the same versions, if its results are in DIR.
figures() {
  local status=0 rows
  mapfile -t rows < <(rows_of_table)
  [ ${#rows[@]} -gt 0 ] || {
    echo "figures: UCUDNN_ROWS ('${UCUDNN_ROWS-}') names no row" >&2
    return 2
  }
  python3 tests/gpu/torch_peer.py --seconds "${UCUDNN_TORCH_SECONDS:-150}" \
    -o "$out/torch.json" "${rows[@]}" >>"$out/torch.txt" 2>&1 || status=1
  .carry/bin/ucudnn_gpu_figures --seconds "${UCUDNN_SECONDS:-390}" \
    --peers "$out/torch.json" --networks tests/data/networks -o "$out" \
    "${rows[@]}" >>"$out/figures.txt" 2>&1 || status=1
  find "$out/profiles" -name '*.csv' -exec gzip -nf {} + || status=1
  python3 tests/gpu/figures.py "$out" >"$out/figures.md" || status=1
  return $status
}

deepbench() {
  local status=0
  .carry/bin/ucudnn_gpu_figures --seconds "${UCUDNN_SECONDS:-500}" \
    --deepbench tests/data/deepbench_conv_training.csv -o "$out" \
    >>"$out/deepbench.txt" 2>&1 || status=1
  python3 tests/gpu/figures.py "$out" >"$out/figures.md" || status=1
  return $status
}
