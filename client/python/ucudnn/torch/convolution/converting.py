"""ucudnn.torch.convert: plans for the convolutions of a model."""

from __future__ import annotations

from typing import Any, Mapping, Optional

import torch

from ucudnn.convolutions import ConvolutionDevice
from ucudnn.sizes import Size, parse_size
from ucudnn.torch.checks import refuse, refuse_lazy
from ucudnn.torch.convolution.calls import (
    Occurrence,
    buffers_kept,
    record,
    wants_determinism,
)
from ucudnn.torch.convolution.contest import FULL, Contest, Operation, worth_planning
from ucudnn.torch.convolution.conversion import Conversion, Layer
from ucudnn.torch.convolution.places import unwrapped
from ucudnn.torch.convolution.swapping import take, why_not, why_other
from ucudnn.torch.devices import current, device_of, same_randomness, slice_units
from ucudnn.torch.nested import tensors_in
from ucudnn.torch.timing import Time, times_of

_devices: dict[tuple[Any, ...], ConvolutionDevice] = {}


def convert(
    model: torch.nn.Module,
    *example: Any,
    workspace_limit: Optional[Size] = None,
    total_workspace: Optional[Size] = None,
    enforce_limit: bool = False,
    seconds: Optional[float] = None,
    graphs: bool = False,
    quiet: bool = False,
    **keywords: Any,
) -> Conversion:
    """Plans the model's convolutions, and lets its modules run what gains by it.

    Runs `model(*example, **keywords)` to see each convolution as it occurs; call
    it as you train: in the same autocast, on the same device, with a whole batch.
    Measures PyTorch's own time for each operation and that of a plan within
    `workspace_limit` ("64MiB" by default) for each convolution, or within
    `total_workspace` for all together, and takes the plan only if it is faster.
    If the model's whole pass is not faster then, everything stays PyTorch's.
    With `enforce_limit`, operations for which PyTorch takes more workspace on a GPU
    run their plans even if those are slower, and so then does the whole pass. With
    `graphs` the model will run as a CUDA graph, where the host's time does not
    count: what gains by itself is taken, whatever the whole pass takes enqueued.

    A module keeps its class. It runs its plan for inputs and weights of the shape,
    type, layout and GPU of the example, and PyTorch's convolution for all others,
    and under tracers, exporters, functorch, forward-mode AD and TorchDispatchModes.
    Under `torch.use_deterministic_algorithms` or `cudnn.deterministic` nothing is
    converted, and a converted model runs PyTorch's. The model's parameters,
    `state_dict` and statistics are untouched; copies and pickles are plain.
    No operation's planning begins after `seconds`. Prints each layer's times by
    PyTorch and planned, or why it stays; returns them, with `revert()`. What there is
    no memory to measure stays PyTorch's.

    Raises InvalidArgument for sizes that are none, for a model without convolutions,
    with lazy modules that have not run, or whose passes wait for other ranks;
    LibraryNotFound without libucudnn_conv.
    """
    if workspace_limit is not None and total_workspace is not None:
        raise refuse(
            "convert: workspace_limit and total_workspace",
            f"{workspace_limit} and {total_workspace}",
            "one of them is accepted",
        )
    total = None if total_workspace is None else parse_size(total_workspace)
    limit = parse_size("64MiB" if workspace_limit is None else workspace_limit)
    inner = unwrapped(model)
    refuse_lazy("convert", inner)
    _refuse_collectives(inner)
    device = _device_of(inner, example)
    for module in inner.modules():
        take(module)  # plans of an earlier call would hide their convolutions
    with current(device):
        try:
            conversion = _planned(
                inner, device, example, keywords, Contest(open_device(device), seconds),
                limit, total, enforce_limit,
            )  # fmt: skip
        except torch.OutOfMemoryError:
            conversion = Conversion(inner, [])
            conversion.why = FULL
        else:
            _compare_passes(conversion, inner, device, example, keywords)
    if not (graphs or conversion.enforced):
        conversion.keep_if_faster()
    if not quiet:
        print(conversion, flush=True)
    return conversion


def _planned(
    model: torch.nn.Module,
    device: torch.device,
    example: Any,
    keywords: Mapping[str, Any],
    contest: Contest,
    limit: int,
    total: Optional[int],
    enforces: bool,
) -> Conversion:
    """What the model runs, planned; leaves the model as it is."""
    with buffers_kept(model, device):
        seen = record(model, example, keywords)
    if not seen:
        raise refuse(
            "convert: the model",
            f"a {type(model).__name__} that ran no convolution",
            "a model with convolutions is accepted",
        )
    layers = _layers(model, seen, device)
    plain = torch.autocast(device.type, enabled=False)
    with torch.no_grad(), same_randomness(device), plain:
        plan_layers(layers, contest, limit, total, enforces)
    return Conversion(model, layers)


# Layers whose forward passes wait for other ranks, which measure other numbers of them.
_COLLECTIVE = ("FullyShardedDataParallel", "FSDPModule", "SyncBatchNorm")


def _refuse_collectives(model: torch.nn.Module) -> None:
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return
    if torch.distributed.get_world_size() == 1:
        return
    for name, module in model.named_modules():
        for kind in type(module).__mro__:
            if kind.__name__ in _COLLECTIVE:
                raise refuse(
                    f"convert: {name or 'the model'}",
                    f"a {kind.__name__}, whose passes wait for other ranks",
                    f"a model before it is given {kind.__name__} is accepted",
                )


def _device_of(model: torch.nn.Module, example: Any) -> torch.device:
    device = device_of((model, *example))
    if device is None:
        raise refuse(
            "convert: the model",
            f"a {type(model).__name__} without parameters, and no tensor to run it "
            "on",
            "a model with convolutions and an example of its input are accepted",
        )
    return device


def open_device(device: torch.device) -> ConvolutionDevice:
    """Kept for later calls, since it remembers measurements."""
    key = (device, torch.get_num_threads())
    if device.type == "cuda":
        stream = torch.cuda.current_stream(device).cuda_stream
        key = (device, slice_units(device) and stream)
    if key not in _devices:
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.synchronize()  # makes the context current
                _devices[key] = ConvolutionDevice.gpu(stream)
        else:
            _devices[key] = ConvolutionDevice.cpu(torch.get_num_threads())
    return _devices[key]


def _why_nothing() -> str:
    return "PyTorch is set to deterministic algorithms" if wants_determinism() else ""


def _layers(
    model: torch.nn.Module, seen: list[Occurrence], device: torch.device
) -> list[Layer]:
    modules = dict(model.named_modules())
    layers = []
    for place, call, operations, why in seen:
        module = modules[place]
        why = why or why_not(module) or _why_nothing()
        if call is not None and not why and call.device != device:
            why = f"it runs on {call.device}, the model's first parameters on {device}"
        if call is not None and not why:
            why = why_other(module, call)
        if why:
            layers.append(Layer(place or type(model).__name__, why=why))
        else:
            todo = [Operation(name, Time(0.0, 0.0)) for name in operations]
            layers.append(Layer(place, call, todo))
    return layers


def plan_layers(
    layers: list[Layer],
    contest: Contest,
    limit: int,
    total: Optional[int],
    enforces: bool,
) -> None:
    """Decides for each operation of the layers, without gradients or autocast."""
    every = [
        (layer.call, operation)
        for layer in layers
        if layer.call is not None
        for operation in layer.operations
    ]
    for call, operation in every:
        try:
            operation.torch = contest.torch_time(call, operation.name)
            taken = contest.torch_workspace(call, operation.name) if enforces else 0
        except torch.OutOfMemoryError:
            operation.why = FULL
            continue
        operation.over = taken if taken > (limit if total is None else total) else 0
    chosen = [every[index] for index in worth_planning(every)]
    if total is not None:
        contest.divide(chosen, total)
        return
    for call, operation in chosen:
        contest.decide(call, operation, limit)


def _compare_passes(
    conversion: Conversion,
    model: torch.nn.Module,
    device: torch.device,
    example: Any,
    keywords: Mapping[str, Any],
) -> None:
    """Whole passes before and after; leaves the model converted, unless it fails
    then."""
    if not conversion.converted:
        conversion.why = _why_nothing() or "no plan is faster"
        return

    def run() -> None:
        with torch.enable_grad():
            _backward(model, model(*example, **keywords))

    def planned() -> None:
        conversion.apply()
        run()

    def plain() -> None:
        conversion.revert()
        run()

    try:
        with buffers_kept(model, device):
            told = times_of({"before": plain, "after": planned}, device)
    except BaseException as error:
        conversion.revert()
        if not isinstance(error, Exception):
            raise
        conversion.why = f"its pass fails with the plans: {error}"
        if isinstance(error, torch.OutOfMemoryError):
            conversion.why = FULL
            return
        with buffers_kept(model, device):
            run()  # raises if the model itself fails
        return
    conversion.before, conversion.after = told["before"], told["after"]
    conversion.apply()


def _backward(model: torch.nn.Module, output: Any) -> None:
    """The gradients of all parameters, which are left alone."""
    found = [t.float().sum() for t in tensors_in(output) if t.requires_grad]
    parameters = [p for p in model.parameters() if p.requires_grad]
    if found and parameters:
        torch.autograd.grad(sum(found), parameters, allow_unused=True)
