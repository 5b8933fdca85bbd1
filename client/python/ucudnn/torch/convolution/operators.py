"""Planned convolutions as PyTorch operators, for torch.compile and for whoever
records what runs. An operator finds its plans by their key."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Dict, Iterator, Optional, Tuple

import torch

from ucudnn.torch.convolution.calls import layout_of

_SCHEMA = "int[] stride, int[] padding, int[] dilation, int groups, str key"

# By key: planned.PlannedCall.
_known: Dict[str, Any] = {}


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
        # Inductor may lay the operands out otherwise than they were planned.
        result: torch.Tensor = planned.forward(taken, weight, bias)
        return result.contiguous(memory_format=layout_of(taken, weight))
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
    layout, nothing = layout_of(taken, weight), gradient.new_empty(0)
    data, filter_, shift = (nothing.clone() if t is None else t for t in told)
    if wanted[0]:
        data = data.contiguous(memory_format=layout)
    if wanted[1]:
        filter_ = filter_.contiguous(memory_format=layout)
    return data, filter_, shift


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
    torch.library.register_fake(f"ucudnn::{_name}", _fake, lib=library)
torch.library.register_autograd(
    "ucudnn::convolution",
    _backward,
    setup_context=_setup_context,
    lib=library,
)
