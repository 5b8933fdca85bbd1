"""What a recipe takes for granted about how its tensor was made: the operators with
their numbers, views and parameters. Autograd's graph tells, in each call."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence

import torch

from ucudnn.torch.saved.storages import Layout
from ucudnn.torch.saved.values import Call, Source

# Levels of a graph that are searched for a recipe's operators.
_MOST_LEVELS = 64
# The tensor that an operator takes beside its first may be a number instead, of which
# the graph tells nothing.
_BINARY = {"add", "sub", "mul", "div"}


class Origin(NamedTuple):
    """What a plan looks at in each call to see that a recipe still holds."""

    first: int  # the last hook before a constant is read; -1: the step's begin
    hook: int  # at which the tensor is saved with the node that made it
    levels: int  # of the graph, from that node on
    constants: tuple[torch.Tensor, ...]  # which the recipe reads

    def versions(self) -> list[int]:
        return [one._version for one in self.constants]

    def seen(self, node: Any) -> Optional[list[Any]]:
        """The operators behind a node; none if they do not read the constants."""
        told: list[Any] = []
        found = set()
        for level in _levels(node, self.levels):
            for one in level:
                told.append(one.name())
                told += [getattr(one, name) for name in _numbers(type(one))]
                for below, _ in one.next_functions:
                    variable = getattr(below, "variable", None)
                    if variable is not None:
                        which = self._which(variable)
                        found.add(which)
                        told.append(which)
        return told if len(found - {-1}) == len(self.constants) else None

    def _which(self, variable: torch.Tensor) -> int:
        for index, one in enumerate(self.constants):
            if one is variable:
                return index
        return -1


class Looks:
    """Looks at origins while a step runs."""

    def __init__(self, origins: Sequence[Origin]) -> None:
        self.seen: list[Optional[list[Any]]] = [None for _ in origins]
        self._origins = origins
        self._firsts: dict[int, list[int]] = {}
        self._hooks: dict[int, list[int]] = {}
        for index, one in enumerate(origins):
            self._firsts.setdefault(one.first, []).append(index)
            self._hooks.setdefault(one.hook, []).append(index)
        self._versions: list[list[int]] = [[] for _ in origins]
        self._note(-1)

    def at(self, hook: int, node: Any) -> list[int]:
        """At each hook, with the node of its tensor, if it has one: the origins that
        were looked at."""
        self._note(hook)
        now = self._hooks.get(hook, [])
        for index in now:
            one, told = self._origins[index], None
            if node is not None and self.holds(index):
                told = one.seen(node)
            self.seen[index] = told
        return now

    def holds(self, index: int) -> bool:
        """Whether the constants are still what was read."""
        return self._origins[index].versions() == self._versions[index]

    def _note(self, hook: int) -> None:
        for index in self._firsts.get(hook, ()):
            self._versions[index] = self._origins[index].versions()


def origin_of(
    steps: Sequence[Any], layouts: Sequence[Layout], hook: int, node: Any
) -> Optional[Origin]:
    """Of what the steps.Steps compute, which is saved at a hook with its node;
    `layouts`: with which each storage is saved first. None if the graph does not tell
    enough."""
    made = {id(step.value) for step in steps}
    wanted: dict[int, list[Call]] = {}  # by their nodes
    begins: list[int] = []  # nodes that made what is read
    constants: dict[int, torch.Tensor] = {}
    first = hook
    for step in steps:
        call = step.value.call
        assert call is not None
        if _hides_a_number(call) or call.node < 0:
            return None
        wanted.setdefault(call.node, []).append(call)
        for source in step.reads:
            if source.constant is not None:
                constants[id(source.constant)] = source.constant
                first = min(first, call.hook - 1)
            elif id(source.value) not in made:
                begin = _begin_of(source, layouts)
                if begin is None:
                    return None
                begins.append(begin)
    levels = 0
    missing = {*wanted, *begins} - {-1}
    for count, level in enumerate(_levels(node, _MOST_LEVELS), 1):
        for one in level:
            number = one._sequence_nr()
            if number in wanted:
                if not _is_of(one, wanted[number]):
                    return None
                levels = count
            if number in missing:
                missing.discard(number)
                levels = max(levels, count - 1)
        if not missing:
            return Origin(first, hook, levels, tuple(constants.values()))
    return None


def _begin_of(source: Source, layouts: Sequence[Layout]) -> Optional[int]:
    """The node up to which views of a saved tensor are looked at; -1: it is read as
    it was saved. None if nothing tells how it is read."""
    value = source.value
    assert value is not None and value.saved is not None
    if source.layout.size == (-1,):  # statistics
        return -1
    if source.tracked:
        return value.node if value.node is not None and value.node >= 0 else None
    return -1 if source.layout == layouts[value.saved] else None


def _hides_a_number(call: Call) -> bool:
    if call.name.rstrip("_") not in _BINARY:
        return False
    return not all(isinstance(one, Source) for one in call.args[:2])


def _is_of(node: Any, calls: Sequence[Call]) -> bool:
    """Whether the node is of this operator, or of a function of ours."""
    function = getattr(type(node), "_forward_cls", None)
    if function is not None:
        return function.__module__.startswith(("ucudnn.", "torch._library."))
    name = node.name().partition("Backward")[0].lower()
    return [name] == [call.name.replace("_", "").lower() for call in calls]


def _levels(node: Any, count: int) -> Any:
    """The nodes of an autograd graph, by their distance from `node`, each once."""
    level, known = [node], {node}
    for _ in range(count):
        if not level:
            return
        yield level
        below = []
        for one in level:
            for other, _ in one.next_functions:
                if other is not None and other not in known:
                    known.add(other)
                    if getattr(other, "variable", None) is None:
                        below.append(other)
        level = below


_names: dict[type, list[str]] = {}


def _numbers(kind: type) -> list[str]:
    """The attributes of a node that are no saved tensors, of which there is a raw
    one each."""
    if kind not in _names:
        names = [name for name in dir(kind) if name.startswith("_saved_")]
        _names[kind] = [name for name in names if not hasattr(kind, "_raw" + name)]
    return _names[kind]
