"""Convolutions as they occur in a model's pass: types after autocast, layouts,
groups and calls of functions included."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Iterator, NamedTuple, Optional, Sequence

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ucudnn.problems import problem_text
from ucudnn.torch.convolution.places import Places
from ucudnn.torch.devices import same_randomness

FORWARD = "forward"
DATA = "backward_data"
FILTER = "backward_filter"
OPERATIONS = (FORWARD, DATA, FILTER)

CONVOLUTIONS = ("aten::convolution", "aten::_convolution")
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
_PRECISIONS = {
    torch.float32: "FP32",
    torch.float16: "PSEUDO_HALF",
    torch.bfloat16: "BF16",
}


# Stride, padding, dilation and groups, as PyTorch's operators take them.
Geometry = tuple[list[int], list[int], list[int], int]


class Call(NamedTuple):
    """All that the plans of a convolution depend on."""

    input: tuple[int, ...]
    filter: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    dtype: torch.dtype
    layout: torch.memory_format
    device: torch.device
    tf32: bool

    @property
    def batch(self) -> int:
        return self.input[0]

    @property
    def output(self) -> tuple[int, ...]:
        extents = (
            (size + 2 * padding - dilation * (width - 1) - 1) // stride + 1
            for size, width, padding, dilation, stride in zip(
                self.input[2:], self.filter[2:], self.padding, self.dilation,
                self.stride,
            )
        )  # fmt: skip
        return (self.input[0], self.filter[0], *extents)

    @property
    def precision(self) -> str:
        return "TF32" if self.tf32 else _PRECISIONS[self.dtype]

    @property
    def layout_name(self) -> str:
        return "NCHW" if self.layout == torch.contiguous_format else "NHWC"

    @property
    def geometry(self) -> Geometry:
        return [*self.stride], [*self.padding], [*self.dilation], self.groups

    def problem(self, operation: str) -> str:
        """The text form that libucudnn_conv reads."""
        return problem_text(
            operation, self.input[1], self.input[2:], self.filter[0],
            self.filter[2:], self.padding, self.stride, self.dilation, self.groups,
            self.precision, self.layout_name,
        )  # fmt: skip

    def __str__(self) -> str:
        def product(values: tuple[int, ...]) -> str:
            return "x".join(map(str, values))

        return (
            f"{product(self.input)} * {product(self.filter)}"
            f"{f', {self.groups} groups' if self.groups > 1 else ''}, "
            f"{self.precision} {self.layout_name}"
        )


@functools.lru_cache(maxsize=None)
def _has_tf32(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device)[0] >= 8


def allows_tf32(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether PyTorch rounds such a convolution's operands to TF32 now."""
    if device.type != "cuda" or dtype != torch.float32 or not _has_tf32(device):
        return False
    try:
        return bool(torch.backends.cudnn.allow_tf32)
    except RuntimeError:
        # Set by its successor, after which PyTorch refuses to tell.
        return torch.backends.cudnn.conv.fp32_precision == "tf32"


def wants_determinism() -> bool:
    """Whether PyTorch is told now to use deterministic algorithms alone."""
    return bool(
        torch.are_deterministic_algorithms_enabled()
        or torch.backends.cudnn.deterministic
    )


def layout_of(taken: torch.Tensor, weight: torch.Tensor) -> torch.memory_format:
    """The layout in which PyTorch computes: channels last if either has it."""
    last = _LAST[taken.dim()]
    for tensor in (taken, weight):
        if tensor.is_contiguous(memory_format=last) and not tensor.is_contiguous():
            return last
    return torch.contiguous_format


class Occurrence(NamedTuple):
    """A convolution that ran."""

    place: str  # the module's name
    call: Optional[Call]  # none if it cannot be planned
    operations: tuple[str, ...]
    why: str  # it cannot be planned


class _Recorder(TorchDispatchMode):
    """Notes the convolutions of a model's forward pass, and from what needs a
    gradient those of its backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.occurrences: list[Occurrence] = []
        self._places = Places()
        self.following = self._places.following

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func._schema.name in CONVOLUTIONS:
            self._note(args)
        return func(*args, **(kwargs or {}))

    def _note(self, args: Any) -> None:
        taken, weight, _, stride, padding, dilation, transposed = args[:7]
        groups = args[8]
        operations = [FORWARD]
        if taken.requires_grad:
            operations.append(DATA)
        if weight.requires_grad:
            operations.append(FILTER)
        call, why = call_of(
            taken, weight, stride, padding, dilation, transposed, groups
        )
        self.occurrences.append(
            Occurrence(self._places.now, call, tuple(operations), why)
        )


def per_axis(values: Sequence[int], axes: int) -> tuple[int, ...]:
    """A value for each axis of an operator's argument, which may have one for
    all."""
    return tuple(values) * (axes if len(values) == 1 else 1)


def call_of(
    taken: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
) -> tuple[Optional[Call], str]:
    """Of an operator's arguments; or None, and why it cannot be planned."""
    why = _unfit(taken, weight, transposed)
    if why:
        return None, why
    axes = weight.dim() - 2
    call = Call(
        tuple(taken.shape),
        tuple(weight.shape),
        per_axis(stride, axes),
        per_axis(padding, axes),
        per_axis(dilation, axes),
        groups,
        taken.dtype,
        layout_of(taken, weight),
        taken.device,
        allows_tf32(taken.device, taken.dtype),
    )
    return call, ""


def _unfit(taken: torch.Tensor, weight: torch.Tensor, transposed: bool) -> str:
    if transposed:
        return "it is transposed"
    if taken.dim() not in _LAST:
        return f"it has {taken.dim() - 2} spatial dimension"
    if taken.dtype not in _PRECISIONS or taken.dtype != weight.dtype:
        return f"its type is {taken.dtype}"
    if taken.device.type not in ("cpu", "cuda"):
        return f"it runs on {taken.device.type}"
    if taken.layout != torch.strided or 0 in taken.shape:
        return "its input is sparse or empty"
    return ""


@contextlib.contextmanager
def buffers_kept(model: torch.nn.Module, device: torch.device) -> Iterator[None]:
    """Afterwards the model's buffers, such as BatchNorm's statistics, and random
    numbers are as before."""
    before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {
        id(buffer): (buffer, buffer.detach().clone()) for buffer in model.buffers()
    }
    with same_randomness(device):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, copied in before.values():
                    buffer.copy_(copied)


def record(model: torch.nn.Module, example: Any, keywords: Any) -> list[Occurrence]:
    """The convolutions that `model(*example, **keywords)` runs now."""
    recorder = _Recorder()
    with recorder.following(model), torch.enable_grad(), recorder:
        model(*example, **keywords)
    return recorder.occurrences
