"""Which values of a step's graphs are kept and which computed again, within a budget:
the graphs as one recorded step, which libucudnn_solve plans.

    forward 1, forward 2, ..., between the passes, ..., backward 2, backward 1, after
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple, Optional, Sequence

from ucudnn.recorded_steps import RecordedPlan, solve_recorded_step
from ucudnn.torch.compiled.calibrating import Scales
from ucudnn.torch.compiled.describing import Description, Segment
from ucudnn.torch.reserve import naming_least, with_slack

_SECONDS = 20.0


@dataclass
class Part:
    """One of a step's graphs."""

    described: Description
    calls: int = 1  # in a step


@dataclass
class Surroundings:
    """Bytes in use that the graphs do not tell."""

    base: int = 0  # always: parameters, optimizer state, inputs
    after: int = 0  # more, after the backward pass: what the optimizer needs
    between: int = 0
    # What measured steps had more than predicted, by graph.
    forward: dict[int, int] = field(default_factory=dict)
    backward: dict[int, int] = field(default_factory=dict)


class Predicted(NamedTuple):
    us: float
    peak: int
    # The most bytes in parts of the step, by graph.
    forward: list[int]
    between: int
    backward: list[int]
    after: int


class Way(NamedTuple):
    """How plans may have values elsewhere than in the device's memory."""

    recompute: bool = True
    # Rates to the host and back, in bytes a microsecond; None: nothing moves.
    link: Optional[tuple[float, float]] = None
    host_budget: Optional[int] = None  # bytes


class Leave(NamedTuple):
    """A value leaves for the host."""

    value: int
    copied: int  # after this forward segment
    freed: int


class Layout(NamedTuple):
    """Where the values of a graph are in its backward pass."""

    saved: frozenset[int]  # there when it begins
    # Values that return, with the backward segments from which on they are there, and
    # whether they are computed again or fetched.
    again: tuple[tuple[int, tuple[tuple[int, str], ...]], ...]
    leaves: tuple[Leave, ...] = ()

    @property
    def recomputed(self) -> frozenset[int]:
        return frozenset(
            value
            for value, begins in self.again
            if any(way == "recompute" for _, way in begins)
        )


class Choice(NamedTuple):
    """Times are of the graphs."""

    layouts: list[Optional[Layout]]  # by graph; None: as PyTorch chooses
    predicted: Predicted
    plain: Predicted
    forward_us: float
    bound_us: float
    cut_off: bool
    scales: Scales  # of the nodes' times
    pinned: int = 0  # bytes of host memory

    @property
    def added_us(self) -> float:
        return self.predicted.us - self.plain.us

    def scaled(self, ratios: Scales) -> Choice:
        """If the passes take so much more than was expected."""
        forward = self.forward_us * ratios.forward
        plain = forward + (self.plain.us - self.forward_us) * ratios.backward

        def scaled(us: float) -> float:
            return plain + (us - self.plain.us) * ratios.again

        return self._replace(
            predicted=self.predicted._replace(us=scaled(self.predicted.us)),
            plain=self.plain._replace(us=plain),
            forward_us=forward,
            bound_us=scaled(self.bound_us),
            scales=self.scales.times(ratios),
        )


def fastest(step: Step, budget: Optional[int], way: Way = Way()) -> Choice:
    """The fastest plan within `budget` bytes; without one, or where PyTorch's choice
    needs no more, that. If what leaves exceeds the host's budget, nothing does. Raises
    NoPlan with the least budget."""
    plain, forward_us = step.plain(), step.forward_us()
    if budget is None or plain.peak <= budget:
        stay: list[Optional[Layout]] = [None] * len(step.ranges)
        return Choice(stay, plain, plain, forward_us, plain.us, False, step.scales)
    needed = with_slack if step.device.type == "cuda" else int
    with naming_least("compile", budget, needed):
        answer = _solved(step, budget, way)
        if way.host_budget is not None and step.pinned(answer) > way.host_budget:
            answer = _solved(step, budget, way._replace(link=None))
    predicted, layouts = step.followed(answer)
    return Choice(
        layouts, predicted, plain, forward_us, answer.lower_bound_us, answer.cut_off,
        step.scales, step.pinned(answer),
    )  # fmt: skip


def between(some: Step, others: Step, part: float) -> Optional[Step]:
    """The step that is so far from one to another, which differ by their batch: all sizes
    and times are on the line through both. None if they differ otherwise, too."""
    step = copy.copy(some)
    try:
        step.segments, step.tensors, sums = _blended(
            [some.segments, some.tensors, [{"bytes": some.extra}]],
            [others.segments, others.tensors, [{"bytes": others.extra}]],
            part,
        )
    except ValueError:
        return None
    step.extra = sums[0]["bytes"]
    return step


def _blended(some: Any, others: Any, part: float, number: bool = False) -> Any:
    if isinstance(some, dict) and some.keys() == others.keys():
        return {
            name: _blended(one, others[name], part, name in ("bytes", "time_us"))
            for name, one in some.items()
        }
    if isinstance(some, list) and len(some) == len(others):
        return [_blended(one, other, part) for one, other in zip(some, others)]
    if number:
        mixed = some + (others - some) * part
        return math.ceil(mixed) if isinstance(some, int) else mixed
    if some != others:
        raise ValueError
    return some


def _solved(step: Step, budget: int, way: Way) -> RecordedPlan:
    out, back = way.link or (1.0, 1.0)
    link = {"d2h_bytes_per_us": out, "h2d_bytes_per_us": back}
    return solve_recorded_step(
        {"segments": step.segments, "tensors": step.tensors, "link": link},
        budget,
        offload=way.link is not None,
        recompute=way.recompute,
        time_limit=_SECONDS,
    )


class Step:
    """The graphs as segments and tensors of solver/memory/recorded_step.h."""

    def __init__(
        self, parts: Sequence[Part], around: Surroundings, scales: Scales
    ) -> None:
        self.scales = scales
        self.device = parts[0].described.device
        self.segments: list[dict[str, Any]] = []
        self.tensors: list[dict[str, Any]] = []
        self.owner: list[tuple[int, int]] = []  # by tensor: graph, value
        # Sums and seeds that recipes read.
        self.extra = sum(part.described.added() * part.calls for part in parts)
        forward = [
            self._add(part, part.described.forward, around.forward.get(n, 0) + around.base)
            for n, part in enumerate(parts)
        ]  # fmt: skip
        self.between = len(self.segments)
        fixed = sum(part.described.fixed_bytes * part.calls for part in parts)
        self.segments.append(
            _segment(0.0, around.base + around.between + fixed + self.extra, True)
        )
        backward = [range(0)] * len(parts)
        for n in reversed(range(len(parts))):
            more = around.backward.get(n, 0) + around.base + self.extra
            told = parts[n].described
            backward[n] = self._add(parts[n], told.backward, more, True)
        self.segments.append(_segment(0.0, around.base + around.after, True))
        self.ranges = list(zip(forward, backward))
        for n, part in enumerate(parts):
            self._add_tensors(n, part, around)

    def _add(
        self, part: Part, segments: Sequence[Segment], more: int, backward: bool = False
    ) -> range:
        begin = len(self.segments)
        scale = self.scales.backward if backward else self.scales.forward
        for one in segments:
            us = one.us * part.calls * scale
            self.segments.append(_segment(us, one.bytes + more, backward))
        return range(begin, len(self.segments))

    def _add_tensors(self, graph: int, part: Part, around: Surroundings) -> None:
        first, told = len(self.tensors), part.described
        forward, backward = self.ranges[graph]
        for index, value in enumerate(told.values):
            tensor = {
                "bytes": value.bytes * part.calls,
                "hook": forward.start + index,
                "held": forward.start + value.held,
                "uses": [backward.start + use for use in value.uses],
            }
            if value.recipe is not None:
                in_use = told.backward[value.uses[0]].floor + around.base + self.extra
                tensor["recipe"] = {
                    "time_us": value.recipe.us * part.calls * self.scales.again,
                    "bytes": value.recipe.bytes + in_use,
                    "reads": [first + read for read in value.recipe.reads],
                }
            self.owner.append((graph, index))
            self.tensors.append(tensor)

    def plain(self) -> Predicted:
        """If every tensor stays."""
        stay = [[(t["hook"] + 1, t["uses"][-1])] for t in self.tensors]
        live = self._live(stay)
        for segment in range(self.between, len(live) - 1):
            live[segment] -= self.extra
        return self._predicted(
            live, sum(s["time_us"] for s in self.segments), max(live)
        )

    def forward_us(self) -> float:
        return sum(float(s["time_us"]) for s in self.segments[: self.between])

    def pinned(self, answer: RecordedPlan) -> int:
        """Bytes of host memory; PyTorch's allocator rounds up to powers of two."""
        moved = {a.tensor for a in answer.actions if a.action == "fetch"}
        sizes = (self.tensors[n]["bytes"] for n in moved)
        return sum(1 << (size - 1).bit_length() for size in sizes)

    def followed(
        self, answer: RecordedPlan
    ) -> tuple[Predicted, list[Optional[Layout]]]:
        """What a plan takes, and where it has the tensors."""
        spans, again = self._spans(answer)
        live = self._live(spans)
        for tensor, begins in again.items():
            for segment in (at for at, way in begins if way == "recompute"):
                # Computed before the segment, which may need more itself.
                others = live[segment] - self.segments[segment]["bytes"]
                needed = others + self.tensors[tensor]["recipe"]["bytes"]
                live[segment] = max(live[segment], needed)
        layouts = [
            self._layout(graph, answer, spans, again)
            for graph in range(len(self.ranges))
        ]
        return self._predicted(live, answer.time_us, answer.peak_bytes), layouts

    def _layout(
        self,
        graph: int,
        answer: RecordedPlan,
        spans: Sequence[Sequence[tuple[int, int]]],
        again: Mapping[int, Sequence[tuple[int, str]]],
    ) -> Optional[Layout]:
        forward, backward = self.ranges[graph]
        mine = {n: v for n, (g, v) in enumerate(self.owner) if g == graph}
        saved = frozenset(
            value
            for n, value in mine.items()
            if any(begin <= self.between <= end for begin, end in spans[n])
        )
        times = tuple(
            (value, tuple((max(0, at - backward.start), way) for at, way in again[n]))
            for n, value in mine.items()
            if n in again
        )
        hooks = {
            (one.action, one.tensor): one.hook
            for one in answer.actions
            if one.action in ("copy", "free")
        }
        leaves = tuple(
            Leave(
                value,
                hooks["copy", n] - forward.start,
                hooks.get(("free", n), self.between) - forward.start,
            )
            for n, value in mine.items()
            if any(way == "fetch" for _, way in again.get(n, ()))
        )
        return Layout(saved, times, leaves) if times else None

    def _spans(
        self, answer: RecordedPlan
    ) -> tuple[list[list[tuple[int, int]]], dict[int, list[tuple[int, str]]]]:
        """By tensor the first and last segments in which it is there, and from which on
        it has returned, and how."""
        spans: list[list[tuple[int, int]]] = [
            [(t["hook"] + 1, t["held"])] for t in self.tensors
        ]
        again: dict[int, list[tuple[int, str]]] = {}
        begun = {n: t["hook"] + 1 for n, t in enumerate(self.tensors)}
        for action in answer.actions:
            if action.action in ("recompute", "fetch"):
                begun[action.tensor] = action.hook + 1
                again.setdefault(action.tensor, []).append(
                    (action.hook + 1, action.action)
                )
            elif action.action in ("drop", "free") and action.tensor in begun:
                spans[action.tensor].append((begun.pop(action.tensor), action.hook))
        for tensor, begin in begun.items():
            spans[tensor].append((begin, self.tensors[tensor]["uses"][-1]))
        return spans, again

    def _live(self, spans: Sequence[Sequence[tuple[int, int]]]) -> list[int]:
        live = [int(segment["bytes"]) for segment in self.segments]
        for tensor, there in zip(self.tensors, spans):
            for segment in {s for begin, end in there for s in range(begin, end + 1)}:
                live[segment] += tensor["bytes"]
        return live

    def _predicted(self, live: Sequence[int], us: float, peak: int) -> Predicted:
        return Predicted(
            us,
            peak,
            [max(live[one.start : one.stop]) for one, _ in self.ranges],
            live[self.between],
            [max(live[one.start : one.stop]) for _, one in self.ranges],
            live[-1],
        )


def _segment(us: float, size: int, backward: bool) -> dict[str, Any]:
    return {"time_us": us, "bytes": max(0, size), "backward": backward}
