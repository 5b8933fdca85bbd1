"""Planned convolutions in joint graphs, where they are faster than PyTorch's own.

Each convolution and each of its gradients is measured both ways, in the layout that
the graph says, and replaced by an operator of convolution/operators.py. Whole steps
tell in the end whether that gains: Inductor lays tensors out otherwise, and fuses less,
around operators that it does not know.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple, Optional, Sequence

import torch

from ucudnn.convolutions import Convolution
from ucudnn.torch.compiled import private
from ucudnn.torch.compiled.naming import named
from ucudnn.torch.convolution.calls import (
    DATA,
    FILTER,
    FORWARD,
    Call,
    call_of,
    wants_determinism,
)
from ucudnn.torch.convolution.contest import Contest, Operation
from ucudnn.torch.convolution.conversion import Layer
from ucudnn.torch.convolution.converting import open_device, plan_layers
from ucudnn.torch.convolution.planned import PlannedCall
from ucudnn.torch.devices import current, same_randomness
from ucudnn.torch.timing import Time

# No operation's planning begins after so many seconds of a graph's.
_SECONDS = 20.0

_aten = torch.ops.aten


class _Found(NamedTuple):
    node: Any
    call: Call
    operations: tuple[str, ...]


class Convolutions:
    """Of one model."""

    def __init__(self, limit: Optional[int], enforces: bool) -> None:
        self.used = limit is not None  # in what is compiled now
        self.lines: list[str] = []  # for people, of the last graph
        self._limit = limit
        self._enforces = enforces
        self._plans: dict[tuple[Call, str], Optional[Convolution]] = {}
        self._steps: dict[bool, float] = {}  # microseconds with and without plans

    def rewrite(self, graph: Any) -> None:
        """Replaces what gains."""
        found = _found(graph)
        if self._limit is None or not self.used or not found or wants_determinism():
            return
        self._decide(found, self._limit)
        for one in found:
            plans = {
                name: plan
                for name in one.operations
                for plan in [self._plans.get((one.call, name))]
                if plan is not None
            }
            if plans:
                _replace(graph, one, PlannedCall(one.call, plans))

    def change(self, us: float) -> bool:
        """After steps took so long: whether the model is to be compiled again with
        the other convolutions, because these were not measured yet, or were
        faster."""
        if self._enforces or not any(self._plans.values()) or len(self._steps) == 2:
            return False
        self._steps[self.used] = us
        others = self._steps.get(not self.used)
        if others is not None and others >= us:
            return False
        self.used = not self.used
        return True

    def _decide(self, found: Sequence[_Found], limit: int) -> None:
        layers = []
        for one in found:
            new = [n for n in one.operations if (one.call, n) not in self._plans]
            if new:
                todo = [Operation(name, Time(0.0, 0.0)) for name in new]
                layers.append(Layer(named(one.node)[0], one.call, todo))
        if not layers:
            return
        device = found[0].call.device
        with private.outside(), same_randomness(device), current(device):
            contest = Contest(open_device(device), _SECONDS)
            plan_layers(layers, contest, limit, None, self._enforces)
        self.lines = [line for layer in layers for line in layer.lines()]
        for layer in layers:
            assert layer.call is not None
            for told in layer.operations:
                plan = None if told.why else told.plan
                self._plans[layer.call, told.name] = plan


def _found(graph: Any) -> list[_Found]:
    found = []
    for node in graph.nodes:
        if node.target is _aten.convolution.default:
            taken, weight, _, *rest = node.args
            operations: tuple[str, ...] = (FORWARD,)
        elif node.target is _aten.convolution_backward.default:
            _, taken, weight, _, *rest, wanted = node.args
            operations = tuple(n for n, w in zip((DATA, FILTER), wanted) if w)
        else:
            continue
        stride, padding, dilation, transposed, _, groups = rest
        call, _ = call_of(
            taken.meta["val"], weight.meta["val"], stride, padding, dilation, transposed,
            groups,
        )  # fmt: skip
        if call is not None:
            found.append(_Found(node, call, operations))
    return found


def _replace(graph: Any, one: _Found, planned: PlannedCall) -> None:
    """Leaves the node where its result has another layout than the operator's."""
    node, call = one.node, one.call
    with graph.inserting_before(node):
        if FORWARD in one.operations:
            taken, weight, bias = node.args[:3]
            new = private.inserted(
                graph, torch.ops.ucudnn.convolution.default, taken, weight, None,
                *call.geometry, planned.key,
            )  # fmt: skip
            if bias is not None:
                shifts = [1, -1] + [1] * (len(call.filter) - 2)
                shift = private.inserted(graph, _aten.view.default, bias, shifts)
                new = private.inserted(graph, _aten.add.Tensor, new, shift)
        else:
            gradient, taken, weight, *_, wanted = node.args
            new = private.inserted(
                graph, torch.ops.ucudnn.convolution_backward.default, gradient, taken,
                weight, *call.geometry, planned.key, list(wanted),
            )  # fmt: skip
    if not _same_layout(node, new):
        graph.erase_node(new)
        return
    private.keep_layouts()
    planned.remember()
    new.meta = {**node.meta, "val": new.meta["val"]}
    node.replace_all_uses_with(new)
    graph.erase_node(node)


def _same_layout(old: Any, new: Any) -> bool:
    """As far as results are used."""
    if isinstance(new.meta["val"], torch.Tensor):
        return bool(old.meta["val"].stride() == new.meta["val"].stride())
    used = {user.args[1] for user in old.users if user.target is operator.getitem}
    return all(
        old.meta["val"][n].stride() == new.meta["val"][n].stride()
        for n in used
        if old.meta["val"][n] is not None
    )
