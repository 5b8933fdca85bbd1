# shellcheck shell=bash
# The stages engines, figures and deepbench of run.sh; to be sourced by it.

engines() {
  .carry/bin/ucudnn_gpu_probe --engines >"$out/engines.txt" 2>&1
}

# Both of the following write their part of the table.
write_table() {
  python3 tests/gpu/figures.py "$out" >"$out/figures.md"
}

figures() {
  local status=0
  python3 tests/gpu/torch_peer.py --seconds "${UCUDNN_SECONDS:-170}" \
    -o "$out/torch.json" alexnet_torchvision:256 resnet18:128 vgg16:64 \
    >"$out/torch.txt" 2>&1 || status=1
  .carry/bin/ucudnn_gpu_figures --seconds "${UCUDNN_SECONDS:-390}" \
    --peers "$out/torch.json" --networks tests/data/networks -o "$out" \
    >"$out/figures.txt" 2>&1 || status=1
  gzip -f "$out/profile.csv" || status=1
  write_table || status=1
  return $status
}

deepbench() {
  local status=0
  .carry/bin/ucudnn_gpu_figures --seconds "${UCUDNN_SECONDS:-500}" \
    --deepbench tests/data/deepbench_conv_training.csv -o "$out" \
    >"$out/deepbench.txt" 2>&1 || status=1
  write_table || status=1
  return $status
}
