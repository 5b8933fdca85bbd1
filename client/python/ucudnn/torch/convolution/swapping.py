"""Puts planned convolutions into a model's modules, and takes them out. The modules
keep their class, which tools look at; what is put is an attribute of the instance that
hides the class's `_conv_forward`."""

from __future__ import annotations

import copyreg
import weakref
from typing import Any, Optional

import torch

from ucudnn.torch.checks import refuse
from ucudnn.torch.convolution.calls import Call
from ucudnn.torch.convolution.planned import PlannedCall, convolve

_PLAIN = (torch.nn.Conv2d, torch.nn.Conv3d)
_NAME = "_conv_forward"


class PlannedForward:
    """Computes what was planned by the plan, and the rest as the module's class
    does."""

    def __init__(self, module: torch.nn.Module, calls: tuple[PlannedCall, ...]) -> None:
        # Weak, or memory would stay until Python collects the cycle.
        self._module = weakref.ref(module)
        self._kind = type(module)
        self._geometry = _geometry(module)
        self.calls = calls

    def __call__(
        self, taken: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor]
    ) -> torch.Tensor:
        module: Any = self._module()
        if module is None:
            raise RuntimeError(
                f"ucudnn: a {self._kind.__name__} with planned convolutions that it "
                "took over from another, which is gone; copy.deepcopy of a converted "
                "module, or revert() before, is accepted"
            )
        kind = type(module)
        if (
            kind._conv_forward is self._kind._conv_forward
            and _geometry(module) == self._geometry
        ):
            out = convolve(self.calls, taken, weight, bias)
            if out is not None:
                return out
        return kind._conv_forward(module, taken, weight, bias)

    def __reduce__(self) -> Any:
        # For copies that go around `_plain`: the method that this hides.
        return getattr, (self._module(), _NAME)


def _geometry(module: Any) -> tuple[Any, ...]:
    return (
        module.stride, module.padding, module.dilation, module.groups,
        module.padding_mode,
    )  # fmt: skip


def planned_in(module: torch.nn.Module) -> Optional[PlannedForward]:
    """What `put` put there."""
    found = module.__dict__.get(_NAME)
    return found if isinstance(found, PlannedForward) else None


def _plain(module: torch.nn.Module) -> Any:
    """How copies and pickles are made: without plans, and so without ucudnn."""
    build, arguments, state, *rest = module.__reduce_ex__(2)
    if planned_in(module) is not None and isinstance(state, dict):
        state = {name: value for name, value in state.items() if name != _NAME}
    return (build, arguments, state, *rest)


def why_not(module: torch.nn.Module) -> str:
    """Why the module's convolution cannot be replaced; "" if it can."""
    for plain in _PLAIN:
        if isinstance(module, plain):
            break
    else:
        return "it is called as a function"
    kind = type(module)
    if (
        kind._conv_forward is not plain._conv_forward
        or kind.forward is not plain.forward
        or "forward" in module.__dict__
        or (_NAME in module.__dict__ and planned_in(module) is None)
    ):
        return f"{kind.__name__} computes it in a way of its own"
    if module.padding_mode != "zeros":
        return f"it pads by {module.padding_mode!r}"
    return ""


def why_other(module: Any, call: Call) -> str:
    """Why the call is not the module's own convolution; "" if it is."""
    if _padding_of(module) != call.padding:
        return "it pads its two sides differently"
    if (call.stride, call.dilation, call.groups) != (
        tuple(module.stride), tuple(module.dilation), module.groups
    ):  # fmt: skip
        return "it is called as a function"
    return ""


def _padding_of(module: Any) -> Optional[tuple[int, ...]]:
    """The zeros that the module's convolution itself adds on each side; None if
    they differ."""
    if module.padding == "valid":
        return (0,) * len(module.kernel_size)
    if module.padding != "same":
        return tuple(module.padding)
    both = [d * (k - 1) for d, k in zip(module.dilation, module.kernel_size)]
    return None if any(b % 2 for b in both) else tuple(b // 2 for b in both)


def put(module: torch.nn.Module, calls: tuple[PlannedCall, ...]) -> None:
    """Raises InvalidArgument if the module is no longer what was planned."""
    for one in calls:
        if why_not(module) or why_other(module, one.call):
            raise refuse(
                f"convert: {module}",
                "changed since it was planned",
                "a model as it was when it was converted is accepted",
            )
    copyreg.dispatch_table.setdefault(type(module), _plain)
    module.__dict__[_NAME] = PlannedForward(module, calls)


def take(module: torch.nn.Module) -> None:
    """The module as before `put`."""
    if planned_in(module) is not None:
        del module.__dict__[_NAME]
