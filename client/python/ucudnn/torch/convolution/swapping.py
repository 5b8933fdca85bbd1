"""Puts planned convolutions into a model's modules, and takes them out."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple, Type

import torch

from ucudnn.torch.convolution.planned import PlannedCall, convolve

_PLAIN = (torch.nn.Conv2d, torch.nn.Conv3d)


def _bare(kind: Type[Any]) -> Any:
    return object.__new__(kind)


class _Planned:
    """Computes what was planned by the plan, and the rest as before. A copy or a
    pickled one is the module of before."""

    _ucudnn_calls: Tuple[PlannedCall, ...]

    def _conv_forward(
        self,
        taken: torch.Tensor,
        weight: torch.Tensor,
        bias: Optional[torch.Tensor],
    ) -> torch.Tensor:
        out = convolve(self._ucudnn_calls, taken, weight, bias)
        if out is not None:
            return out
        return super()._conv_forward(taken, weight, bias)  # type: ignore[misc]

    def __reduce_ex__(self, protocol: Any) -> Any:
        state = dict(self.__dict__)
        del state["_ucudnn_calls"]
        return _bare, (type(self).__mro__[2],), state


_classes: Dict[Type[Any], Type[Any]] = {}


def _planned_class(plain: Type[Any]) -> Type[Any]:
    if plain not in _classes:
        _classes[plain] = type(
            plain.__name__, (_Planned, plain), {"__module__": plain.__module__}
        )
    return _classes[plain]


def why_not(module: torch.nn.Module) -> str:
    """Why the module's convolution cannot be replaced; "" if it can."""
    for plain in _PLAIN:
        if isinstance(module, plain):
            break
    else:
        return "it is called as a function"
    kind = type(module)
    if issubclass(kind, _Planned):
        return ""
    if (
        kind._conv_forward is not plain._conv_forward
        or kind.forward is not plain.forward
        or "forward" in module.__dict__
    ):
        return f"{kind.__name__} computes it in a way of its own"
    if module.padding_mode != "zeros":
        return f"it pads by {module.padding_mode!r}"
    return ""


def padding_of(module: Any) -> Optional[Tuple[int, ...]]:
    """The zeros that the module's convolution itself adds on each side; None if
    they differ."""
    if module.padding == "valid":
        return (0,) * len(module.kernel_size)
    if module.padding != "same":
        return tuple(module.padding)
    both = [d * (k - 1) for d, k in zip(module.dilation, module.kernel_size)]
    return None if any(b % 2 for b in both) else tuple(b // 2 for b in both)


def put(module: torch.nn.Module, calls: Tuple[PlannedCall, ...]) -> None:
    take(module)
    kind = _planned_class(type(module))
    module.__dict__["_ucudnn_calls"] = calls
    module.__class__ = kind


def take(module: torch.nn.Module) -> None:
    """The module as before `put`."""
    if isinstance(module, _Planned):
        module.__class__ = type(module).__mro__[2]
        del module.__dict__["_ucudnn_calls"]
