"""Plans as plain objects, and their JSON. Times are in microseconds, sizes in
bytes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Union

from ucudnn.library import ask_solver


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

    @classmethod
    def from_json(cls, json_object: Dict[str, Any]) -> MicroBatch:
        return cls(**_known(cls, json_object))


@dataclass(frozen=True)
class KernelPlan:
    """How one layer's operation divides the mini-batch."""

    layer: str
    op: str
    precision: str
    time_us: float
    undivided_time_us: Optional[float]  # None: no undivided algorithm fits
    workspace_bytes: int
    micro_batches: List[MicroBatch]
    layout: str = "NCHW"
    offset_bytes: Optional[int] = None
    problem: Optional[str] = None

    @classmethod
    def from_json(cls, json_object: Dict[str, Any]) -> KernelPlan:
        values = _known(cls, json_object)
        values["micro_batches"] = [
            MicroBatch.from_json(m) for m in json_object["micro_batches"]
        ]
        return cls(**values)


@dataclass(frozen=True)
class WorkspacePlan:
    """The plan of one device's kernels for one mini-batch under one limit."""

    batch: int
    workspace_limit_bytes: int
    total_time_us: float
    lower_bound_us: float
    optimal: bool
    undivided_time_us: Optional[float]
    total_workspace_bytes: int
    kernels: List[KernelPlan] = field(default_factory=list)

    @classmethod
    def from_json(cls, json_object: Dict[str, Any]) -> WorkspacePlan:
        """Raises InvalidArgument, naming the field, unless a job may run it."""
        return cls._parse(json.dumps(json_object))

    @classmethod
    def _parse(cls, text: str) -> WorkspacePlan:
        values = _known(cls, ask_solver("read_plan", text))
        values["kernels"] = [KernelPlan.from_json(k) for k in values["kernels"]]
        return cls(**values)

    def to_json(self) -> Dict[str, Any]:
        plan = asdict(self)
        for kernel in plan["kernels"]:
            for optional in ("offset_bytes", "problem"):
                if kernel[optional] is None:
                    del kernel[optional]
            for micro in kernel["micro_batches"]:
                if not micro["precision"]:
                    del micro["precision"]
        return plan

    @classmethod
    def read(cls, path: Union[str, Path]) -> WorkspacePlan:
        """Raises as from_json does."""
        return cls._parse(Path(path).read_text())

    def write(self, path: Union[str, Path]) -> None:
        Path(path).write_text(json.dumps(self.to_json(), indent=2) + "\n")


@dataclass(frozen=True)
class FrontPoint:
    """A division that no other beats in both time and workspace."""

    time_us: float
    workspace_bytes: int
    micro_batches: List[MicroBatch]

    @classmethod
    def from_json(cls, json_object: Dict[str, Any]) -> FrontPoint:
        values = _known(cls, json_object)
        values["micro_batches"] = [
            MicroBatch.from_json(m) for m in json_object["micro_batches"]
        ]
        return cls(**values)


@dataclass(frozen=True)
class Share:
    """One GPU's part of a mini-batch; if batch is 0, the GPU is left out."""

    gpu: str
    batch: int
    time_us: float
    weight: float  # of its gradient
    binding: str = ""
    reason: str = ""

    @classmethod
    def from_json(cls, json_object: Dict[str, Any]) -> Share:
        return cls(**_known(cls, json_object))


@dataclass(frozen=True)
class Assignment:
    """A mini-batch divided among GPUs so that the slowest takes the least time."""

    batch: int
    makespan_us: float
    lower_bound_us: float
    optimal: bool
    even_split_us: Optional[float]
    gpus: List[Share]

    @classmethod
    def from_json(cls, json_object: Dict[str, Any]) -> Assignment:
        values = _known(cls, json_object)
        values["gpus"] = [Share.from_json(g) for g in json_object["gpus"]]
        return cls(**values)


@dataclass(frozen=True)
class Allocation:
    """Offsets of buffers in one pool."""

    load: int  # the largest sum of sizes live at once
    pool: int  # the largest offset + size
    lower_bound: int  # no pool is smaller
    proven: bool  # pool == lower_bound
    offsets: Dict[str, int]  # by id

    @classmethod
    def from_json(cls, json_object: Dict[str, Any]) -> Allocation:
        values = _known(cls, json_object)
        values["offsets"] = {b["id"]: b["offset"] for b in json_object["buffers"]}
        return cls(**values)


def _known(cls: Any, json_object: Dict[str, Any]) -> Dict[str, Any]:
    # Later versions may add fields.
    return {
        name: json_object[name]
        for name in cls.__dataclass_fields__
        if name in json_object
    }
