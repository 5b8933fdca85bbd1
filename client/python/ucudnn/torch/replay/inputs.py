"""The arguments of a captured step, which reads them where they were."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from ucudnn.torch.checks import refuse


class _Part(NamedTuple):
    """An argument, taken apart."""

    place: str
    leaves: list[Any]
    shape: Any  # lists, tuples and dictionaries without their items


def _parts(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[_Part]:
    named = [(f"argument {i}", value) for i, value in enumerate(arguments)]
    named += [(name, keywords[name]) for name in sorted(keywords)]
    return [_Part(name, *tree_flatten(value)) for name, value in named]


class Inputs:
    """Copies of the example's tensors, in `arguments` and `keywords` in place of
    those. Tensors may be in lists, tuples and dictionaries."""

    def __init__(
        self,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        device: torch.device,
    ) -> None:
        self._parts = [
            part._replace(
                leaves=[_copied(part.place, leaf, device) for leaf in part.leaves]
            )
            for part in _parts(arguments, keywords)
        ]
        values = [tree_unflatten(part.leaves, part.shape) for part in self._parts]
        count = len(arguments)
        self.arguments: tuple[Any, ...] = tuple(values[:count])
        self.keywords: dict[str, Any] = dict(zip(sorted(keywords), values[count:]))

    def take(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        """Copies the tensors of a call, on the current stream. Refuses others than
        the example's kinds, and other values of what is no tensor."""
        if len(arguments) != len(self.arguments) or set(keywords) != set(self.keywords):
            raise refuse(
                "memory: the step",
                _listed(arguments, keywords),
                f"{_listed(self.arguments, self.keywords)} are accepted, as in the "
                "example that was captured",
            )
        copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        for part, given in zip(self._parts, _parts(arguments, keywords)):
            if given.shape != part.shape:
                raise _refusal(part.place, str(given.shape), str(part.shape))
            for kept, leaf in zip(part.leaves, given.leaves):
                if not _alike(kept, leaf):
                    raise _refusal(part.place, _told(leaf), _told(kept))
                if isinstance(kept, torch.Tensor) and kept is not leaf:
                    copies.append((kept, leaf))
        with torch.no_grad():
            for kept, leaf in copies:
                kept.copy_(leaf)


def _copied(place: str, value: Any, device: torch.device) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.device != device:
        raise refuse(
            f"memory: {place}",
            _told(value),
            f"with graphs=True tensors on {device} are accepted",
        )
    return value.detach().clone().requires_grad_(value.requires_grad)


def _alike(kept: Any, given: Any) -> bool:
    if kept is given:
        return True
    if isinstance(kept, torch.Tensor) or isinstance(given, torch.Tensor):
        return isinstance(given, torch.Tensor) and _told(kept) == _told(given)
    try:
        return type(kept) is type(given) and bool(kept == given)
    except (RuntimeError, TypeError, ValueError):
        return False  # such as arrays, which compare by element


def _told(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)} on {value.device}"
    return repr(value)


def _listed(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    names = "".join(f", {name}=" for name in sorted(keywords))
    return f"{len(arguments)} arguments{names}"


def _refusal(place: str, value: str, accepted: str) -> Exception:
    return refuse(
        f"memory: {place}",
        value,
        f"{accepted} is accepted, which was captured; another needs a plan of its "
        "own",
    )
