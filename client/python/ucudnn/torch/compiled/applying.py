"""A plan written into a joint graph: which of its nodes are saved, and copies of those
that are computed again more than once."""

from __future__ import annotations

import bisect
from typing import Any, Dict, List, Optional, Tuple

from torch.fx.node import map_arg

from ucudnn.torch.compiled.describing import Description
from ucudnn.torch.compiled.planning import Layout


def applied(graph: Any, told: Description, layout: Optional[Layout]) -> List[Any]:
    """The nodes to save. What the backward pass needs and does not find among them,
    it computes from them; PyTorch's split does that for the graph's own nodes, once
    each, so that every further time gets copies."""
    if layout is None:
        return told.plain
    saved = dict.fromkeys(told.fixed)
    for number in layout.saved:
        saved[told.values[number].node] = None
    for number, _ in layout.again:
        recipe = told.values[number].recipe
        assert recipe is not None
        saved.update(dict.fromkeys(recipe.inputs))
    _Copies(graph, told, layout).apply()
    return list(saved)


class _Copies:
    def __init__(self, graph: Any, told: Description, layout: Layout) -> None:
        self.graph = graph
        self.number = {value.node: n for n, value in enumerate(told.values)}
        self.fixed = told.roots
        self.segment = told.segment  # of nodes of the backward pass
        self.saved = layout.saved
        self.again = dict(layout.again)
        self.made: Dict[Tuple[int, int], Any] = {}  # by value and time
        self.derived: Dict[Any, Any] = {}

    def apply(self) -> None:
        for node, segment in self.segment.items():
            if node.op == "call_function":
                with self.graph.inserting_before(node):
                    node.args, node.kwargs = self._mapped(node, segment, None)

    def _mapped(self, node: Any, segment: int, fresh: Optional[Dict[Any, Any]]) -> Any:
        def map_one(one: Any) -> Any:
            return self._at(one, segment, fresh)

        return map_arg(node.args, map_one), map_arg(node.kwargs, map_one)

    def _at(self, node: Any, segment: int, fresh: Optional[Dict[Any, Any]]) -> Any:
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
        times = bisect.bisect_right(begins, segment)
        if times == 0:
            return node
        key = (number, times)
        if key not in self.made:
            again = times > 1 or number in self.saved
            fresh: Optional[Dict[Any, Any]] = {} if again else None
            at = begins[times - 1]
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

