"""Which values of a step's graphs are kept and which computed again, within a budget:
the graphs as one recorded step, which libucudnn_solve plans.

    forward 1, forward 2, ..., between the passes, ..., backward 2, backward 1, after
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from ucudnn.errors import NoPlan
from ucudnn.recorded_steps import RecordedPlan, solve_recorded_step
from ucudnn.torch.compiled.calibrating import Scales
from ucudnn.torch.compiled.describing import Description, Segment

# Nothing moves.
_LINK = {"d2h_bytes_per_us": 1.0, "h2d_bytes_per_us": 1.0}
_SECONDS = 20.0
# What a step on a GPU may need more the next time: one in so many bytes, and a MiB.
_BETWEEN = 50
_SLACK = 1 << 20
# Of the memory of CUDA graphs, one in so many bytes lies between tensors.
_LOST = 32


@dataclass
class Part:
    """One of a step's graphs."""

    described: Description
    calls: int = 1  # in a step


@dataclass
class Surroundings:
    """Bytes in use that the graphs do not tell."""

    base: int = 0  # always: parameters, optimizer state, inputs
    gradients: int = 0
    # More, after the backward pass: gradients, and what the optimizer needs.
    after: int = 0
    between: int = 0
    # What measured steps had more than predicted, by graph.
    forward: Dict[int, int] = field(default_factory=dict)
    backward: Dict[int, int] = field(default_factory=dict)

    def captured(self, passes: int) -> None:
        """From now on CUDA graphs keep what the passes take, `passes` bytes and what
        is lost between them, while the optimizer runs, too."""
        self.base += max(0, self.after - self.gradients) + passes // _LOST
        self.after = self.gradients


class Predicted(NamedTuple):
    us: float
    peak: int
    # The most bytes in parts of the step, by graph.
    forward: List[int]
    between: int
    backward: List[int]
    after: int


class Layout(NamedTuple):
    """Where the values of a graph are in its backward pass."""

    saved: FrozenSet[int]  # there when it begins
    # Values that are computed again, with the backward segments from which on they
    # are there.
    again: Tuple[Tuple[int, Tuple[int, ...]], ...]


class Choice(NamedTuple):
    """Times are of the graphs."""

    layouts: List[Optional[Layout]]  # by graph; None: as PyTorch chooses
    predicted: Predicted
    plain: Predicted
    forward_us: float
    bound_us: float
    cut_off: bool
    scales: Scales  # of the nodes' times

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


def planned(
    parts: Sequence[Part],
    around: Surroundings,
    budget: Optional[int],
    scales: Scales = Scales(),
) -> Choice:
    """The fastest plan within `budget` bytes; without one, or where PyTorch's choice
    needs no more, that. Raises NoPlan with the least budget."""
    step = _Step(parts, around, scales)
    plain, forward_us = step.plain(), step.forward_us()
    if budget is None or plain.peak <= budget:
        stay: List[Optional[Layout]] = [None] * len(parts)
        return Choice(stay, plain, plain, forward_us, plain.us, False, scales)
    try:
        answer = solve_recorded_step(
            step.as_json(), budget, offload=False, time_limit=_SECONDS
        )
    except NoPlan as error:
        if error.least is None:
            raise
        least = error.least
        if parts[0].described.device.type == "cuda":
            least += least // _BETWEEN + _SLACK
        raise NoPlan(
            f"compile: budget: {budget} bytes; the least that is accepted is {least}",
            least,
        ) from error
    predicted, layouts = step.followed(answer)
    return Choice(
        layouts, predicted, plain, forward_us, answer.lower_bound_us, answer.cut_off,
        scales,
    )  # fmt: skip


class _Step:
    """The graphs as segments and tensors of solver/memory/recorded_step.h."""

    def __init__(
        self, parts: Sequence[Part], around: Surroundings, scales: Scales
    ) -> None:
        self.scales = scales
        self.segments: List[Dict[str, Any]] = []
        self.tensors: List[Dict[str, Any]] = []
        self.owner: List[Tuple[int, int]] = []  # by tensor: graph, value
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

    def as_json(self) -> Dict[str, Any]:
        return {"segments": self.segments, "tensors": self.tensors, "link": _LINK}

    def plain(self) -> Predicted:
        """If every tensor stays."""
        stay = [[(t["hook"] + 1, t["uses"][-1])] for t in self.tensors]
        live = self._live(stay)
        for segment in range(self.between, len(live) - 1):
            live[segment] -= self.extra
        return self._predicted(live, sum(s["time_us"] for s in self.segments), max(live))

    def forward_us(self) -> float:
        return sum(float(s["time_us"]) for s in self.segments[: self.between])

    def followed(self, answer: RecordedPlan) -> Tuple[Predicted, List[Optional[Layout]]]:
        """What a plan takes, and where it has the tensors."""
        spans, again = self._spans(answer)
        live = self._live(spans)
        for tensor, begins in again.items():
            for segment in begins:
                # Computed before the segment, which may need more itself.
                others = live[segment] - self.segments[segment]["bytes"]
                needed = others + self.tensors[tensor]["recipe"]["bytes"]
                live[segment] = max(live[segment], needed)
        layouts: List[Optional[Layout]] = []
        for graph, (_, backward) in enumerate(self.ranges):
            mine = [(n, v) for n, (g, v) in enumerate(self.owner) if g == graph]
            saved = frozenset(
                value
                for n, value in mine
                if any(begin <= self.between <= end for begin, end in spans[n])
            )
            times = tuple(
                (value, tuple(max(0, at - backward.start) for at in again[n]))
                for n, value in mine
                if n in again
            )
            layouts.append(Layout(saved, times) if times else None)
        return self._predicted(live, answer.time_us, answer.peak_bytes), layouts

    def _spans(
        self, answer: RecordedPlan
    ) -> Tuple[List[List[Tuple[int, int]]], Dict[int, List[int]]]:
        """By tensor the first and last segments in which it is there, and in which it
        has been computed again."""
        spans: List[List[Tuple[int, int]]] = [
            [(t["hook"] + 1, t["held"])] for t in self.tensors
        ]
        again: Dict[int, List[int]] = {}
        begun = {n: t["hook"] + 1 for n, t in enumerate(self.tensors)}
        for action in answer.actions:
            if action.action == "recompute":
                begun[action.tensor] = action.hook + 1
                again.setdefault(action.tensor, []).append(action.hook + 1)
            elif action.action == "drop" and action.tensor in begun:
                spans[action.tensor].append((begun.pop(action.tensor), action.hook))
        for tensor, begin in begun.items():
            spans[tensor].append((begin, self.tensors[tensor]["uses"][-1]))
        return spans, again

    def _live(self, spans: Sequence[Sequence[Tuple[int, int]]]) -> List[int]:
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


def _segment(us: float, size: int, backward: bool) -> Dict[str, Any]:
    return {"time_us": us, "bytes": max(0, size), "backward": backward}
