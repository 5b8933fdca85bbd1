"""The solver of memory plans in libucudnn_solve.so."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Mapping,
    Optional,
    SupportsIndex,
    TypedDict,
    Union,
)

from ucudnn.files import PathLike, read_json
from ucudnn.library import ask_solver
from ucudnn.literals import Allocator, Fusion, Layout, MemoryPolicy, Precision
from ucudnn.memory_plans import MemoryPlan
from ucudnn.networks import InputShapeLike, NetworkLike, network_of, shapes_of
from ucudnn.profile_filter import named
from ucudnn.profiles import csv_of
from ucudnn.sizes import Size, parse_size
from ucudnn.solve import ProfileLike

if TYPE_CHECKING:  # a part of Python's typing since 3.11
    from typing_extensions import Unpack

DeviceModelLike = Union[PathLike, Mapping[str, Any]]


class MemoryOptions(TypedDict, total=False):
    """What solve_memory and solve_joint_memory both take; ucudnn/solve.h has the
    defaults."""

    policy: MemoryPolicy
    precision: Precision
    recompute: bool
    offload_weights: bool
    allocator: Allocator
    fuse: Fusion
    split: str
    time_limit: float
    input_shape: Optional[InputShapeLike]
    profile_network: str
    device: str
    layout: Optional[Layout]
    max_error: Optional[float]


def solve_memory(
    network: NetworkLike,
    batch: SupportsIndex,
    device_model: DeviceModelLike,
    budget: Optional[Size] = None,
    *,
    profile: Optional[ProfileLike] = None,
    sub_batch: Optional[SupportsIndex] = None,
    gpus: SupportsIndex = 1,
    **options: Unpack[MemoryOptions],
) -> MemoryPlan:
    """Plans one training iteration within a budget of device memory: what leaves
    for the host and when it returns, which convolution algorithms run beside it,
    and where every block lies (docs/memory.md).

    `network` is a file, an ONNX model or a chain of convolutions as CSV, or its
    contents as bytes. `batch` is in images, `budget` in bytes or text such as
    "4GB"; without it, the device model's memory counts. `device_model` is
    "GTX970", "TITANX", "K40", "P100-NVLINK", "V100" or "H200", a JSON file (a
    Path, or text that ends in .json), or a dict of its fields. It estimates the
    times that `profile` lacks; `device`, `layout` and `profile_network` select
    its rows. Unless given, the network is the one named like the file.
    `max_error` is the largest error of algorithms, as far as the profile has
    errors; the plan's `notes` say where it has none.
    `input_shape` has the sizes besides the batch that an ONNX model leaves open,
    such as (3, 224, 224), or {"image": (3, 224, 224)} where several inputs do.

    `policy`, "best" unless given, is "baseline"; "vdnn-all", "vdnn-conv" or "vdnn-dyn" (Rhu et al.,
    MICRO 2016); "vdnn-ext" (Shriram); "modnn" (Chen et al., TPDS 2019); "hmms"
    (Jin and Hong, ASPLOS 2019); "best", a search that is never slower than
    these; or "all", for the fastest plan of all policies. `sub_batch` images are
    trained at once instead of the policy's choice. With `recompute`, "best" may
    compute activations again; with `offload_weights`, it may keep weights on the
    host. "modnn" plans for one of `gpus` that share the mini-batch and the link
    to the host. `allocator` "static" places blocks once all lifetimes are known,
    "policy" as the policy's own memory manager does. `fuse` "paper" counts
    layers as moDNN's authors do. `split` "DEPTH,H,W[,stochastic]" plans another
    network, computed in parts of the image (Split-CNN), without a profile.

    Takes from some 10 ms (VGG-16) to half a second (ResNet-152) for each policy;
    "best" may take longer, and returns the fastest plan so far after
    `time_limit` seconds, 60 unless given. Raises NoPlan, which names a budget that would do, if
    the budget is too small, and InvalidArgument if the input is malformed.
    """
    model, request = request_of(network, batch, options)
    request.update(
        device_model=device_model_of(device_model),
        budget_bytes=None if budget is None else parse_size(budget),
        sub_batch=sub_batch,
        gpus=gpus,
    )
    measured = None if profile is None else csv_of(profile)
    answer = ask_solver("memory", model, measured, request=request)
    plans = [p for p in answer.get("plans", [answer]) if p["feasible"]]
    fastest = min(plans, key=lambda plan: float(plan["time_us"]))
    return MemoryPlan.from_json({**answer, **fastest})


def request_of(
    network: NetworkLike, batch: SupportsIndex, options: Mapping[str, Any]
) -> tuple[bytes, dict[str, Any]]:
    """The network, and the fields that all requests for memory plans have."""
    request = named(options, MemoryOptions)
    model, name = network_of(network)
    request.update(
        batch=batch,
        network_name=name,
        input_shapes=shapes_of(request.pop("input_shape", None)),
        time_limit_s=request.pop("time_limit", None),
    )
    return model, request


def device_model_of(model: DeviceModelLike) -> Union[str, dict[str, Any]]:
    """What a request has for a device model of solve_memory."""
    if isinstance(model, Mapping):
        return dict(model)
    if isinstance(model, str) and not model.endswith(".json"):
        return model
    fields: dict[str, Any] = read_json(model)
    return fields
