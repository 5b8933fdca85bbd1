"""What the backward pass of a joint graph needs of its forward pass, and what that
costs to keep or to compute again.

PyTorch's own choice of saved values is the beginning: each storage among them may be
dropped after the forward pass and computed again from others of them, and from the
graph's inputs, by the nodes between.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence

import torch

from ucudnn.torch.compiled import private
from ucudnn.torch.compiled.costs import Costs, bytes_of
from ucudnn.torch.reserve import BLOCK, rounded

# Values of less than this share of all saved bytes stay.
_LEAST_SHARE = 1 / 2000
# A sum of so many times its bytes is kept rather than computed again, as the mean of
# a normalization.
_SUMS = 16


@dataclass
class Recipe:
    """How a value is computed again."""

    nodes: list[Any]  # in order
    reads: list[int]  # values, rising
    inputs: set[Any]  # of the graph, and small values, that must be saved for it
    extra: set[Any]  # those that PyTorch would not save
    us: float
    bytes: int  # temporary


@dataclass
class Value:
    """A storage that the backward pass needs and that a plan may drop."""

    node: Any  # that makes it
    bytes: int
    held: int  # the last forward segment that reads it
    uses: list[int]  # backward segments
    recipe: Optional[Recipe] = None


@dataclass
class Segment:
    us: float = 0.0
    bytes: int = 0  # besides values
    floor: int = 0  # the same before it begins


@dataclass
class Description:
    """Forward segment i ends with value i, and the last with the pass; each backward
    segment begins where another value is needed."""

    device: torch.device
    values: list[Value]
    forward: list[Segment]
    backward: list[Segment]
    fixed: list[Any]  # nodes that are saved by every plan
    fixed_bytes: int  # of those that are not inputs
    plain: list[Any] = field(default_factory=list)  # as PyTorch would save
    roots: set[Any] = field(default_factory=set)  # nodes whose storages are saved so
    # Of each node of the backward pass.
    segment: dict[Any, int] = field(default_factory=dict)
    # By the names of nodes of the forward pass: their storages.
    storages: dict[str, Any] = field(default_factory=dict)

    def saved_bytes(self, names: Iterable[str]) -> int:
        """Of these nodes, inputs apart."""
        found = {self.storages[name] for name in names if name in self.storages}
        return sum(bytes_of(node.meta["val"]) for node in found)

    def added(self, numbers: Optional[Iterable[int]] = None) -> int:
        """Bytes that are saved besides where these values are computed again, or all
        that can be."""
        extra: set[Any] = set()
        for number in range(len(self.values)) if numbers is None else numbers:
            recipe = self.values[number].recipe
            extra |= recipe.extra if recipe else set()
        return sum(bytes_of(node.meta["val"]) for node in extra)


def described(
    graph: Any, saved: Sequence[Any], outputs: Sequence[Any], costs: Costs
) -> Description:
    """Of a joint graph, of which PyTorch would save `saved`, and whose forward pass
    returns `outputs`."""
    return _Joint(graph, saved, outputs, costs).description()


class _Joint:
    def __init__(
        self, graph: Any, saved: Sequence[Any], outputs: Sequence[Any], costs: Costs
    ) -> None:
        self.costs = costs
        self.gpu = costs.device.type == "cuda"
        self.saved = list(saved)
        self.nodes = [n for n in graph.nodes if n.op != "output"]
        self.at = {node: place for place, node in enumerate(self.nodes)}
        self.late = _after(self.nodes, private.is_late_input)
        self.returned = {self.root(n) for n in outputs if isinstance(n, torch.fx.Node)}
        self.gradients = {
            self.root(n) for n in graph.output_node().all_input_nodes if n in self.late
        }
        self.forward = _before(self.returned | set(self._forward_saved()))
        self.overwritten = private.overwritten_inputs(graph)
        self.roots = {self.root(n): n for n in self._forward_saved()}
        self.real = {n for n in self.nodes if self._is_real(n)}
        self.last = self._last_reads()

    def _forward_saved(self) -> list[Any]:
        return [
            n for n in self.saved if _tensor(n) and self.root(n).op == "call_function"
        ]

    def root(self, node: Any) -> Any:
        """The node that makes the storage in which this one's result is."""
        while node.op == "call_function":
            made = node.args[0] if _is_item(node) else node
            if not private.is_view(made):
                break
            node = node.args[0]
        return node

    def size(self, node: Any) -> int:
        return rounded(bytes_of(node.meta.get("val")), self.gpu)

    def _is_real(self, node: Any) -> bool:
        """Whether its result is written to memory, and not into registers."""
        if (
            node.op != "call_function"
            or not _tensor(node)
            or self.root(node) is not node
        ):
            return False
        if node in self.roots or node in self.returned or node in self.gradients:
            return True
        if not private.fusible(node):
            return True
        return _sums_up(node) or any(
            not private.fusible(user) for user in self._readers(node)
        )

    def _readers(self, node: Any) -> Iterable[Any]:
        """Nodes that read the storage, also by views."""
        for user in node.users:
            if self.root(user) is not user:
                yield from self._readers(user)
            elif user.op != "output":
                yield user

    def _last_reads(self) -> dict[Any, tuple[int, int]]:
        """For each node the last places that read its result, also within a fused
        kernel: in the forward pass, and at all."""
        last: dict[Any, tuple[int, int]] = {}
        for node in reversed(self.nodes):
            place = self.at[node]
            late, early = place, place if node not in self.late else -1
            for user in node.users:
                if user not in last:  # the output
                    continue
                forwards, at_all = last[user]
                if user in self.real and self.root(user) is user:
                    at_all = self.at[user]
                    forwards = at_all if user not in self.late else -1
                late, early = max(late, at_all), max(early, forwards)
            last[node] = (early, late)
        return last

    def description(self) -> Description:
        total = sum(map(self.size, self.roots))
        chosen = [
            root
            for root in sorted(self.roots, key=self.at.__getitem__)
            if root not in self.returned
            and root in self.forward
            and self.size(root) >= max(1, total * _LEAST_SHARE)
        ]
        self.number = {root: index for index, root in enumerate(chosen)}
        fixed = [n for n in self.saved if self.root(n) not in self.number]
        values = [Value(root, self.size(root), 0, []) for root in chosen]
        forward, backward = self._segments(values)
        for value in values:
            value.recipe = self._recipe(value.node)
        return Description(
            self.costs.device, values, forward, backward, fixed,
            sum(self.size(r) for r in self.roots if r not in self.number), self.saved,
            set(self.roots), self.segment,
            {
                n.name: self.root(n)
                for n in self.nodes
                if n not in self.late and _tensor(n)
                and self.root(n).op == "call_function"
            },
        )  # fmt: skip

    def _segments(self, values: list[Value]) -> tuple[list[Segment], list[Segment]]:
        live = self._live()
        ends = [self.at[value.node] for value in values]
        forward = [Segment() for _ in range(len(values) + 1)]
        backward: list[Segment] = [Segment()]
        self.segment: dict[Any, int] = {}
        current = 0
        seen: frozenset[int] = frozenset()
        for node in self.nodes:
            place = self.at[node]
            if node not in self.late:
                while current < len(ends) and place > ends[current]:
                    current += 1
                segment = forward[current]
                if node not in self.forward:
                    continue
                for number in map(self._value, node.all_input_nodes):
                    if number is not None:
                        values[number].held = max(values[number].held, current)
            else:
                needs = self._needs(node)
                if not needs <= seen:
                    backward.append(Segment(floor=live[place - 1]))
                    seen = needs
                segment = backward[-1]
                self.segment[node] = len(backward) - 1
                for number in needs:
                    if len(backward) - 1 not in values[number].uses[-1:]:
                        values[number].uses.append(len(backward) - 1)
            segment.us += self._time(node, self.real)
            segment.bytes = max(segment.bytes, live[place] + self._workspace(node))
        for number, value in enumerate(values):
            value.held = max(value.held, number)
        return forward, backward

    def _value(self, node: Any) -> Optional[int]:
        return self.number.get(self.root(node))

    def _needs(self, node: Any) -> frozenset[int]:
        """The values that a node of the backward pass reads, or what is computed
        again for it at no cost."""

        def passes(one: Any) -> bool:
            return not (one in self.late or one in self.number or one in self.roots)

        found = upwards(node.all_input_nodes, passes)
        return frozenset(self.number[one] for one in found if one in self.number)

    def _live(self) -> list[int]:
        """The bytes in use at each node, besides values that a plan may drop and the
        graph's inputs. On the CPU only what is saved counts."""
        change = [0] * (len(self.nodes) + 2)
        end = len(self.nodes)
        for node in self.real:
            if node in self.number or not (node in self.late or node in self.forward):
                continue
            if not self.gpu and node not in self.roots:
                continue
            early, late = self.last[node]
            if node in self.returned or node in self.gradients:
                last = end
            else:
                last = late if node in self.roots or node in self.late else early
            change[self.at[node]] += self.size(node)
            change[last + 1] -= self.size(node)
        live, now = [], 0
        for place in range(len(self.nodes)):
            now += change[place]
            live.append(now)
        return live

    def _time(self, node: Any, real: set[Any]) -> float:
        if node.op != "call_function" or not private.fusible(node):
            return self.costs.of(node) if node.op == "call_function" else 0.0
        if node not in real:
            return 0.0
        read: set[Any] = set()
        seen: set[Any] = set()
        waiting = list(node.all_input_nodes)
        while waiting:
            one = waiting.pop()
            if one in seen:
                continue
            seen.add(one)
            root = self.root(one)
            if root in real or root.op != "call_function" or root in self.roots:
                read.add(root)
            else:
                waiting += root.all_input_nodes
        return self.costs.moved(self.size(node) + sum(map(self.size, read)))

    def _workspace(self, node: Any) -> int:
        if node.op != "call_function" or private.fusible(node) or _is_item(node):
            return 0
        return self.costs.workspace(node)

    def _recipe(self, target: Any) -> Optional[Recipe]:
        nodes: set[Any] = set()
        reads: set[int] = set()
        inputs: set[Any] = set()
        waiting = [target]
        while waiting:
            node = waiting.pop()
            if node in nodes:
                continue
            if node is not target:
                if node in self.number:
                    reads.add(self.number[node])
                    continue
                if node.op == "placeholder":
                    if node in self.overwritten and node not in self.saved:
                        return None
                    inputs.add(node)
                    continue
                if node in self.roots or (_tensor(node) and self._is_small(node)):
                    inputs.add(node)
                    continue
            if private.must_stay(node) or private.is_random(node):
                return None
            nodes.add(node)
            waiting += node.all_input_nodes
        ordered = sorted(nodes, key=self.at.__getitem__)
        real = {n for n in ordered if n is target or self._is_real_among(n, nodes)}
        us = sum(self._time(node, real) for node in ordered)
        extra = {n for n in inputs if n.op == "call_function" and n not in self.roots}
        most = self._temporary(ordered, real, target)
        return Recipe(ordered, sorted(reads), inputs, extra, us, most)

    def _is_small(self, node: Any) -> bool:
        """Whether it is kept for recipes that read it: a sum, or random seeds."""
        if self.root(node) is not node or node not in self.forward:
            return False
        if private.is_random(node):
            return bytes_of(node.meta["val"]) <= BLOCK
        return _sums_up(node.args[0] if _is_item(node) else node)

    def _is_real_among(self, node: Any, nodes: set[Any]) -> bool:
        if not _tensor(node) or self.root(node) is not node:
            return False
        return not private.fusible(node) or any(
            user in nodes and not private.fusible(user) for user in self._readers(node)
        )

    def _temporary(self, ordered: list[Any], real: set[Any], target: Any) -> int:
        """The most bytes of a recipe's results at once, but for the last, and of
        workspaces."""
        inside = set(ordered)
        last: dict[Any, int] = {}
        for place in range(len(ordered) - 1, -1, -1):
            node = ordered[place]
            ends = [
                self.at[u] if u in real else last.get(u, self.at[u])
                for u in node.users
                if u in inside
            ]
            last[node] = max(ends, default=self.at[node])
        most = now = 0
        freed: dict[int, int] = {}
        for node in ordered:
            if node in real and node is not target:
                now += self.size(node)
                freed[last[node]] = freed.get(last[node], 0) + self.size(node)
            most = max(most, now + self._workspace(node))
            now -= freed.pop(self.at[node], 0)
        return most


def _tensor(node: Any) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _is_item(node: Any) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"


def _sums_up(node: Any) -> bool:
    """Whether it reads many times the bytes that it writes."""
    read = sum(bytes_of(n.meta.get("val")) for n in node.all_input_nodes)
    return bytes_of(node.meta.get("val")) * _SUMS <= read and read > 0


def _after(nodes: Sequence[Any], begins: Callable[[Any], bool]) -> set[Any]:
    """The nodes that depend on inputs of which `begins` is true."""
    found: set[Any] = set()
    for node in nodes:
        if (node.op == "placeholder" and begins(node)) or any(
            one in found for one in node.all_input_nodes
        ):
            found.add(node)
    return found


def upwards(
    begin: Iterable[Any], passes: Callable[[Any], bool] = lambda node: True
) -> Iterator[Any]:
    """These nodes and those that they depend on, each once, by what `passes`."""
    waiting, seen = list(begin), set()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            yield node
            if passes(node):
                waiting += node.all_input_nodes


def _before(ends: Iterable[Any]) -> set[Any]:
    """The nodes that these depend on, and they."""
    return set(upwards(ends))
