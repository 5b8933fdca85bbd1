#!/usr/bin/env bash
# A researcher with the packages and measurements of an H200: plans in Python and
# by the command alike, looks at fronts and memory plans, draws them, and takes
# plans and measurements from a coordinator.
#
#   researcher.sh ROOT PYTHON
source "$(dirname "$0")/common.sh" "$1"
python=$2
repository=$(cd "$(dirname "$0")/../.." && pwd)
data=$repository/tests/data
alexnet=$data/h200/alexnet_b256_pow2.csv

ucudnn solve wr --profile "$alexnet" --batch 256 --workspace-limit 64MiB \
  --precision FP32 -o json >"$tmp/solved.json"
ucudnn solve memory --network "$data/onnx/alexnet.onnx" --batch 256 \
  --device-model K40 --budget 900MB -o json >"$tmp/memory.json"
says "keeps every rule" ucudnn check "$tmp/memory.json"

"$python" - "$data" "$tmp" "$root" <<'PY'
import sys
import ucudnn
data, tmp, root = sys.argv[1:]
assert ucudnn.__file__.startswith(root), ucudnn.__file__
profile = ucudnn.Profile.read(data + "/h200/alexnet_b256_pow2.csv")
rows = {"precision": "FP32"}
plan = ucudnn.solve_wr(profile, 256, "64MiB", **rows)
assert plan == ucudnn.WorkspacePlan.read(tmp + "/solved.json")
assert repr(plan).count("\n") < 24 and "<td>" in plan._repr_html_()
in_all = ucudnn.solve_wd(profile, 256, "120MiB", **rows)
shared = ucudnn.solve_ws(profile, data + "/onnx/alexnet.onnx", 256, "120MiB", **rows)
assert shared.total_time_us <= in_all.total_time_us
front = ucudnn.pareto(profile, 256, "120MiB", "conv2", "forward", **rows)
memory = ucudnn.MemoryPlan.read(tmp + "/memory.json")
memory.check()
import matplotlib
matplotlib.use("Agg")
ucudnn.plot_pareto(front).figure.savefig(tmp + "/front.png")
ucudnn.plot_plan(plan).figure.savefig(tmp + "/plan.svg")
ucudnn.plot_arena(memory).figure.savefig(tmp + "/arena.png")
PY

# What squeeze-and-excitation and channel shuffling consist of has memory plans.
"$python" - "$tmp/shuffled.onnx" <<'PY'
import sys
import numpy
import onnx
from onnx.helper import make_graph, make_model, make_node, make_tensor_value_info
nodes = [
    make_node("Constant", [], ["w"], value=onnx.numpy_helper.from_array(
        numpy.zeros((8, 3, 1, 1), "f"))),
    make_node("Conv", ["x", "w"], ["a"]),
    make_node("GlobalAveragePool", ["a"], ["p"]),
    make_node("HardSigmoid", ["p"], ["s"]),
    make_node("Mul", ["a", "s"], ["m"]),
    make_node("HardSwish", ["m"], ["h"]),
    make_node("Split", ["h"], ["u", "v"], axis=1),
    make_node("Concat", ["v", "u"], ["y"], axis=1),
]
tensors = [make_tensor_value_info(*of) for of in (
    ("x", onnx.TensorProto.FLOAT, ("N", 3, 32, 32)), ("y", onnx.TensorProto.FLOAT, None))]
graph = make_graph(nodes, "shuffled", tensors[:1], tensors[1:])
onnx.save(make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), sys.argv[1])
PY
says "pool " ucudnn solve memory --network "$tmp/shuffled.onnx" --batch 4 \
  --device-model K40 --budget 64MiB

# A report of converted convolutions says which time is whose.
says "PyTorch     planned" "$python" -c 'import torch, ucudnn.torch
ucudnn.torch.convert(torch.nn.Conv2d(3, 8, 3), torch.randn(4, 3, 16, 16), workspace_limit="1MiB")'

# The same from a coordinator, over REST.
start_coordinator
export UCUDNN_COORDINATOR=127.0.0.1:$grpc
start_agent node-1 --cpu-threads 1
"$python" - "127.0.0.1:$http" "$tmp" <<'PY'
import sys
import ucudnn
cluster = ucudnn.connect(sys.argv[1])
cluster.put_network(sys.argv[2] + "/small.csv")
plan = cluster.make_plan("small", 4, workspace_limit="1MiB", timeout=120)
workspace = plan.ranks[0].workspace
measured = cluster.profile(plan.ranks[0].device_kind, "small")
mine = ucudnn.solve_wr(measured, 4, "1MiB", "powerOfTwo")
assert mine.total_time_us == workspace.total_time_us, (mine, workspace)
print("ok plan", plan.id, "of", len(workspace.kernels), "kernels")
PY
ucudnn plan --network small --batch 4 --workspace-limit 1MiB --save "$tmp/job.json" >/dev/null
says "conv2" "$python" -c "import sys, ucudnn; print(ucudnn.WorkspacePlan.read(sys.argv[1]))" \
  "$tmp/job.json"
ucudnn profiles export "$tmp/measured.csv" --network small
says "conv1" ucudnn solve wr --profile "$tmp/measured.csv" --batch 4 --workspace-limit 1MiB
echo "ok researcher"
