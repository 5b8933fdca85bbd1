"""Memory plans as plain objects, and their JSON. Times are in microseconds,
sizes and offsets in bytes; offsets are from the start of the plan's pool."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Iterator, Optional, Union

from ucudnn.errors import InvalidArgument
from ucudnn.files import PathLike, read_json, write_json
from ucudnn.json_objects import decode, encode
from ucudnn.library import ask_solver
from ucudnn.shown import Shown, Table
from ucudnn.sizes import size_text, time_text


def _whole_ns(time_us: float) -> float:
    """A sum of times, rounded so that equal ones compare equal."""
    return round(time_us, 3)


@dataclass(frozen=True)
class MemoryRange:
    """A range of the pool."""

    offset: int
    bytes: int


@dataclass(frozen=True)
class ResidentBlock:
    """A block that is on the device when a round starts."""

    block: str
    offset: int
    bytes: int
    kind: str = ""  # "weight", "input", ...


@dataclass(frozen=True)
class TaskPart:
    """`count` runs, one after the other, of an algorithm on `batch` images."""

    batch: int
    count: int
    algorithm: str = ""


# What each event has besides its stream and start.
_NEEDED: dict[str, list[str]] = {
    "alloc": ["block", "offset", "bytes"],
    "free": ["block"],
    "sync": [],
    "compute": ["task", "dur_us"],
    "offload": ["block", "bytes", "dur_us"],
    "prefetch": ["block", "bytes", "dur_us"],
}


@dataclass(frozen=True)
class MemoryEvent:
    """What happens on one stream. An event starts when the one before it on its
    stream and all those in `after` (indices into the round's events) have ended.
    """

    op: str  # "alloc", "free", "sync", "compute", "offload", "prefetch"
    stream: str  # "compute", "host", "d2h", "h2d", "copy"
    start_us: float
    dur_us: Optional[float] = None  # of compute, offload and prefetch
    task: Optional[str] = None  # of compute
    parts: list[TaskPart] = field(default_factory=list)
    workspace: Optional[MemoryRange] = None
    block: Optional[str] = None  # of all but compute and sync
    kind: str = ""  # of alloc: "activation", "weight", ...
    offset: Optional[int] = None  # of alloc
    bytes: Optional[int] = None  # of alloc, offload and prefetch
    after: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.op not in _NEEDED:
            raise InvalidArgument(f"op {self.op!r}; {', '.join(_NEEDED)} are accepted")
        for name in _NEEDED[self.op]:
            if getattr(self, name) is None:
                raise InvalidArgument(f"{self.op} without {name}")


@dataclass(frozen=True)
class MemoryRound:
    """`batch` images that are trained at once, `count` times in a row."""

    batch: int
    count: int
    time_us: float  # of one repetition
    events: list[MemoryEvent]


@dataclass(frozen=True)
class BlockLife:
    """The range of the pool that a block has from `start_us` until before
    `end_us`. It may have several lives, at different offsets."""

    block: str  # of kind "workspace": the task
    kind: str
    offset: int
    bytes: int
    start_us: float
    end_us: float


@dataclass(frozen=True, repr=False)
class MemoryPlan(Shown):
    """One training iteration within a budget of device memory, as docs/memory.md
    describes it. Sums are over the whole iteration."""

    policy: str
    network: str
    precision: str
    batch: int
    sub_batch: int  # images trained at once
    gpus: int  # that share the mini-batch; `batch` is the part of one
    budget_bytes: int
    alignment: int
    time_us: float
    # Every task at its fastest without a pause; None if one was not measured.
    ideal_time_us: Optional[float]
    lower_bound_us: float  # no plan of this kind within the budget takes less
    stall_us: float  # without a task to compute
    peak_bytes: int  # the size of the pool
    load_bytes: int  # the most that is live at once
    ideal_bytes: Optional[int]  # all blocks at once; None like ideal_time_us
    lower_bound_bytes: int  # no plan of this kind has a smaller pool
    host_bytes: int  # of copies on the host
    offloaded_bytes: int
    prefetched_bytes: int
    resident: list[ResidentBlock]
    rounds: list[MemoryRound]
    choice: str = ""  # what the policy chose, if it had a choice
    # The time limit ended the search: another one may find a faster plan.
    cut_off: bool = False
    # Of the measurements that it is made of: "accuracy not measured: ...".
    notes: list[str] = field(default_factory=list)
    # The training graph as JSON: blocks, and what every task reads and writes.
    graph: Optional[dict[str, Any]] = None

    @classmethod
    def from_json(cls, json_object: dict[str, Any], source: str = "plan") -> MemoryPlan:
        """Raises InvalidArgument, naming the field, its value and what is
        accepted, if one is missing or of another type."""
        return decode(cls, json_object, source)

    def to_json(self) -> dict[str, Any]:
        """What `ucudnn solve memory -o json` prints."""
        return {"feasible": True, **encode(self)}

    @classmethod
    def read(cls, path: PathLike) -> MemoryPlan:
        """Reads what write() or the command wrote. Raises as from_json does."""
        return cls.from_json(read_json(path), str(path))

    def write(self, path: PathLike) -> None:
        """Writes the plan as JSON."""
        write_json(path, self.to_json())

    @property
    def events(self) -> list[MemoryEvent]:
        """All events of the iteration, with their starts in the iteration: those
        of a round that runs n times are there n times."""
        return [
            replace(event, start_us=_whole_ns(base + event.start_us))
            for base, round_ in self._repetitions()
            for event in round_.events
        ]

    def lives(self) -> list[BlockLife]:
        """Every block's times in the pool, ordered by their starts: weights once
        for the whole iteration, others from each alloc to its free, and
        workspaces while their task runs. Takes O(events log events) time.
        Raises InvalidArgument, naming the block, if one is allocated twice, or
        freed without having been allocated."""
        lives = []
        live: dict[str, tuple[float, Union[ResidentBlock, MemoryEvent]]] = {}

        def add(name: str, kind: str, at: Any, start: float, end: float) -> None:
            lives.append(BlockLife(name, kind, at.offset, at.bytes, start, end))

        for base, round_ in self._repetitions():
            for resident in self.resident:
                live.setdefault(resident.block, (base, resident))
            for event in round_.events:
                now = _whole_ns(base + event.start_us)
                if event.op in ("alloc", "free"):
                    block = event.block or ""
                    if (block in live) == (event.op == "alloc"):
                        raise InvalidArgument(
                            f"{event.op} of {block} at {now} us, which is "
                            + ("live" if block in live else "not live")
                        )
                    if event.op == "alloc":
                        live[block] = (now, event)
                    else:
                        start, at = live.pop(block)
                        add(block, at.kind, at, start, now)
                elif event.workspace is not None:
                    end = _whole_ns(now + (event.dur_us or 0))
                    add(event.task or "", "workspace", event.workspace, now, end)
        for block, (start, at) in live.items():
            add(block, at.kind, at, start, self.time_us)
        return sorted(lives, key=lambda life: life.start_us)

    def check(self, graph: Optional[Union[PathLike, dict[str, Any]]] = None) -> None:
        """Raises InvalidArgument, naming the rule that the plan breaks and where,
        unless every execution of it is safe whatever its durations, every task
        finds the data that it needs, and the sums are those of the events
        (docs/memory.md). `graph` is the training graph, a file that
        `ucudnn solve memory --graph-out` wrote or its JSON, where the plan does
        not have it. Takes O(events * live blocks) time in the solver's library.
        """
        graph_json = None
        if isinstance(graph, (str, Path)):
            graph_json = Path(graph).read_text()
        elif graph is not None:
            graph_json = json.dumps(graph)
        ask_solver("check_memory_plan", json.dumps(self.to_json()), graph_json)

    def _repetitions(self) -> Iterator[tuple[float, MemoryRound]]:
        base = 0.0
        for round_ in self.rounds:
            for _ in range(round_.count):
                yield base, round_
                base = _whole_ns(base + round_.time_us)

    def _table(self) -> Table:
        ideal = ""
        if self.ideal_time_us is not None:
            ideal = f" ({time_text(self.ideal_time_us)} without a limit)"
        lives = sorted(self.lives(), key=lambda life: -life.bytes)
        return Table(
            f"MemoryPlan of {self.network}, batch {self.batches_text()}, "
            f"{self.policy}: {time_text(self.time_us)}{ideal}, "
            f"{size_text(self.peak_bytes)} of {size_text(self.budget_bytes)}; "
            f"{size_text(self.offloaded_bytes)} to the host, "
            f"{time_text(self.stall_us)} of stalls. Largest blocks:",
            ("block", "kind", "size", "offset", "from", "until"),
            [
                (
                    life.block,
                    life.kind,
                    size_text(life.bytes),
                    size_text(life.offset),
                    time_text(life.start_us),
                    time_text(life.end_us),
                )
                for life in lives
            ],
            self.notes,
        )

    def batches_text(self) -> str:
        """For people: "256", or "4 × 64" that are trained one after the
        other."""
        if len(self.rounds) == 1 and self.rounds[0].count == 1:
            return str(self.rounds[0].batch)
        return " + ".join(f"{r.count} × {r.batch}" for r in self.rounds)
