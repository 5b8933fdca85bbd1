"""Steps that ucudnn.torch.memory recorded, planned again on any machine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, List, Mapping, Union

from ucudnn.files import PathLike
from ucudnn.json_objects import decode
from ucudnn.library import ask_solver
from ucudnn.sizes import Size, parse_size

RecordedStepLike = Union[PathLike, Mapping[str, Any]]


@dataclass(frozen=True)
class RecordedAction:
    """What a hook of the step does with a saved tensor. `action` is "copy", "free",
    "fetch", "recompute" or "drop"."""

    hook: int
    action: str
    tensor: int


@dataclass(frozen=True)
class RecordedPlan:
    time_us: float
    ideal_time_us: float  # all segments
    lower_bound_us: float  # no plan within the budget takes less
    peak_bytes: int
    plain_peak_bytes: int  # if every tensor stays
    moved_bytes: int  # both ways
    actions: List[RecordedAction]  # in the order in which hooks run them
    # The time limit ended the search: another one may find a faster plan.
    cut_off: bool = False


def solve_recorded_step(
    step: RecordedStepLike,
    budget: Size,
    *,
    offload: bool = True,
    recompute: bool = True,
    time_limit: float = 60.0,
) -> RecordedPlan:
    """Plans a recorded training step within a budget: which saved tensors stay,
    which move to the host and return, and which are computed again.

    `step` is `recorded_step` of a plan of ucudnn.torch.memory, or that as a JSON
    file; ucudnn/solve.h describes its fields. After `time_limit` seconds the best
    plan so far is returned. Raises NoPlan naming the least budget, and
    InvalidArgument naming the field that is malformed.
    """
    text = json.dumps(step) if isinstance(step, Mapping) else Path(step).read_text()
    answer = ask_solver(
        "recorded_step",
        text,
        request={
            "budget_bytes": parse_size(budget),
            "offload": offload,
            "recompute": recompute,
            "time_limit_s": time_limit,
        },
    )
    return decode(RecordedPlan, answer, "plan")
