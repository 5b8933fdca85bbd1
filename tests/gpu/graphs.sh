# shellcheck shell=bash disable=SC2154  # $out and $tmp are run.sh's
# The stage graphs of run.sh; to be sourced by it.

# One row a line, in the order in which they run: KIND:NETWORK:BATCH:PRECISION.
# Small rows use what large ones of the same network have measured.
rows_of_graphs() {
  local precision network
  for precision in fp32 tf32; do
    for network in resnet18:128 alexnet_torchvision:256; do
      echo "large:$network:$precision"
    done
  done
  echo engines:resnet50:32:half
  for precision in fp32 tf32; do
    for network in resnet18:32 resnet18:8 resnet18:2 alexnet_torchvision:8; do
      echo "small:$network:$precision"
    done
  done
  echo host:overhead:4:fp32
  echo host:overhead:32:fp32
  echo random:problems:7:all
  echo executor:resnet18:128:fp32
  echo executor:alexnet_torchvision:256:fp32
  echo executor:resnet18:128:tf32
  echo executor:resnet50:64:fp32
  echo large:vgg16:64:fp32
  echo large:resnet18:128:half
  echo large:alexnet_torchvision:256:half
  echo large:vgg16:64:tf32
  echo large:vgg16:64:half
  echo executor:vgg16:64:fp32
}

# timed VARIANT PROGRAM: one line of an iteration's convolutions.
timed() {
  local variant=$1 log=$tmp/graphs-log.$BASHPID
  shift
  "$@" time "tests/data/networks/$network.csv" "$batch" "$precision" total \
    2>"$log" | sed "s/^/$variant: /"
  grep 'graphs captured' "$log" | sed "s/^/$variant: /" || true
  rm -f "$log"
}

# UCUDNN_PROCESSES (2) times what is compared with points.
large_row() {
  local plain=.carry/bin/ucudnn_gpu_plain ours=.carry/bin/ucudnn_gpu_handle
  local shim=$PWD/.carry/bin/libucudnn_preload.so
  local processes=${UCUDNN_PROCESSES:-2} variant
  # Measures everything that the others need; it has two streams then, so its
  # kernels take up to 3 % longer than those of the next process
  # (docs/adr/0052).
  for variant in measuring $(yes wd | head -n "$processes"); do
    UCUDNN_NETWORK_FILE=tests/data/networks/$network.csv \
      UCUDNN_TOTAL_WORKSPACE_SIZE=512MiB timed $variant $ours
  done
  export UCUDNN_WORKSPACE_LIMIT=64MiB
  timed alone $plain
  for _ in $(seq "$processes"); do
    timed graphs $ours
  done
  UCUDNN_GRAPH_MEMORY=0 timed enqueued $ours
  [ "$precision" != fp32 ] || timed shim env LD_PRELOAD="$shim" $plain
}

small_row() {
  export UCUDNN_WORKSPACE_LIMIT=64MiB
  for _ in 1 2 3; do
    timed alone .carry/bin/ucudnn_gpu_plain
    timed graphs .carry/bin/ucudnn_gpu_handle
  done
  UCUDNN_GRAPH_MEMORY=0 timed enqueued .carry/bin/ucudnn_gpu_handle
}

# Planned without and with algorithms in two branches.
executor_row() {
  local command=(.carry/bin/ucudnn_gpu_graphs "tests/data/networks/$network.csv"
    "$batch" "${precision^^}")
  "${command[@]}"
  UCUDNN_BRANCHES=1 "${command[@]}"
}

# With engines of the graph API, since what runs undivided has them too.
engines_row() {
  UCUDNN_CACHE_DIR=$tmp/cache-engines .carry/bin/ucudnn_gpu_graphs \
    "tests/data/networks/$network.csv" "$batch" PSEUDO_HALF --engines 2
}

host_row() {
  .carry/bin/ucudnn_gpu_handle overhead "$batch"
  UCUDNN_GRAPH_MEMORY=0 .carry/bin/ucudnn_gpu_handle overhead "$batch"
}

# Random problems replayed, against cuDNN's direct algorithms; the plan file
# divides each into three.
random_row() {
  local plain=.carry/bin/ucudnn_gpu_plain prefix=$tmp/graphs-random count=120
  $plain plan 0 $count "$prefix.json" 7
  $plain random 0 $count "$prefix.direct" 7 direct
  UCUDNN_PLAN_FILE=$prefix.json .carry/bin/ucudnn_gpu_handle random 0 $count \
    "$prefix.replayed" 7 2>"$prefix.log"
  grep 'graphs captured' "$prefix.log"
  $plain compare "$prefix.direct" "$prefix.replayed" 1e-5
}

# Takes the next row from the queue and runs it, until there is none or the time
# is up.
graphs_worker() {
  local row kind network batch precision
  export UCUDNN_VERBOSE=1 UCUDNN_CACHE_DIR=$tmp/cache-graphs
  while [ $SECONDS -lt "$until" ] && row=$(
    flock "$tmp/graphs.queue" bash -c "sed -n 1p $tmp/graphs.rows &&
      sed -i 1d $tmp/graphs.rows"
  ) && [ -n "$row" ]; do
    IFS=: read -r kind network batch precision <<<"$row"
    local begun=$SECONDS
    (
      echo "== $row"
      "${kind}_row"
      echo "took $((SECONDS - begun)) s"
    ) >"$tmp/graphs-row.$row" 2>&1 || echo "$row" >>"$tmp/graphs.failed"
  done
}

# On all GPUs at once, one row on each. UCUDNN_ROWS ("small:*" "*:fp32") selects
# rows; none is begun after UCUDNN_SECONDS (240).
graphs() {
  local until=$((SECONDS + ${UCUDNN_SECONDS:-240})) gpu gpus row pattern
  local pids=() pid
  touch "$tmp/graphs.queue"
  set -f
  rows_of_graphs | while read -r row; do
    for pattern in ${UCUDNN_ROWS:-*}; do
      # shellcheck disable=SC2053
      [[ $row == $pattern ]] && echo "$row" && break
    done
  done >"$tmp/graphs.rows"
  set +f
  mapfile -t gpus < <(tr , '\n' <<<"${CUDA_VISIBLE_DEVICES:-$(
    seq -s, 0 $(($(gpu_count) - 1)))}")
  for gpu in "${gpus[@]}"; do
    CUDA_VISIBLE_DEVICES=$gpu graphs_worker &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || true; done
  {
    rows_of_graphs | while read -r row; do
      cat "$tmp/graphs-row.$row" 2>/dev/null || true
    done
    sed 's/^/not begun: /' "$tmp/graphs.rows"
  } >"$out/graphs.txt"
  python3 tests/gpu/graphs.py "$out/graphs.txt" >"$out/graphs.md" || return 1
  [ ! -e "$tmp/graphs.failed" ]
}
