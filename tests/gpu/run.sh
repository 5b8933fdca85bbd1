#!/usr/bin/env bash
# Everything that needs a GPU, in one script.
#
#   tests/gpu/run.sh pack            on the build machine: builds and bundles into
#                                    .carry/bundle.tar.xz; for its requirements run
#                                    deploy/install-packages.sh --gpu. `pack torch`
#                                    bundles only what the stages torch, convert,
#                                    torchmem and compile,
#                                    `pack memory` what memory and operators
#                                    need
#   tests/gpu/run.sh STAGE... -o DIR on the machine with the GPU: runs stages; raw
#                                    results go to DIR
#
# Stages, each with its own results:
#   versions   GPU, driver, CUDA, cuDNN
#   contract   the device contract suite on the legacy and the graph API
#   figures    planned, undivided and PyTorch's convolutions: AlexNet, ResNet-18
#              and VGG-16 in five precisions and layouts; the table is
#              DIR/figures.md. About six minutes. UCUDNN_ROWS chooses rows by
#              patterns, in their order ("*:NHWC vgg16:*:FP32:*"). Each plan also
#              runs for a second, for its time under load
#   networks   the same table of ResNet-50, ResNet-152, Inception v1, DenseNet-40
#              and DenseNet-121. Fifteen minutes; resumes as figures does
#   load       VGG-16 in half precision NHWC after half a minute of load, against
#              the prediction under load. A minute (UCUDNN_ROWS)
#   beside     what measurements and memory plans assume: small kernels once another
#              stream has been used, max pools' backward passes on different
#              inputs, and copies beside kernels. Half a minute
#   deepbench  the same table's part on DeepBench's layers. About four minutes.
#              These stages keep results that DIR already has; their programs start
#              nothing after UCUDNN_SECONDS, PyTorch's after UCUDNN_TORCH_SECONDS
#   main       the service's plan of AlexNet at batch 256 a GPU, FP32, 64 MiB a
#              kernel, and ResNet-18 trained within 8 GiB; one rank, and with two
#              GPUs two ranks at batch 512
#   policies   AlexNet: the cost of measuring under each batch-size policy, and the
#              plans' predicted times (UCUDNN_POLICIES; `all` only if named)
#   sharing    AlexNet's campaign by one GPU and by two of one agent, by turns; the
#              ratio of their times. Two GPUs; about a minute
#   judge      policies in one process, with `all` as far as UCUDNN_SECONDS (200)
#              allow, and with all plans valued by the same times. Under four
#              minutes
#   slices     measures slices of 32 and 64 multiprocessors, and runs jobs in them
#   profile    a network's measurements in FP32 and TF32, as `ucudnn profiles export`
#              writes them: ResNet-152 at batch 32 (UCUDNN_NETWORK, UCUDNN_BATCH)
#   failures   provokes full memory and a poisoned context
#   handle     the drop-in handle and the preload shim compared with cuDNN alone:
#              results of random problems, times of networks, overhead
#   graphs     planned convolutions enqueued and replayed as graphs: the handle with
#              small and large mini-batches, executors, engines of the graph API on
#              ResNet-50, host time, and a trial of parallel branches; tables in DIR/graphs.md.
#              Rows run on all visible GPUs at once: five minutes on two
#              (UCUDNN_ROWS, UCUDNN_SECONDS, UCUDNN_PROCESSES)
#   memory     memory plans executed: ResNet-50, VGG-16 and AlexNet under budgets of
#              25 to 100 % of their plain peak with every policy, PyTorch's own
#              ways, the largest batches within 8 GiB, and small networks under
#              compute-sanitizer; tables in DIR/memory.md. Ten minutes
#              (UCUDNN_ROWS, UCUDNN_SHARES, UCUDNN_MEMORY_POLICIES, UCUDNN_SECONDS, and
#              UCUDNN_PARTS: "budgets torch largest sanitizer")
#   operators  the contract suite of operators other than convolutions
#   sanitizer  fewer of the random problems under compute-sanitizer
#   pytorch    PyTorch's training steps on cuDNN's legacy API: alone, with the shim
#              and no limit, and under 64 MiB a convolution; with algorithms from
#              cuDNN's heuristics and from its benchmarks. Needs torchvision. Ten
#              minutes. UCUDNN_TORCH_MODES ("heuristics benchmark") and UCUDNN_ROWS
#              (such as "vgg16:64:FP32") select runs
#   torch      ucudnn.torch on two GPUs: unlike shares against one process, the
#              hook's cost, and ResNet-18 and ResNet-50 on slices of 64 and 16
#              multiprocessors: even, all splits swept, and planned; the table is
#              DIR/torch-share.md, all steps are in DIR/torch-share.json. Needs
#              torchvision. Five minutes; UCUDNN_ROWS ("checks overhead resnet18
#              resnet50", and "one-gpu" for what one GPU can show) selects
#              sections (shares with budgets: tests/gpu/torch_share_budgets.py -o DIR).
#              Also runs the example of client/examples/torch and the
#              package's tests of ucudnn.torch
#   convert    ucudnn.torch.convert: whole steps of VGG-16, AlexNet and ResNet-18 in
#              FP32, TF32 and half, enqueued and as CUDA graphs, against PyTorch with
#              cudnn.benchmark and torch.compile; results under the latter and others;
#              with two GPUs together with planned shares; DIR/torch-convert.md and .json. Needs
#              torchvision. UCUDNN_ROWS chooses ("checks uneven vgg16:64:FP32") and
#              orders; UCUDNN_CHECKS, a regular expression, chooses checks; plans
#              begin within UCUDNN_PLANNING_SECONDS (10) of a row; nothing begins
#              after UCUDNN_SECONDS (130), and all ends 15 s later
#   torchmem   ucudnn.torch.memory: ResNet-50, VGG-16 and ResNet-152 within half of
#              the plain step's memory, beside checkpoints, save_on_cpu and
#              torch.compile; results on a small model, and the package's tests of it;
#              DIR/torch-memory.md and .json. Needs torchvision. Eight minutes;
#              UCUDNN_ROWS chooses ("checks resnet50:256:HALF"), UCUDNN_WAYS, a
#              regular expression, among their ways, nothing begins after
#              UCUDNN_SECONDS (420)
#   compile    ucudnn.torch.compile: ResNet-50, ConvNeXt-T, ViT-B/16 and GPT-2 small
#              within 0.75 and 0.5 of what torch.compile needs, beside PyTorch's own
#              ways; DIR/torch-compile.md and .json. Needs torchvision and
#              transformers. Eight minutes a call, and resumes; UCUDNN_ROWS chooses
#              ("resnet50 convnext vit gpt2"), UCUDNN_WAYS, a regular expression,
#              among their ways, nothing begins after UCUDNN_SECONDS (420)
#   unlike     ucudnn-train on slices of unlike sizes, each with 10 GiB: planned, even,
#              clipped by memory, a sweep and each rank alone; DIR/unlike.md and .json.
#              Two GPUs for rows of two slices, two such rows at once on four. Eight
#              minutes a call, and resumes; UCUDNN_ROWS chooses (`unlike.py` has them),
#              nothing begins after UCUDNN_SECONDS (480)
#   split      the largest batches within 8 GiB: everything kept, HMMS, and HMMS on the
#              network split into parts; DIR/split.md and .json. Five minutes; nothing
#              begins after UCUDNN_SECONDS (240)
#   streams    GoogLeNet, DenseNet-121 and ResNet-18 trained with 1 to 4 streams at
#              batches 8, 32 and 128, TF32; DIR/streams.md and .json. Under four
#              minutes, and resumes; UCUDNN_ROWS chooses ("googlenet:8"), nothing
#              begins after UCUDNN_SECONDS (200)
#   train      ResNet-18 trained on slices of 64, 32 and 16 multiprocessors: in
#              turns on one GPU, or at once with a GPU for each; with two GPUs on
#              slices of 64 and 16, with four also on one of 48. As planned and
#              evenly split, and on two whole GPUs; DIR/train.txt ends with the
#              comparison, including whole steps and the time that exchanges of
#              gradients add. About two minutes
#
# Exit status: 0 all stages are done; 1 one failed or missed a goal; 3 none did, but
# the time was up before all was measured.
#
# The machine with the GPU needs Open MPI 4.1, cuDNN 9 and glibc 2.36 or later.
set -euo pipefail
cd "$(dirname "$0")/../.."

programs=(ucudnn ucudnn-coord ucudnn-agent
  ucudnn_gpu_failures ucudnn_gpu_plain ucudnn_gpu_handle
  ucudnn-train ucudnn_gpu_figures ucudnn_gpu_policies ucudnn_gpu_graphs
  ucudnn_gpu_memory ucudnn_gpu_concurrent)

pack() {
  bash tests/gpu/bundle.sh -c || exit 1
  cmake --preset release -DBUILD_TESTING=ON >/dev/null
  local targets=(ucudnn_solve_shared ucudnn_conv_shared) program
  local paths=(build/release/lib/libucudnn_solve.so.1
    build/release/lib/libucudnn_conv.so.1)
  if [ "${1:-}" = memory ]; then
    targets=(ucudnn_gpu_memory ucudnn-train cudnn_operators_test)
    paths=(build/release/bin/ucudnn_gpu_memory
      build/release/bin/ucudnn-train
      build/release/tests/contract/cudnn_operators_test)
  elif [ "${1:-}" != torch ]; then
    targets+=("${programs[@]}" cudnn_contract_test cudnn_operators_test
      ucudnn_preload)
    paths+=(build/release/tests/contract/cudnn_contract_test
      build/release/tests/contract/cudnn_operators_test
      build/release/lib/libucudnn_preload.so)
    for program in "${programs[@]}"; do
      paths+=("build/release/bin/$program")
    done
  fi
  cmake --build --preset release -t "${targets[@]}"
  rm -rf .carry build/gpu-bundle
  bash tests/gpu/bundle.sh -o build/gpu-bundle "${paths[@]}"
  mkdir .carry
  tar -C build/gpu-bundle -cJf .carry/bundle.tar.xz .
  du -h .carry/bundle.tar.xz
}

versions() {
  {
    nvidia-smi --query-gpu=index,name,driver_version,memory.total,clocks.sm \
      --format=csv || true
    nvidia-smi | sed -n 's/.*\(CUDA Version: [0-9.]*\).*/\1/p' || true
    python3 -c 'import torch; v = torch.backends.cudnn.version()
print("PyTorch", torch.__version__, "cuDNN", v)' || true
    mpirun --version | head -n 1 || true
    uname -r
  } >"$out/versions.txt" 2>&1
}

# Runs one suite in a shard for each core.
contract() {
  local shards filter name i status=0
  shards=$(nproc)
  for filter in 'Cudnn/*:CudnnLegacy/*' 'CudnnGraph/*'; do
    name=${filter%%/*}
    for ((i = 0; i < shards; ++i)); do
      GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i timeout 270 \
        .carry/bin/cudnn_contract_test --gtest_brief=1 \
        --gtest_filter="$filter" >"$tmp/$name.$i" 2>&1 &
    done
    for ((i = 1; i <= shards; ++i)); do
      wait -n || status=1
    done
    cat "$tmp/$name".* >"$out/contract-$name.txt"
  done
  return $status
}

# random_problems VARIANT COUNT PROGRAM...: runs shards, one process each.
random_problems() {
  local variant=$1 count=$2 shards=8 i status=0 pids=()
  shift 2
  for ((i = 0; i < shards; ++i)); do
    timeout 150 "$@" random $((i * count)) "$count" "$tmp/$variant.$i" \
      "${batch:-0}" ${direct:+direct} >>"$tmp/$variant.log" 2>&1 &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || status=1; done
  cat "$tmp/$variant".[0-9] >"$tmp/$variant.all"
  echo "$variant: $(grep -c . "$tmp/$variant.log") lines," \
    "$(grep -c ' x [2-9]\|, [0-9]* x ' "$tmp/$variant.log") divided," \
    "$(grep -c 'left to cuDNN' "$tmp/$variant.log") left to cuDNN"
  return $status
}

beside() {
  .carry/bin/ucudnn_gpu_concurrent >"$out/concurrent.txt" 2>&1
}

operators() {
  .carry/bin/cudnn_operators_test >"$out/operators.txt" 2>&1
}

handle() {
  local plain=.carry/bin/ucudnn_gpu_plain ours=.carry/bin/ucudnn_gpu_handle
  local shim=$PWD/.carry/bin/libucudnn_preload.so status=0 count=50
  local networks=tests/data/networks
  {
    echo "== ${count} x 8 random problems; limit of a workspace 256KiB"
    (
      export UCUDNN_CACHE_DIR=$tmp/cache UCUDNN_VERBOSE=1
      export UCUDNN_WORKSPACE_LIMIT=256KiB
      time random_problems plain $count $plain
      time direct=1 random_problems direct $count $plain
      time random_problems handle $count $ours
      time random_problems shim $count env LD_PRELOAD="$shim" $plain
      random_problems disabled $count env UCUDNN_DISABLE=1 \
        LD_PRELOAD="$shim" $plain
      export UCUDNN_TOTAL_WORKSPACE_SIZE=64MiB
      time random_problems wd $count $ours
      time random_problems wd-shim $count env LD_PRELOAD="$shim" $plain
    ) || status=1
    (
      export UCUDNN_CACHE_DIR=$tmp/cache-forced UCUDNN_VERBOSE=1 batch=7
      $plain plan 0 $((count * 8)) "$tmp/forced.json" 7
      export UCUDNN_PLAN_FILE=$tmp/forced.json
      direct=1 random_problems whole $count $plain
      time random_problems forced $count $ours
      time random_problems forced-shim $count env LD_PRELOAD="$shim" $plain
    ) || status=1
    local variant
    for variant in handle shim disabled wd wd-shim; do
      echo "== $variant against cuDNN's direct algorithms"
      $plain compare "$tmp/direct.all" "$tmp/$variant.all" 1e-5 || status=1
    done
    for variant in forced forced-shim; do
      echo "== $variant, each problem divided, against cuDNN's direct algorithms"
      $plain compare "$tmp/whole.all" "$tmp/$variant.all" 1e-5 || status=1
    done
    echo "== cuDNN's own choice against its direct algorithms"
    $plain compare "$tmp/direct.all" "$tmp/plain.all" 1e-5 || true
    echo "== kernels of one shape on four streams at once, WR and WD"
    UCUDNN_CACHE_DIR=$tmp/cache $ours streams || status=1
    UCUDNN_TOTAL_WORKSPACE_SIZE=96MiB UCUDNN_CACHE_DIR=$tmp/cache \
      $ours streams || status=1
    echo "== semantics: cuDNN alone, the handle, the shim, WD"
    $plain semantics || status=1
    $ours semantics || status=1
    LD_PRELOAD=$shim $plain semantics || status=1
    UCUDNN_TOTAL_WORKSPACE_SIZE=64MiB $ours semantics || status=1
    echo "== overhead"
    UCUDNN_CACHE_DIR=$tmp/cache $ours overhead || status=1
    UCUDNN_CACHE_DIR=$tmp/cache UCUDNN_GRAPH_MEMORY=0 $ours overhead || status=1
    echo "== networks: cuDNN alone, the handle, the handle again, the shim, WD"
    export UCUDNN_CACHE_DIR=$tmp/cache-time UCUDNN_WORKSPACE_LIMIT=64MiB
    local net
    for net in "alexnet_torchvision 256" "resnet18 128" "vgg16 64"; do
      # shellcheck disable=SC2086
      set -- $networks/${net% *}.csv ${net#* }
      $plain time "$@" || status=1
      $ours time "$@" || status=1
      $ours time "$@" | sed -n 1p || status=1
      LD_PRELOAD=$shim $plain time "$@" | sed -n 1p || status=1
      UCUDNN_TOTAL_WORKSPACE_SIZE=512MiB $ours time "$@" | sed -n 1p ||
        status=1
    done
  } >"$out/handle.txt" 2>&1
  # The logs also have the measurements, and each algorithm's accuracy.
  tar -C "$tmp" -czf "$out/handle-logs.tar.gz" \
    $(cd "$tmp" && ls ./*.log) cache-time
  return $status
}

sanitizer() {
  local tool status=0
  tool=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  {
    export UCUDNN_CACHE_DIR=$tmp/cache-sanitizer UCUDNN_WORKSPACE_LIMIT=256KiB
    # Measures beforehand, because times under the sanitizer are useless.
    .carry/bin/ucudnn_gpu_handle random 0 24 "$tmp/s0" 0
    timeout 200 "$tool" --tool memcheck --error-exitcode 3 \
      .carry/bin/ucudnn_gpu_handle random 0 24 "$tmp/s1" 0 || status=1
    UCUDNN_TOTAL_WORKSPACE_SIZE=16MiB timeout 200 "$tool" --tool memcheck \
      --error-exitcode 3 .carry/bin/ucudnn_gpu_handle random 0 24 "$tmp/s2" 0 ||
      status=1
  } >"$out/sanitizer.txt" 2>&1
  return $status
}

pytorch() {
  local mode status=0
  for mode in ${UCUDNN_TORCH_MODES:-heuristics benchmark}; do
    # shellcheck disable=SC2046,SC2086
    UCUDNN_CACHE_DIR=$tmp/cache-pytorch timeout 540 \
      python3 tests/gpu/torch_steps.py --shim .carry/bin/libucudnn_preload.so \
      -o "$out" $([ "$mode" = benchmark ] && echo --benchmark) \
      ${UCUDNN_ROWS-} >>"$out/pytorch.txt" 2>&1 || status=1
  done
  gzip -f "$out"/pytorch-*.log
  return $status
}

torch() {
  local status=0
  export PYTHONPATH=$PWD/client/python UCUDNN_LIBRARY=$PWD/.carry/bin
  export PYTHONDONTWRITEBYTECODE=1 UCUDNN_TEST_DATA=$PWD/tests/data
  # shellcheck disable=SC2086
  timeout 345 python3 tests/gpu/torch_share.py -o "$out" ${UCUDNN_ROWS-} ||
    status=1
  timeout 90 python3 -m torch.distributed.run --standalone --nproc-per-node 2 \
    client/examples/torch/uneven_resnet50.py >"$out/torch-example.txt" 2>&1 ||
    status=1
  # Not what needs the daemons or the command, which `pack torch` leaves out.
  timeout 300 python3 -m pytest -q -p no:cacheprovider -rfE \
    --ignore-glob '*_coordinator.py' --ignore-glob '*_session.py' \
    --deselect tests/python/test_torch_networks.py::test_is_read_by_the_planner \
    --deselect tests/python/test_torch_compile_steps.py::test_the_installed_package_names_its_backend \
    tests/python/test_torch_*.py >"$out/torch-tests.txt" 2>&1 || status=1
  tail -n 1 "$out/torch-tests.txt"
  return $status
}

convert() {
  export PYTHONPATH=$PWD/client/python UCUDNN_LIBRARY=$PWD/.carry/bin
  export PYTHONDONTWRITEBYTECODE=1
  # shellcheck disable=SC2086
  timeout 290 python3 tests/gpu/torch_convert.py -o "$out" \
    --seconds "${UCUDNN_SECONDS:-130}" ${UCUDNN_ROWS-}
}

compile() {
  export PYTHONPATH=$PWD/client/python UCUDNN_LIBRARY=$PWD/.carry/bin
  export PYTHONDONTWRITEBYTECODE=1
  # shellcheck disable=SC2086
  timeout 570 python3 tests/gpu/torch_compile.py -o "$out" \
    --seconds "${UCUDNN_SECONDS:-420}" ${UCUDNN_ROWS-}
}

torchmem() {
  local status=0
  export PYTHONPATH=$PWD/client/python UCUDNN_LIBRARY=$PWD/.carry/bin
  export PYTHONDONTWRITEBYTECODE=1
  # shellcheck disable=SC2086
  timeout 480 python3 tests/gpu/torch_memory.py -o "$out" \
    --seconds "${UCUDNN_SECONDS:-420}" ${UCUDNN_ROWS-} || status=$?
  timeout 90 python3 -m pytest -q -p no:cacheprovider \
    tests/python/test_torch_{saved,replay}_*.py >"$out/torch-memory-tests.txt" 2>&1 ||
    status=1
  tail -n 1 "$out/torch-memory-tests.txt"
  return $status
}

unlike() {
  # shellcheck disable=SC2086
  timeout 590 python3 tests/gpu/unlike.py -o "$out" \
    --seconds "${UCUDNN_SECONDS:-480}" ${UCUDNN_ROWS-}
}

# Batches within 8 GiB.
split() {
  timeout 400 python3 tests/gpu/split.py -o "$out" \
    --seconds "${UCUDNN_SECONDS:-240}"
}

streams() {
  # shellcheck disable=SC2086
  timeout 300 python3 tests/gpu/streams.py -o "$out" \
    --seconds "${UCUDNN_SECONDS:-200}" ${UCUDNN_ROWS-}
}

# The number of visible GPUs.
gpu_count() {
  if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
    tr , '\n' <<<"$CUDA_VISIBLE_DEVICES" | wc -l
  else
    nvidia-smi -L | wc -l
  fi
}

main_job() {
  local gpus
  gpus=$(gpu_count)
  .carry/bin/ucudnn-coord serve --listen 127.0.0.1:0 --http 127.0.0.1:0 \
    --database "sqlite://$tmp/c.db" --create --ready-file "$tmp/ready" \
    2>"$out/coordinator.log" &
  local coordinator=$! i
  for ((i = 0; i < 100; ++i)); do [ -f "$tmp/ready" ] && break || sleep 0.1; done
  UCUDNN_COORDINATOR=127.0.0.1:$(sed -n \
    's/.*"grpc_port":\([0-9]*\).*/\1/p' "$tmp/ready")
  export UCUDNN_COORDINATOR
  .carry/bin/ucudnn-agent 2>"$out/agent.log" &
  local agent=$!
  local u=.carry/bin/ucudnn net=tests/data/networks/alexnet_torchvision.csv
  {
    $u networks put alexnet $net
    for ((i = 0; i < 100; ++i)); do
      $u devices | grep -q ' idle ' && break || sleep 0.2
    done
    $u devices
    local ranks batch
    for ((ranks = 1; ranks <= (gpus > 1 ? 2 : 1); ++ranks)); do
      batch=$((256 * ranks))
      echo "== $ranks ranks, batch $batch"
      date +%s.%N
      $u plan --network alexnet --batch $batch --ranks $ranks \
        --workspace-limit 64MiB
      date +%s.%N
      mpirun --allow-run-as-root --bind-to none -np $ranks \
        .carry/bin/ucudnn-train --network tests/data/onnx/resnet18.onnx \
        --batch $batch --memory-budget 8GiB --wait 300 --steps 20
    done
  } >"$out/main.txt" 2>&1
  local status=$?
  $u show plan 1 -o json >"$out/plan.json" || true
  kill $agent $coordinator
  wait
  return $status
}

if [ "${1:-}" = pack ]; then
  pack "${2:-}"
  exit
fi
out=""
stages=()
while [ $# -gt 0 ]; do
  case $1 in
    -o)
      out=$2
      shift
      ;;
    versions | contract | handle | sanitizer) stages+=("$1") ;;
    pytorch) stages+=("$1") ;;
    policies | sharing | judge | slices | profile | failures) stages+=("$1") ;;
    train | unlike | torch | convert | torchmem | compile | graphs) stages+=("$1") ;;
    figures | networks | load | deepbench) stages+=("$1") ;;
    memory | operators | beside | streams | split) stages+=("$1") ;;
    main) stages+=(main_job) ;;
    *)
      echo "run.sh: '$1' is not a stage; the head of this script lists them" >&2
      exit 2
      ;;
  esac
  shift
done
[ -n "$out" ] && [ ${#stages[@]} -gt 0 ] || {
  echo "usage: tests/gpu/run.sh STAGE... -o DIR" >&2
  exit 2
}
mkdir -p "$out"
[ -d .carry/bin ] || tar -C .carry -xJf .carry/bundle.tar.xz
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# shellcheck source=tests/gpu/env.sh
. tests/gpu/env.sh
# shellcheck source=tests/gpu/campaign.sh
. tests/gpu/campaign.sh
# shellcheck source=tests/gpu/train.sh
. tests/gpu/train.sh
# shellcheck source=tests/gpu/figures.sh
. tests/gpu/figures.sh
# shellcheck source=tests/gpu/graphs.sh
. tests/gpu/graphs.sh
# shellcheck source=tests/gpu/memory.sh
. tests/gpu/memory.sh
failed=0
for stage in "${stages[@]}"; do
  echo "== $stage"
  status=0
  "$stage" || status=$?
  case $stage:$status in
    *:0) ;;
    convert:3 | torchmem:3 | compile:3 | unlike:3 | streams:3 | split:3)
      echo "$stage: the time was up"
      [ $failed = 1 ] || failed=3
      ;;
    convert:4 | torchmem:4 | compile:4 | unlike:4)
      echo "$stage missed a goal"
      failed=1
      ;;
    *)
      echo "$stage failed"
      failed=1
      ;;
  esac
done
exit $failed
