"""Planned convolutions as PyTorch operators, for torch.compile and for whoever
records what runs. An operator finds its plans by their key."""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from typing import Any, Iterator, Mapping, Optional, Sequence

import torch

from ucudnn.torch.convolution.calls import layout_of

_SCHEMA = "int[] stride, int[] padding, int[] dilation, int groups, str key"

# By key: planned.PlannedCall.
_known: dict[str, Any] = {}


class _Here(threading.local):
    as_operators = False


_here = _Here()


def remember(key: str, planned: Any) -> None:
    """Makes a planned.PlannedCall known to the operators."""
    _known[key] = planned


@contextlib.contextmanager
def plans_as_operators() -> Iterator[None]:
    """Within it this thread's forward passes run plans as operators, which a
    TorchDispatchMode sees, at some microseconds of the host's time each."""
    before, _here.as_operators = _here.as_operators, True
    try:
        yield
    finally:
        _here.as_operators = before


def runs_operators() -> bool:
    """Whether plans run as operators now."""
    return _here.as_operators


def convolution_by_torch(
    taken: torch.Tensor,
    weight: torch.Tensor,
    bias: Optional[torch.Tensor],
    geometry: Sequence[Any],  # as of Call
) -> torch.Tensor:
    stride, padding, dilation, groups = geometry
    return torch.ops.aten.convolution(
        taken, weight, bias, stride, padding, dilation, False, [0] * len(stride),
        groups,
    )  # fmt: skip


def backward_by_torch(
    gradient: torch.Tensor,
    taken: torch.Tensor,
    weight: torch.Tensor,
    geometry: Sequence[Any],  # as of Call
    wanted: Sequence[bool],
) -> Any:
    stride, padding, dilation, groups = geometry
    return torch.ops.aten.convolution_backward(
        gradient, taken, weight, [weight.shape[0]], stride, padding, dilation, False,
        [0] * len(stride), groups, list(wanted),
    )  # fmt: skip


# Both lay results out as the operands, which Inductor may lay out otherwise than they
# were planned. A key that is not known is of another process, or of fake tensors.
def _convolution(
    known: Mapping[str, Any],
    taken: torch.Tensor,
    weight: torch.Tensor,
    bias: Optional[torch.Tensor],
    *rest: Any,
) -> torch.Tensor:
    *geometry, key = rest
    planned = known.get(key)
    if planned is None:
        result = convolution_by_torch(taken, weight, bias, geometry)
    else:
        result = planned.forward(taken, weight, bias)
    return result.contiguous(memory_format=layout_of(taken, weight))


def _convolution_backward(
    known: Mapping[str, Any],
    gradient: torch.Tensor,
    taken: torch.Tensor,
    weight: torch.Tensor,
    *rest: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    *geometry, key, wanted = rest
    planned = known.get(key)
    if planned is None:
        told = backward_by_torch(gradient, taken, weight, geometry, wanted)
    else:
        told = planned.backward(gradient, taken, weight, wanted)
    layout = layout_of(taken, weight)
    data, filter_, shift = (gradient.new_empty(0) if t is None else t for t in told)
    if wanted[0]:
        data = data.contiguous(memory_format=layout)
    if wanted[1]:
        filter_ = filter_.contiguous(memory_format=layout)
    return data, filter_, shift


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
for _name, _kernel in (
    ("convolution", _convolution),
    ("convolution_backward", _convolution_backward),
):
    library.impl(_name, partial(_kernel, _known), "CompositeExplicitAutograd")
    torch.library.register_fake(f"ucudnn::{_name}", partial(_kernel, {}), lib=library)
torch.library.register_autograd(
    "ucudnn::convolution", _backward, setup_context=_setup_context, lib=library
)
