"""What a training step hands to the next one outside of its models: gradients and
the state of optimizers. A captured step reads and writes them where they were when
it was captured."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Iterable, NamedTuple, Sequence

import torch
from torch.utils._pytree import tree_flatten


class State(NamedTuple):
    """A tensor of an optimizer's state."""

    optimizer: torch.optim.Optimizer
    parameter: torch.Tensor
    name: str
    tensor: torch.Tensor

    @property
    def now(self) -> Any:
        return self.optimizer.state.get(self.parameter, {}).get(self.name)


class Touched(NamedTuple):
    """The parameters whose gradients a step changes: it makes new ones, or adds to
    those that are there."""

    made: list[torch.Tensor]
    added: list[torch.Tensor]


def optimizers_of(objects: Iterable[Any]) -> list[torch.optim.Optimizer]:
    return [one for one in objects if isinstance(one, torch.optim.Optimizer)]


def parameters_of(objects: Iterable[Any]) -> list[torch.Tensor]:
    """Those of models and of optimizers, each once."""
    found: dict[int, torch.Tensor] = {}
    for one in objects:
        if isinstance(one, torch.nn.Module):
            found.update((id(p), p) for p in one.parameters())
    for optimizer in optimizers_of(objects):
        for group in optimizer.param_groups:
            found.update((id(p), p) for p in group["params"])
    return list(found.values())


def touched_by(run: Callable[[], Any], parameters: Sequence[torch.Tensor]) -> Touched:
    """Holds no gradients, which would keep the memory of those let go."""
    before = [
        None if p.grad is None else (weakref.ref(p.grad), p.grad._version)
        for p in parameters
    ]
    run()
    touched = Touched([], [])
    for parameter, was in zip(parameters, before):
        now = parameter.grad
        if now is None:
            continue
        version = now._version
        if was is None or was[0]() is not now:
            touched.made.append(parameter)
        elif was[1] != version:
            touched.added.append(parameter)
    return touched


def state_of(objects: Iterable[Any]) -> list[State]:
    return [
        State(optimizer, parameter, name, value)
        for optimizer in optimizers_of(objects)
        for parameter, values in optimizer.state.items()
        for name, value in values.items()
        if isinstance(value, torch.Tensor)
    ]


def numbers_of(objects: Iterable[Any]) -> list[Any]:
    """What optimizers, scalers and schedulers keep in Python, not in tensors."""
    return [
        leaf
        for one in objects
        if not isinstance(one, torch.nn.Module)
        for leaf in tree_flatten(one.state_dict())[0]
        if isinstance(leaf, (bool, int, float))
    ]


class Carried:
    """Gradients and state where a step left them that has just been captured."""

    def __init__(self, objects: Sequence[Any], touched: Touched) -> None:
        self._made = [(p, p.grad) for p in touched.made]
        self._added = [(p, p.grad) for p in touched.added]
        self._state = state_of(objects)
        self._options: list[tuple[dict[str, Any], str, Any]] = [
            (group, name, value)
            for optimizer in optimizers_of(objects)
            for group in optimizer.param_groups
            for name, value in group.items()
            if name != "params"
        ]

    def away(self) -> list[State]:
        """The state that is elsewhere now, as after load_state_dict, or nowhere."""
        return [one for one in self._state if one.now is not one.tensor]

    def put_in(self, away: Sequence[State]) -> None:
        """Before a replay, the contents of now."""
        for one in away:
            if isinstance(one.now, torch.Tensor):
                one.tensor.copy_(one.now)
        for parameter, kept in self._added:
            if parameter.grad is None:
                kept.zero_()
            elif parameter.grad is not kept:
                kept.copy_(parameter.grad)

    def put_back(self, away: Sequence[State]) -> None:
        """After a replay, where other code looks for them."""
        for one in away:
            one.optimizer.state[one.parameter][one.name] = one.tensor
        for parameter, gradient in (*self._made, *self._added):
            if parameter.grad is not gradient:
                parameter.grad = gradient

    def options_changed(self) -> bool:
        """Whether optimizers' options, such as a learning rate, are not as
        captured."""
        return any(
            not _same(group.get(name), value) for group, name, value in self._options
        )


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, torch.Tensor) or isinstance(other, torch.Tensor):
        return value is other
    return bool(value == other)
