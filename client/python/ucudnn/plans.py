"""Plans as plain objects, and their JSON. Times are in microseconds, sizes in
bytes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Iterable, Mapping, Optional

from ucudnn.errors import InvalidArgument
from ucudnn.files import PathLike, write_json
from ucudnn.json_objects import decode
from ucudnn.library import ask_solver
from ucudnn.shown import Shown, Table
from ucudnn.sizes import as_int, size_text, time_text


@dataclass(frozen=True)
class MicroBatch:
    """`count` executions of one algorithm on `batch` images."""

    batch: int
    count: int
    algorithm: str
    math: str
    time_us: float  # of one execution
    workspace_bytes: int
    precision: str = ""


@dataclass(frozen=True)
class KernelPlan:
    """How one layer's operation divides the mini-batch."""

    layer: str
    op: str
    precision: str
    time_us: float
    undivided_time_us: Optional[float]  # None: no undivided algorithm fits
    workspace_bytes: int
    micro_batches: list[MicroBatch]
    layout: str = "NCHW"
    offset_bytes: Optional[int] = None
    problem: Optional[str] = None


@dataclass(frozen=True, repr=False)
class WorkspacePlan(Shown):
    """The plan of one device's kernels for one mini-batch under one limit."""

    batch: int
    workspace_limit_bytes: int
    total_time_us: float
    lower_bound_us: float
    optimal: bool
    undivided_time_us: Optional[float]
    total_workspace_bytes: int
    kernels: list[KernelPlan] = field(default_factory=list)
    # Which of them may run at once: "0 [1 | 2 3] 4" lets 1 run beside 2 and 3.
    concurrency: str = ""
    # Of the measurements that it is made of: "accuracy not measured: ...".
    notes: list[str] = field(default_factory=list, compare=False)
    # The part of these times in which tasks run that are not convolutions; 0 where
    # they are of convolutions alone.
    other_time_us: float = 0.0

    @classmethod
    def from_json(cls, json_object: dict[str, Any]) -> WorkspacePlan:
        """Raises InvalidArgument, naming the field, unless a job may run it."""
        return cls._parse(json.dumps(json_object))

    @classmethod
    def _parse(cls, text: str) -> WorkspacePlan:
        return decode(cls, ask_solver("read_plan", text), "plan")

    def to_json(self) -> dict[str, Any]:
        plan = asdict(self)
        for optional in ("concurrency", "notes", "other_time_us"):
            if not plan[optional]:
                del plan[optional]
        for kernel in plan["kernels"]:
            for optional in ("offset_bytes", "problem"):
                if kernel[optional] is None:
                    del kernel[optional]
            for micro in kernel["micro_batches"]:
                if not micro["precision"]:
                    del micro["precision"]
        return plan

    @classmethod
    def read(cls, path: PathLike, rank: Optional[int] = None) -> WorkspacePlan:
        """Reads what write() or `ucudnn solve` wrote, or the part of one rank of
        a job's plan, which `ucudnn plan --save` wrote. `rank` is needed if its
        ranks have different parts. Raises InvalidArgument as from_json does, or
        if there is no such rank."""
        text = Path(path).read_text()
        ranks = _ranks_of(text)
        if ranks is None:
            return cls._parse(text)
        return cls._parse(json.dumps(_part_of(ranks, rank, str(path))))

    def write(self, path: PathLike) -> None:
        write_json(path, self.to_json())

    def _table(self) -> Table:
        gain = ""
        if self.undivided_time_us and self.total_time_us:
            ratio = self.undivided_time_us / self.total_time_us
            gain = f" ({ratio:.2f}x faster than undivided)"
        bound = "optimal"
        if not self.optimal:
            bound = f"no plan below {time_text(self.lower_bound_us)}"
        return Table(
            f"WorkspacePlan of batch {self.batch}: "
            f"{time_text(self.total_time_us)}{gain}, {bound}; limit "
            f"{size_text(self.workspace_limit_bytes)}, workspaces of "
            f"{size_text(self.total_workspace_bytes)} in sum",
            ("layer", "op", "micro-batches", "workspace", "time", "undivided"),
            [
                (
                    kernel.layer,
                    kernel.op,
                    division_text(kernel.micro_batches),
                    size_text(kernel.workspace_bytes),
                    time_text(kernel.time_us),
                    optional_time(kernel.undivided_time_us),
                )
                for kernel in self.kernels
            ],
            self.notes,
        )


def division_text(micro_batches: Iterable[MicroBatch]) -> str:
    """For people: "8 × 32, FFT + 1 × 4, GEMM"; equal neighbours are told as one."""
    parts = groupby(micro_batches, lambda m: f"{m.batch}, {m.algorithm}")
    return " + ".join(
        f"{sum(m.count for m in equal)} × {part}" for part, equal in parts
    )


def optional_time(time_us: Optional[float]) -> str:
    return "-" if time_us is None else time_text(time_us)


def _ranks_of(text: str) -> Optional[list[Any]]:
    """Those of a job's plan; None if it is something else."""
    try:
        plan = json.loads(text)
    except ValueError:
        return None  # the library's reader says what is wrong
    ranks = plan.get("ranks") if isinstance(plan, dict) else None
    return ranks if isinstance(ranks, list) else None


def _workspace_of(ranks: list[Any], rank: Any) -> Any:
    """What several ranks have alike is told with the first of them."""
    of = rank.get("workspace_of_rank")
    if isinstance(of, int) and 0 <= of < len(ranks):
        rank = ranks[of]
    return rank.get("workspace") if isinstance(rank, dict) else None


def _part_of(ranks: list[Any], rank: Optional[int], source: str) -> Any:
    """The workspace plan of this rank, or of all that have one."""
    parts = {
        place: _workspace_of(ranks, rank_plan)
        for place, rank_plan in enumerate(ranks)
        if isinstance(rank_plan, dict) and rank_plan.get("batch")
    }
    if rank is None:
        first = next(iter(parts), 0)
        if any(part != parts[first] for part in parts.values()):
            raise InvalidArgument(
                f"{source}: its {len(parts)} ranks have different parts; rank= "
                f"chooses one, of {', '.join(map(str, parts))}"
            )
        rank = first
    if rank not in parts:
        raise InvalidArgument(
            f"{source}: rank {rank} has no part of the batch; "
            f"{', '.join(map(str, parts)) or 'none'} has"
        )
    return parts[rank]


@dataclass(frozen=True)
class FrontPoint:
    """A division that no other beats in both time and workspace."""

    time_us: float
    workspace_bytes: int
    micro_batches: list[MicroBatch]

    @classmethod
    def from_json(cls, json_object: dict[str, Any]) -> FrontPoint:
        """Raises InvalidArgument, naming the field."""
        return decode(cls, json_object, "point")


class Front(list[FrontPoint], Shown):
    """A Pareto front, by increasing workspace, and what it is of, as far as that
    was given."""

    layer: str = ""
    op: str = ""
    batch: int = 0
    workspace_limit_bytes: int = 0
    notes: list[str] = []  # of the measurements that it is made of

    @classmethod
    def of(cls, answer: Mapping[str, Any], request: Mapping[str, Any]) -> Front:
        """From JSON, and the request that it answers."""
        front = cls(FrontPoint.from_json(point) for point in answer["front"])
        front.notes = answer.get("notes", [])
        front.layer = request["layer"]
        front.op = request["op"] or ""
        front.batch = as_int(request["batch"])
        front.workspace_limit_bytes = request["workspace_limit_bytes"]
        return front

    __repr__ = Shown.__repr__

    @property
    def title(self) -> str:
        """For people: "conv2 forward, batch 256, up to 64 MiB"."""
        of = [" ".join(filter(None, (self.layer, self.op)))]
        if self.batch:
            of.append(f"batch {self.batch}")
            of.append(f"up to {size_text(self.workspace_limit_bytes)}")
        return ", ".join(filter(None, of))

    def _table(self) -> Table:
        title = f"Front of {len(self)} divisions"
        return Table(
            f"{title}: {self.title}" if self.title else title,
            ("workspace", "time", "micro-batches"),
            [
                (
                    size_text(point.workspace_bytes),
                    time_text(point.time_us),
                    division_text(point.micro_batches),
                )
                for point in self
            ],
            self.notes,
        )


@dataclass(frozen=True)
class Share:
    """One GPU's part of a mini-batch; if batch is 0, the GPU is left out."""

    gpu: str
    batch: int
    time_us: float
    weight: float  # of its gradient
    binding: str = ""
    reason: str = ""


@dataclass(frozen=True, repr=False)
class Assignment(Shown):
    """A mini-batch divided among GPUs so that the slowest takes the least time."""

    batch: int
    makespan_us: float
    lower_bound_us: float
    optimal: bool
    even_split_us: Optional[float]
    gpus: list[Share]

    @classmethod
    def from_json(cls, json_object: dict[str, Any]) -> Assignment:
        """Raises InvalidArgument, naming the field."""
        return decode(cls, json_object, "assignment")

    def _table(self) -> Table:
        even = ""
        if self.even_split_us is not None:
            even = f", evenly {time_text(self.even_split_us)}"
        return Table(
            f"Assignment of batch {self.batch}: {time_text(self.makespan_us)}"
            + even
            + (", optimal" if self.optimal else ""),
            ("gpu", "batch", "time", "weight", "why"),
            [
                (
                    share.gpu,
                    share.batch,
                    time_text(share.time_us),
                    f"{share.weight:.4f}",
                    share.reason,
                )
                for share in self.gpus
            ],
        )


@dataclass(frozen=True, repr=False)
class Allocation(Shown):
    """Offsets of buffers in one pool."""

    load: int  # the largest sum of sizes live at once
    pool: int  # the largest offset + size
    lower_bound: int  # no pool is smaller
    proven: bool  # pool == lower_bound
    offsets: dict[str, int]  # by id

    @classmethod
    def from_json(cls, json_object: dict[str, Any]) -> Allocation:
        """Raises InvalidArgument, naming the field."""
        offsets = {b["id"]: b["offset"] for b in json_object["buffers"]}
        return decode(cls, {**json_object, "offsets": offsets}, "allocation")

    def _table(self) -> Table:
        proof = "the least" if self.proven else f"at least {self.lower_bound} B"
        return Table(
            f"Allocation of {len(self.offsets)} buffers in {self.pool} B "
            f"({proof}; {self.load} B live at once)",
            ("buffer", "offset"),
            [*self.offsets.items()],
        )
