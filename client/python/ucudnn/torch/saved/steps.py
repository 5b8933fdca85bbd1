"""Operators that ran, to run again: element-wise ones, pools, convolutions, and
batch normalization from its saved statistics."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional, Sequence

import torch

from ucudnn.torch.saved.storages import Layout
from ucudnn.torch.saved.values import NORMALIZATIONS, OPERATORS, Call, Source, Value

# Operators whose results' elements depend on one element of each operand.
_BY_ELEMENT = ("relu", "silu", "sigmoid", "hardswish", "hardtanh", "add")


class Step(NamedTuple):
    by_element: bool
    value: Value
    run: Callable[..., torch.Tensor]  # of the tensors that it reads
    reads: tuple[Source, ...]


def step_of(value: Value) -> Optional[Step]:
    """What makes the value again; none if its operator cannot."""
    call = value.call
    if call is None:
        return None
    if call.name in NORMALIZATIONS:
        return _normalization(value, call)
    if call.name not in OPERATORS:
        return None
    func = call.func
    if call.name.endswith("_"):
        packet = getattr(torch.ops.aten, call.name[:-1])
        func = getattr(packet, func._overloadname, None)
        if func is None:
            return None
    run, reads = running(value, call, func)
    by_element = call.name.rstrip("_") in _BY_ELEMENT
    return Step(by_element, value, run, tuple(reads))


def running(
    value: Value, call: Call, func: Any
) -> tuple[Callable[..., torch.Tensor], list[Source]]:
    """What computes the value by `func`, and the tensors that it reads."""
    reads: list[Source] = []
    args = _emptied(call.args, reads)
    kwargs = {n: _emptied(item, reads) for n, item in call.kwargs.items()}
    output = value.output

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        result = func(
            *_filled(args, tensors),
            **{n: _filled(item, tensors) for n, item in kwargs.items()},
        )
        return result[output] if isinstance(result, (tuple, list)) else result

    return run, reads


class _Place:
    def __init__(self, index: int) -> None:
        self.index = index


# Functions of their own: inner ones that call themselves would keep tensors until
# garbage is collected.
def _emptied(item: Any, reads: list[Source]) -> Any:
    """The argument with places for its Sources, which `reads` gets."""
    if isinstance(item, Source):
        reads.append(item)
        return _Place(len(reads) - 1)
    if isinstance(item, (list, tuple)):
        return type(item)(_emptied(one, reads) for one in item)
    return item


def _filled(item: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """The argument with tensors in their places."""
    if isinstance(item, _Place):
        return tensors[item.index]
    if isinstance(item, (list, tuple)):
        return type(item)(_filled(one, tensors) for one in item)
    return item


def _normalization(value: Value, call: Call) -> Optional[Step]:
    """y = (x - mean) * invstd * weight + bias, in one pass over x."""
    taken, weight, bias = call.args[:3]
    training, eps = call.args[5], call.args[7]
    if value.output != 0 or not training or len(call.outputs) < 3:
        return None
    statistics = call.outputs[1:3]
    if weight is None or bias is None:
        return None
    if any(one.saved is None for one in statistics):
        return None
    channels = Layout((-1,), (1,), 0)

    def run(
        x: torch.Tensor, w: torch.Tensor, b: torch.Tensor,
        mean: torch.Tensor, invstd: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        if x.device.type == "cuda":
            return torch.batch_norm_elemt(x, w, b, mean, invstd, eps)
        variance = invstd.pow(-2).sub_(eps)
        return torch.batch_norm(x, w, b, mean, variance, False, 0.0, eps, False)

    sources = tuple(Source(one, None, channels) for one in statistics)
    return Step(True, value, run, (taken, weight, bias, *sources))
