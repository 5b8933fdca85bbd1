"""Steps that frameworks recorded or measured, planned again on any machine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, SupportsIndex, Union

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
    actions: list[RecordedAction]  # in the order in which hooks run them
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
    answer = ask_solver(
        "recorded_step",
        _text(step),
        request={
            "budget_bytes": parse_size(budget),
            "offload": offload,
            "recompute": recompute,
            "time_limit_s": time_limit,
        },
    )
    return decode(RecordedPlan, answer, "plan")


@dataclass(frozen=True)
class RankStep:
    """One rank's share and what it takes."""

    batch: int  # 0: the rank is left out
    time_us: float
    lower_bound_us: float  # no plan of the batch takes less
    peak_bytes: int  # 0: unknown
    passes: int  # equal ones that the share takes
    most: int  # the largest share that the rank can have


@dataclass(frozen=True)
class StepShares:
    time_us: float  # of the slowest rank
    lower_bound_us: float  # no shares are faster
    ranks: list[RankStep]
    even_us: Optional[float] = None  # with even shares; None: a rank can have none
    # The time limit ended the search: another one may find faster shares.
    cut_off: bool = False


def solve_step_shares(
    step: RecordedStepLike,
    batch: SupportsIndex,
    device_kinds: Sequence[str],
    *,
    all_ranks: bool = False,
    budgets: Optional[Sequence[Size]] = None,
    recompute: bool = True,
    shares: Optional[Sequence[SupportsIndex]] = None,
    time_limit: float = 60.0,
) -> StepShares:
    """Shares a mini-batch among unlike devices by the times of whole steps, so that the
    slowest takes the least time: exact for these times.

    `step` is what `ucudnn steps put` takes (docs/steps.md), as a dictionary or a JSON
    file; `device_kinds` has the kind of each rank's device, `budgets` the memory. With
    `all_ranks` every rank gets images, and even shares are kept unless others are 1 %
    faster. `shares`, the images of each rank, asks what they take instead. Raises NoPlan
    naming what would do, and InvalidArgument naming the field that is malformed.
    """
    request = {
        "batch": batch,
        "device_kinds": list(device_kinds),
        "all_ranks": all_ranks,
        "budget_bytes": budgets and [parse_size(size) for size in budgets],
        "recompute": recompute,
        "shares": shares and list(shares),
        "time_limit_s": time_limit,
    }
    return decode(
        StepShares, ask_solver("step_shares", _text(step), request=request), ""
    )


def _text(step: RecordedStepLike) -> str:
    return json.dumps(step) if isinstance(step, Mapping) else Path(step).read_text()
