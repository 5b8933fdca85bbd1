"""What ucudnn.torch looks at before it accepts something, and how it refuses."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Sequence

import torch

from ucudnn.errors import InvalidArgument


def refuse(place: str, value: Any, accepted: str) -> InvalidArgument:
    """The error for a value. `accepted` says what would be: "64 is accepted"."""
    return InvalidArgument(f"{place}: {value}; {accepted}")


def one_of(place: str, value: Any, known: Sequence[Any]) -> None:
    """Refuses what is not known."""
    if value not in known:
        names = ", ".join(map(repr, known))
        raise refuse(place, repr(value), f"one of {names} is accepted")


def whole_number(place: str, value: Any, least: int) -> int:
    """`value` as an int of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise refuse(place, repr(value), f"a whole number from {least} up is accepted")
    return value


def warn(text: str) -> None:
    """At the line outside of this package that led here."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals["__name__"].startswith("ucudnn."):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"ucudnn: {text}", stacklevel=level)


def refuse_lazy(place: str, model: torch.nn.Module) -> None:
    """Refuses parameters and buffers that have no shape yet."""
    for tensors in (model.named_parameters(), model.named_buffers()):
        for name, tensor in tensors:
            if torch.nn.parameter.is_lazy(tensor):
                raise refuse(
                    f"{place}: {name}",
                    "uninitialized, of a lazy module",
                    "a model that has run once is accepted",
                )


def under_hooks() -> bool:
    """Whether hooks for saved tensors are active, as within a checkpoint. They see a
    tensor of one element."""
    with torch.enable_grad():
        probe = torch.ones(1, requires_grad=True, device="cpu").exp()
    try:
        probe.grad_fn._raw_saved_result.register_hooks(lambda x: x, lambda x: x)
    except RuntimeError:
        return True
    return False
