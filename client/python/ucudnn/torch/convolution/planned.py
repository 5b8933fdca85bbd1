"""Runs one planned convolution in place of PyTorch's: eagerly, in autograd's
threads, while a CUDA graph is captured, and in what torch.compile makes."""

from __future__ import annotations

import hashlib
import warnings
from typing import Any, Mapping, Optional, Sequence

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
from ucudnn.torch.convolution.observed import (
    has_exact_type,
    is_memory,
    is_observed,
    is_transformed,
)
from ucudnn.torch.convolution.operators import (
    backward_by_torch,
    convolution_by_torch,
    remember,
    runs_operators,
)
from ucudnn.torch.devices import current_stream

ALIGNMENT = 16
# What autocast casts.
_CAST = (torch.float32, torch.float16, torch.bfloat16)

_Gradients = tuple[
    Optional[torch.Tensor], Optional[torch.Tensor], Optional[torch.Tensor]
]


class PlannedCall:
    """A convolution with the plans of those of its operations that gain by them;
    the others stay PyTorch's, which also computes what a plan cannot at the
    moment. Any thread may use it."""

    def __init__(self, call: Call, plans: Mapping[str, Convolution]) -> None:
        self.call = call
        self.plans = dict(plans)
        self._shapes = {FORWARD: call.output, DATA: call.input, FILTER: call.filter}
        told = [str(call)] + [
            f"{op} {call.problem(op)} {plan.workspace} {plan.text}"
            for op, plan in sorted(plans.items())
        ]
        # The same in every process, since compiled code may be kept.
        self.key = hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
        self.geometry = call.geometry
        self._shifts = (1, call.filter[0]) + (1,) * (len(call.filter) - 2)
        self._axes = (0, *range(2, len(call.input)))

    def remember(self) -> None:
        """Makes it known to operators.py."""
        remember(self.key, self)

    def fits(
        self,
        taken: torch.Tensor,
        weight: torch.Tensor,
        bias: Optional[torch.Tensor],
        dtype: Optional[torch.dtype],
    ) -> bool:
        """Whether this is the convolution of these operands, which autocast casts
        to `dtype`, if that is not None."""
        call = self.call
        return (
            tuple(taken.shape) == call.input
            and tuple(weight.shape) == call.filter
            and all(
                one is None
                or one.device == call.device
                and (dtype if dtype and one.dtype in _CAST else one.dtype) == call.dtype
                for one in (taken, weight, bias)
            )
            and layout_of(taken, weight) == call.layout
        )

    def forward(
        self, taken: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor]
    ) -> torch.Tensor:
        out = self._planned(FORWARD, taken, weight)
        if out is not None:
            return out if bias is None else out.add_(bias.view(self._shifts))
        return convolution_by_torch(taken, weight, bias, self.geometry)

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
            others = backward_by_torch(gradient, taken, weight, self.geometry, left)
            data = others[0] if left[0] else data
            filter_ = others[1] if left[1] else filter_
        return data, filter_, shift

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
        """The operation by its plan, enqueued on the current stream; None if the
        operands are not as it needs them. Raises Error if it fails."""
        call, plan = self.call, self.plans[name]
        a = a.contiguous(memory_format=call.layout)
        b = b.contiguous(memory_format=call.layout)
        first, second = a.data_ptr(), b.data_ptr()
        if (first | second) % ALIGNMENT:
            return None
        device = call.device
        out = torch.empty(
            self._shapes[name], dtype=call.dtype, device=device,
            memory_format=call.layout,
        )  # fmt: skip
        # Freed here, and given to nobody else before this stream is through.
        size = plan.workspace
        workspace = torch.empty(size, dtype=torch.uint8, device=device)
        plan.run(
            current_stream(device), first, second, out.data_ptr(),
            workspace.data_ptr(), size,
        )  # fmt: skip
        return out


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
        if runs_operators():
            return _by_operator(planned, taken, weight, bias)
        return planned.forward(taken, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        taken, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:3]
        if (
            torch.is_grad_enabled()
            or is_observed()
            or not is_memory(gradient, taken, weight)
        ):
            # Somebody differentiates, maps or records the gradients.
            told = backward_by_torch(
                gradient, taken, weight, ctx.planned.geometry, wanted
            )
            return (*(g if w else None for g, w in zip(told, wanted)), None)
        return (*ctx.planned.backward(gradient, taken, weight, wanted), None)


def autocast_dtype(device: torch.device) -> Optional[torch.dtype]:
    """The type that autocast gives to convolutions; None outside of it."""
    if not torch.is_autocast_enabled(device.type):
        return None
    return torch.get_autocast_dtype(device.type)


def convolve(
    planned: tuple[PlannedCall, ...],
    taken: torch.Tensor,
    weight: torch.Tensor,
    bias: Optional[torch.Tensor],
) -> Optional[torch.Tensor]:
    """The convolution by the first that fits; None if none does, or if PyTorch's own
    operator must be seen."""
    operands = (taken, weight) if bias is None else (taken, weight, bias)
    compiling = torch.compiler.is_compiling()
    if compiling:
        if is_transformed() or not has_exact_type(*operands):
            return None
    elif is_observed() or not is_memory(*operands):
        return None
    for one in planned:
        dtype = autocast_dtype(one.call.device)
        if not one.fits(taken, weight, bias, dtype):
            continue
        if dtype is not None:
            taken, weight = taken.to(dtype), weight.to(dtype)
            bias = None if bias is None else bias.to(dtype)
        if compiling:
            return _by_operator(one, taken, weight, bias)
        if one.call.tf32 == allows_tf32(taken.device, taken.dtype):
            return _Convolution.apply(taken, weight, bias, one)
    return None


def _by_operator(
    one: PlannedCall,
    taken: torch.Tensor,
    weight: torch.Tensor,
    bias: Optional[torch.Tensor],
) -> torch.Tensor:
    return torch.ops.ucudnn.convolution(taken, weight, bias, *one.geometry, one.key)
