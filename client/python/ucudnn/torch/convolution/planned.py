"""Runs one planned convolution in place of PyTorch's: eagerly, in autograd's
threads, while a CUDA graph is captured, and in what torch.compile makes."""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple

import torch

from ucudnn.convolutions import Convolution
from ucudnn.errors import Error
from ucudnn.torch.convolution.calls import (
    DATA,
    FILTER,
    FORWARD,
    Call,
    allows_tf32,
    layout_of,
    wants_determinism,
)
from ucudnn.torch.devices import current_stream

ALIGNMENT = 16
# Since PyTorch 2.4; before, compiled code calls PyTorch's own convolutions.
_COMPILES = hasattr(torch.library, "register_autograd")
_NAMES_AUTOCAST = hasattr(torch, "get_autocast_dtype")
# By key, for the operators below.
_known: Dict[str, PlannedCall] = {}
_as_operators = False

_Gradients = Tuple[
    Optional[torch.Tensor], Optional[torch.Tensor], Optional[torch.Tensor]
]


class PlannedCall:
    """A convolution with the plans of those of its operations that gain by them;
    the others stay PyTorch's, which also computes what a plan cannot at the
    moment. Any thread may use it."""

    def __init__(self, call: Call, plans: Mapping[str, Convolution]) -> None:
        self.call = call
        self.plans = dict(plans)
        self._shapes = {
            FORWARD: call.output,
            DATA: call.input,
            FILTER: call.filter,
        }
        told = [str(call)] + [
            f"{op} {call.problem(op)} {plan.workspace} {plan.text}"
            for op, plan in sorted(plans.items())
        ]
        # The same in every process, since compiled code may be kept.
        self.key = hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
        self._geometry = (
            list(call.stride),
            list(call.padding),
            list(call.dilation),
        )
        self._shifts = (1, call.filter[0]) + (1,) * (len(call.filter) - 2)
        self._axes = (0, *range(2, len(call.input)))

    def remember(self) -> None:
        """Makes it known to the operators below."""
        _known[self.key] = self

    def fits(
        self,
        taken: torch.Tensor,
        weight: torch.Tensor,
        dtype: Optional[torch.dtype],
    ) -> bool:
        """Whether this is the convolution of these operands, which autocast casts
        to `dtype`, if that is not None."""
        call = self.call
        return (
            tuple(taken.shape) == call.input
            and tuple(weight.shape) == call.filter
            and (dtype or taken.dtype) == call.dtype
            and (dtype or weight.dtype) == call.dtype
            and taken.device == call.device
            and layout_of(taken, weight) == call.layout
        )

    def forward(
        self,
        taken: torch.Tensor,
        weight: torch.Tensor,
        bias: Optional[torch.Tensor],
    ) -> torch.Tensor:
        out = self._planned(FORWARD, taken, weight)
        if out is not None:
            return out if bias is None else out.add_(bias.view(self._shifts))
        stride, padding, dilation = self._geometry
        return torch.ops.aten.convolution(
            taken, weight, bias, stride, padding, dilation, False,
            [0] * len(stride), self.call.groups,
        )  # fmt: skip

    def backward(
        self,
        gradient: torch.Tensor,
        taken: torch.Tensor,
        weight: torch.Tensor,
        wanted: Sequence[bool],
    ) -> _Gradients:
        """The gradients of input, filter and bias, as far as they are wanted."""
        data = filter_ = shift = None
        if wanted[0]:
            data = self._planned(DATA, gradient, weight)
        if wanted[1]:
            filter_ = self._planned(FILTER, taken, gradient)
        if wanted[2]:
            shift = gradient.sum(self._axes)
        left = [
            wanted[0] and data is None, wanted[1] and filter_ is None, False
        ]  # fmt: skip
        if any(left):
            others = self.backward_by_torch(gradient, taken, weight, left)
            data = others[0] if left[0] else data
            filter_ = others[1] if left[1] else filter_
        return data, filter_, shift

    def backward_by_torch(
        self,
        gradient: torch.Tensor,
        taken: torch.Tensor,
        weight: torch.Tensor,
        wanted: Sequence[bool],
    ) -> Any:
        stride, padding, dilation = self._geometry
        return torch.ops.aten.convolution_backward(
            gradient, taken, weight, [self.call.filter[0]], stride, padding,
            dilation, False, [0] * len(stride), self.call.groups, list(wanted),
        )  # fmt: skip

    def _planned(
        self, name: str, a: torch.Tensor, b: torch.Tensor
    ) -> Optional[torch.Tensor]:
        """None if there is no plan, or it cannot run now, or algorithms must be
        deterministic: a plan's may not be."""
        if name not in self.plans or wants_determinism():
            return None
        try:
            return self.run(name, a, b)
        except torch.cuda.OutOfMemoryError:
            return None  # PyTorch finds an algorithm with less workspace
        except Error as error:
            warnings.warn(
                f"ucudnn: {self.call}: the plan does not run, PyTorch's "
                f"convolution does: {error}",
                stacklevel=2,
            )
            return None

    def run(
        self, name: str, a: torch.Tensor, b: torch.Tensor
    ) -> Optional[torch.Tensor]:
        """The operation by its plan; None if the operands are not as it needs
        them. Raises Error if it fails."""
        return self._run(self.plans[name], a, b, self._shapes[name])

    def _run(
        self,
        plan: Convolution,
        a: torch.Tensor,
        b: torch.Tensor,
        shape: Tuple[int, ...],
    ) -> Optional[torch.Tensor]:
        """Enqueues the plan on the current stream; None if the operands are not
        as it needs them."""
        call = self.call
        a = a.contiguous(memory_format=call.layout)
        b = b.contiguous(memory_format=call.layout)
        first, second = a.data_ptr(), b.data_ptr()
        if (first | second) % ALIGNMENT:
            return None
        device = call.device
        out = torch.empty(
            shape, dtype=call.dtype, device=device, memory_format=call.layout
        )
        # Freed here, and given to nobody else before this stream is through.
        size = plan.workspace
        workspace = torch.empty(size, dtype=torch.uint8, device=device)
        plan.run(
            stream_of(device), first, second, out.data_ptr(),
            workspace.data_ptr(), size,
        )  # fmt: skip
        return out


def stream_of(device: torch.device) -> int:
    """The current stream, as libucudnn_conv takes it."""
    if device.type != "cuda":
        return 0
    return current_stream(device)


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        taken: torch.Tensor,
        weight: torch.Tensor,
        bias: Optional[torch.Tensor],
        planned: PlannedCall,
    ) -> torch.Tensor:
        ctx.save_for_backward(taken, weight)
        ctx.planned = planned
        if _as_operators:
            return _by_operator(planned, taken, weight, bias)
        return planned.forward(taken, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        taken, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():
            # Somebody differentiates the gradients, which plans cannot be.
            told = ctx.planned.backward_by_torch(
                gradient, taken, weight, wanted
            )
            return (*(g if w else None for g, w in zip(told, wanted)), None)
        return (*ctx.planned.backward(gradient, taken, weight, wanted), None)


def autocast_dtype(device: torch.device) -> Optional[torch.dtype]:
    """The type that autocast gives to convolutions; None outside of it."""
    kind = device.type
    if _NAMES_AUTOCAST:
        if not torch.is_autocast_enabled(kind):
            return None
        return torch.get_autocast_dtype(kind)
    if kind == "cuda":
        enabled = torch.is_autocast_enabled()
        return torch.get_autocast_gpu_dtype() if enabled else None
    enabled = torch.is_autocast_cpu_enabled()
    return torch.get_autocast_cpu_dtype() if enabled else None


def convolve(
    planned: Tuple[PlannedCall, ...],
    taken: torch.Tensor,
    weight: torch.Tensor,
    bias: Optional[torch.Tensor],
) -> Optional[torch.Tensor]:
    """The convolution by the first that fits; None if none does."""
    compiling = _COMPILES and torch.compiler.is_compiling()
    if not compiling and type(taken) is not torch.Tensor:
        return None  # a fake tensor, or somebody's subclass
    dtype = autocast_dtype(taken.device)
    for one in planned:
        if not one.fits(taken, weight, dtype):
            continue
        if dtype is not None:
            taken, weight = taken.to(dtype), weight.to(dtype)
            bias = None if bias is None else bias.to(dtype)
        if compiling:
            return _by_operator(one, taken, weight, bias)
        if one.call.tf32 == allows_tf32(taken.device, taken.dtype):
            return _Convolution.apply(taken, weight, bias, one)
    return None


# --- Operators, for torch.compile and for whoever records what runs.

_SCHEMA = "int[] stride, int[] padding, int[] dilation, int groups, str key"


@contextlib.contextmanager
def plans_as_operators() -> Iterator[None]:
    """Within it forward passes run plans as operators, which a TorchDispatchMode
    sees, at some microseconds of the host's time each."""
    global _as_operators
    before, _as_operators = _as_operators, True
    try:
        yield
    finally:
        _as_operators = before


def runs_operators() -> bool:
    """Whether plans run as operators now."""
    return _as_operators


def _by_operator(
    one: PlannedCall,
    taken: torch.Tensor,
    weight: torch.Tensor,
    bias: Optional[torch.Tensor],
) -> torch.Tensor:
    call = one.call
    result: torch.Tensor = torch.ops.ucudnn.convolution(
        taken, weight, bias, list(call.stride), list(call.padding),
        list(call.dilation), call.groups, one.key,
    )  # fmt: skip
    return result


def _convolution(
    taken: torch.Tensor,
    weight: torch.Tensor,
    bias: Optional[torch.Tensor],
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    key: str,
) -> torch.Tensor:
    planned = _known.get(key)
    if planned is not None:
        return planned.forward(taken, weight, bias)
    # Compiled by another process, which had a plan.
    return torch.ops.aten.convolution(
        taken, weight, bias, stride, padding, dilation, False, [0] * len(stride),
        groups,
    )  # fmt: skip


def _convolution_backward(
    gradient: torch.Tensor,
    taken: torch.Tensor,
    weight: torch.Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    key: str,
    wanted: Any,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    planned = _known.get(key)
    told: Any
    if planned is not None:
        told = planned.backward(gradient, taken, weight, wanted)
    else:
        told = torch.ops.aten.convolution_backward(
            gradient, taken, weight, [weight.shape[0]], stride, padding,
            dilation, False, [0] * len(stride), groups, list(wanted),
        )  # fmt: skip
    nothing = gradient.new_empty(0)
    first, second, third = (nothing.clone() if t is None else t for t in told)
    return first, second, third


def _fake_convolution(
    taken: torch.Tensor,
    weight: torch.Tensor,
    bias: Optional[torch.Tensor],
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    key: str,
) -> torch.Tensor:
    extents = [
        (size + 2 * p - d * (width - 1) - 1) // s + 1
        for size, width, p, d, s in zip(
            taken.shape[2:], weight.shape[2:], padding, dilation, stride
        )
    ]
    return torch.empty(
        [taken.shape[0], weight.shape[0], *extents],
        dtype=taken.dtype,
        device=taken.device,
        memory_format=layout_of(taken, weight),
    )


def _fake_convolution_backward(
    gradient: torch.Tensor,
    taken: torch.Tensor,
    weight: torch.Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    key: str,
    wanted: Any,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    layout = layout_of(taken, weight)

    def like(shape: Any, is_wanted: bool) -> torch.Tensor:
        if not is_wanted:
            return gradient.new_empty(0)
        return torch.empty(
            list(shape),
            dtype=gradient.dtype,
            device=gradient.device,
            memory_format=layout,
        )

    return (
        like(taken.shape, wanted[0]),
        like(weight.shape, wanted[1]),
        gradient.new_empty([weight.shape[0]] if wanted[2] else [0]),
    )


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    taken, weight, bias, *rest = inputs
    ctx.save_for_backward(taken, weight)
    ctx.rest = rest
    ctx.has_bias = bias is not None


def _backward(ctx: Any, gradient: torch.Tensor) -> Any:
    taken, weight = ctx.saved_tensors
    wanted = list(ctx.needs_input_grad[:3])
    wanted[2] = wanted[2] and ctx.has_bias
    told = torch.ops.ucudnn.convolution_backward(
        gradient, taken, weight, *ctx.rest, wanted
    )
    gradients = (g if w else None for g, w in zip(told, wanted))
    return (*gradients, *(None for _ in ctx.rest))


library = torch.library.Library("ucudnn", "DEF")
library.define(
    f"convolution(Tensor input, Tensor weight, Tensor? bias, {_SCHEMA}) -> Tensor"
)
library.define(
    "convolution_backward(Tensor gradient, Tensor input, Tensor weight, "
    f"{_SCHEMA}, bool[] wanted) -> (Tensor, Tensor, Tensor)"
)
for _name, _kernel, _fake in (
    ("convolution", _convolution, _fake_convolution),
    ("convolution_backward", _convolution_backward, _fake_convolution_backward),
):
    library.impl(_name, _kernel, "CompositeExplicitAutograd")
    if _COMPILES:
        torch.library.register_fake(f"ucudnn::{_name}", _fake, lib=library)
if _COMPILES:
    torch.library.register_autograd(
        "ucudnn::convolution",
        _backward,
        setup_context=_setup_context,
        lib=library,
    )
