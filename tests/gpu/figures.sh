# shellcheck shell=bash
# The stages figures, networks, load and deepbench of run.sh; to be sourced by it.

# rows_of_table NETWORK:BATCH...: prints the networks' rows that match
# UCUDNN_ROWS, in the order of its patterns ("*:NHWC vgg16:*:FP32:*"); all rows
# by default.
rows_of_table() {
  local all=() config network pattern row
  for config in PSEUDO_HALF:NHWC TF32:NHWC FP32:NCHW TF32:NCHW \
    PSEUDO_HALF:NCHW FP32:NHWC; do
    for network in "$@"; do all+=("$network:$config"); done
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

# measure_rows "OPTION..." ROW...: PyTorch's convolutions, then ours, with
# options of ucudnn_gpu_figures. Resumes an earlier run under the same versions,
# if its results are in DIR.
measure_rows() {
  local status=0 options
  read -ra options <<<"$1"
  shift
  [ $# -gt 0 ] || {
    echo "figures.sh: UCUDNN_ROWS ('${UCUDNN_ROWS-}') names no row" >&2
    return 2
  }
  python3 tests/gpu/torch_peer.py --seconds "${UCUDNN_TORCH_SECONDS:-150}" \
    -o "$out/torch.json" "$@" >>"$out/torch.txt" 2>&1 || status=1
  .carry/bin/ucudnn_gpu_figures --seconds "${UCUDNN_SECONDS:-390}" \
    "${options[@]}" --peers "$out/torch.json" --networks tests/data/networks \
    -o "$out" "$@" >>"$out/figures.txt" 2>&1 || status=1
  find "$out/profiles" -name '*.csv' -exec gzip -nf {} + || status=1
  python3 tests/gpu/figures.py "$out" >"$out/figures.md" || status=1
  return $status
}

figures() {
  local rows
  mapfile -t rows < <(rows_of_table alexnet_torchvision:256 resnet18:128 vgg16:64)
  measure_rows "" "${rows[@]}"
}

# The papers' other networks, on every other power of two.
networks() {
  local rows
  mapfile -t rows < <(rows_of_table resnet50:64 resnet152:64 inception_v1:64 \
    densenet40_k40:256 densenet121:64)
  measure_rows "--step 4 --rivals 1 --no-kernel-times" "${rows[@]}"
}

# What draws the most power, for half a minute.
load() {
  local rows
  mapfile -t rows < <(UCUDNN_ROWS="${UCUDNN_ROWS-*:PSEUDO_HALF:NHWC}" \
    rows_of_table vgg16:64)
  measure_rows "--step 4 --rivals 1 --load 30" "${rows[@]}"
}

deepbench() {
  local status=0
  .carry/bin/ucudnn_gpu_figures --seconds "${UCUDNN_SECONDS:-500}" \
    --deepbench tests/data/deepbench_conv_training.csv -o "$out" \
    >>"$out/deepbench.txt" 2>&1 || status=1
  python3 tests/gpu/figures.py "$out" >"$out/figures.md" || status=1
  return $status
}
