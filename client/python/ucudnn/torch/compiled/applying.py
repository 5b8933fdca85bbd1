"""A plan written into a joint graph: which of its nodes are saved, and copies of those
that are computed again more than once."""

from __future__ import annotations

import bisect
from typing import Any, Optional, Sequence

import torch
from torch.fx.node import map_arg

from ucudnn.torch.compiled import private
from ucudnn.torch.compiled.describing import Description, upwards
from ucudnn.torch.compiled.planning import Layout, Leave


def applied(graph: Any, told: Description, layout: Optional[Layout]) -> list[Any]:
    """The nodes to save. What the backward pass needs and does not find among them,
    it computes from them; PyTorch's split does that for the graph's own nodes, once
    each, so that every further time gets copies."""
    if layout is None:
        return told.plain
    saved = dict.fromkeys(told.fixed)
    for number in layout.saved:
        saved[told.values[number].node] = None
    for number in layout.recomputed:
        recipe = told.values[number].recipe
        assert recipe is not None
        saved.update(dict.fromkeys(recipe.inputs))
    if layout.leaves:
        # Else it would lay out, by the processor, what is still on its way to the host.
        private.keep_layouts()
    copies = _Copies(graph, told, layout)
    copies.apply()
    saved.update(dict.fromkeys(copies.hosts.values()))
    return list(saved)


class _Copies:
    def __init__(self, graph: Any, told: Description, layout: Layout) -> None:
        self.graph = graph
        self.number = {value.node: n for n, value in enumerate(told.values)}
        self.fixed = told.roots
        self.segment = told.segment  # of nodes of the backward pass
        self.saved = layout.saved
        self.device = told.device
        self.again = dict(layout.again)
        self.leaves = layout.leaves
        self.made: dict[tuple[int, int], Any] = {}  # by value and time
        self.derived: dict[Any, Any] = {}
        self.hosts: dict[int, Any] = {}  # by value: what it is on the host
        self.fetched: dict[tuple[int, int], Any] = {}  # by value and time

    def apply(self) -> None:
        backward = [n for n in self.segment if n.op == "call_function"]
        if self.leaves:
            self._hoist(backward[0])
        for leave in self.leaves:
            self._leave(leave, list(self.number), backward[0])
        fetches = [
            (segment, number, time)
            for number, begins in self.again.items()
            for time, (segment, way) in enumerate(begins, 1)
            if way == "fetch"
        ]
        waiting = sorted(fetches, reverse=True)
        for node in backward:
            segment = self.segment[node]
            with self.graph.inserting_before(node):
                while waiting and waiting[-1][0] <= segment:
                    _, number, time = waiting.pop()
                    self.fetched[number, time] = self._call(
                        "fetch", self.hosts[number], self.device
                    )
                node.args, node.kwargs = self._mapped(node, segment, None)

    def _hoist(self, end: Any) -> None:
        """Moves values, and what they are computed from, before the backward pass, in
        whose midst autograd may have traced them."""
        order = list(self.graph.nodes)
        behind = [n for n in order[order.index(end) :] if n not in self.segment]
        needed = set(upwards(self.number))
        for node in behind:
            if node in needed:
                end.prepend(node)

    def _leave(self, leave: Leave, nodes: Sequence[Any], end: Any) -> None:
        """Copies a value to the host, and frees it, after forward segments; or as the
        pass ends."""
        node = nodes[leave.value]
        with self.graph.inserting_after(nodes[min(leave.copied, len(nodes) - 1)]):
            host = self._call("leave", node)
        after = host if leave.freed <= leave.copied else None
        if after is None and leave.freed < len(nodes):
            after = nodes[leave.freed]
        place = self.graph.inserting_after(after) if after is not None else None
        with place or self.graph.inserting_before(end):
            self.hosts[leave.value] = self._call("left", host, node)

    def _call(self, name: str, *args: Any) -> Any:
        """A node of one of the operators of offloading.py."""
        operator = getattr(torch.ops.ucudnn, name).default
        return private.inserted(self.graph, operator, *args)

    def _mapped(self, node: Any, segment: int, fresh: Optional[dict[Any, Any]]) -> Any:
        def map_one(one: Any) -> Any:
            return self._at(one, segment, fresh)

        return map_arg(node.args, map_one), map_arg(node.kwargs, map_one)

    def _at(self, node: Any, segment: int, fresh: Optional[dict[Any, Any]]) -> Any:
        """What stands for a node of the forward pass in a backward segment. `fresh`:
        copies of what a recipe computes on its way, which nothing else reads."""
        if node in self.segment or node.op != "call_function":
            return node
        number = self.number.get(node)
        if number is not None:
            return self._value(number, node, segment)
        if node in self.fixed:
            return node
        if fresh is not None and node in fresh:
            return fresh[node]
        args, kwargs = self._mapped(node, segment, fresh)
        if fresh is None and args == node.args and kwargs == node.kwargs:
            return node
        key = node, str(args), str(kwargs)
        if fresh is not None:
            fresh[node] = self._copy(node, args, kwargs)
            return fresh[node]
        if key not in self.derived:
            self.derived[key] = self._copy(node, args, kwargs)
        return self.derived[key]

    def _value(self, number: int, node: Any, segment: int) -> Any:
        """A value as it was last computed before the segment."""
        begins = self.again.get(number, ())
        times = bisect.bisect_right([at for at, _ in begins], segment)
        if times == 0:
            return node
        key = (number, times)
        if key in self.fetched and key not in self.made:
            self.made[key] = self._call(
                "arrived", self.fetched[key], self.hosts[number]
            )
        if key not in self.made:
            again = times > 1 or number in self.saved
            fresh: Optional[dict[Any, Any]] = {} if again else None
            at, _ = begins[times - 1]
            args, kwargs = self._mapped(node, at, fresh)
            if again or args != node.args or kwargs != node.kwargs:
                self.made[key] = self._copy(node, args, kwargs)
            else:
                self.made[key] = node
        return self.made[key]

    def _copy(self, node: Any, args: Any, kwargs: Any) -> Any:
        copy = self.graph.create_node(node.op, node.target, args, kwargs, node.name)
        copy.meta = dict(node.meta)
        return copy
