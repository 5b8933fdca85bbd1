"""What a captured step has read from Python, which its replays do not see change."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, Callable, Sequence

import torch

from ucudnn.torch.kept import reachable

_NUMBERS = frozenset((bool, int, float, complex, str, type(None)))

Fact = tuple[str, str, Any]  # whose, its name, and what is compared


class Frozen:
    """The modes and numbers of modules, their parameters and buffers, which of them
    require gradients, the parameters that optimizers have, and the numbers and tensors
    that the step names, at a time."""

    def __init__(self, step: Callable[..., Any], objects: Sequence[Any]) -> None:
        self._step = step
        self._objects = objects
        self._facts, self._held = _facts(step, objects)

    def changed(self) -> str:
        """The name of something that is not as it was; empty: nothing."""
        now, _ = _facts(self._step, self._objects)
        if now == self._facts:
            return ""
        known = {fact[:2] for fact in self._facts}
        was, other = next(
            pair for pair in zip_longest(self._facts, now) if pair[0] != pair[1]
        )
        fact = other if was is None or (other and other[:2] not in known) else was
        return ".".join(filter(None, fact[:2]))


def _facts(
    step: Callable[..., Any], objects: Sequence[Any]
) -> tuple[list[Fact], list[Any]]:
    """Also what the facts name by id, which lives as long as they do."""
    facts: list[Fact] = []
    held: list[Any] = []

    def tensor(whose: str, name: str, one: torch.Tensor) -> None:
        held.append(one)
        facts.append((whose, name, (id(one), one.data_ptr(), one.requires_grad)))

    for value in objects:
        if isinstance(value, torch.nn.Module):
            for whose, module in value.named_modules():
                held.append(module)
                facts.append((whose, "", id(module)))
                for name, item in module.__dict__.items():
                    if type(item) in _NUMBERS:
                        facts.append((whose, name, item))
                for part in (module._parameters, module._buffers):
                    for name, one in part.items():
                        if one is not None:
                            tensor(whose, name, one)
        elif isinstance(value, torch.optim.Optimizer):
            for number, group in enumerate(value.param_groups):
                parameters = list(group["params"])
                held.append(parameters)
                ids = [id(one) for one in parameters]
                facts.append(("", f"param_groups[{number}]", ids))
    for name, value in reachable(step):
        if isinstance(value, torch.Tensor):
            tensor("", name, value)
        elif type(value) in _NUMBERS:
            facts.append(("", name, value))
    return facts, held
