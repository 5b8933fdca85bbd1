"""Plans where the saved tensors of a recorded step are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Sequence

import torch

from ucudnn.errors import NoPlan
from ucudnn.recorded_steps import RecordedPlan, solve_recorded_step
from ucudnn.torch.reserve import naming_least, with_slack
from ucudnn.torch.saved.describing import Description, described
from ucudnn.torch.saved.links import Rates
from ucudnn.torch.saved.recorded import Recording

# The part of a GPU's budget that is left to its allocator, whose blocks may each
# be a MiB larger than asked for; they differ from one step to the next. Steps took
# up to 1.3 % more than predicted.
_RESERVED = 64


class Solved(NamedTuple):
    """A plan, and what its numbers stand for."""

    described: Description
    answer: RecordedPlan


def best_plan(
    recording: Recording,
    device: torch.device,
    rates: Rates,
    budget: int,
    ways: Sequence[str],
) -> Solved:
    """The faster of the plans with shallow and with deep recipes. Raises NoPlan with
    the least budget that another recording of the step takes, too."""
    variants = [recording]
    if any(saved.deep is not saved.again for saved in recording.storages):
        deep = [replace(saved, again=saved.deep) for saved in recording.storages]
        variants.append(replace(recording, storages=deep))
    solved: list[Solved] = []
    refused: list[NoPlan] = []
    for variant in variants:
        told = described(variant, device, rates, budget, "recompute" in ways)
        try:
            answer = _solved(told.step, budget, ways, device.type == "cuda")
        except NoPlan as error:
            refused.append(error)
        else:
            solved.append(Solved(told, answer))
    if not solved:
        raise min(refused, key=lambda error: error.least or 0)
    best = min(solved, key=lambda one: one.answer.time_us)
    bound = min(one.answer.lower_bound_us for one in solved)
    return best._replace(answer=replace(best.answer, lower_bound_us=bound))


def without_reserve(budget: int) -> int:
    return budget - budget // _RESERVED


def with_reserve(size: int) -> int:
    """The least budget of which `size` is left."""
    budget = max(0, size * _RESERVED // (_RESERVED - 1) - 1)
    while without_reserve(budget) < size:
        budget += 1
    return budget


def _solved(
    step: dict[str, Any], budget: int, ways: Sequence[str], gpu: bool
) -> RecordedPlan:
    """The answer within the budget, or on a GPU within what the allocator leaves
    of it."""
    within = without_reserve(budget) if gpu else budget
    needed = (lambda least: with_reserve(with_slack(least))) if gpu else int
    with naming_least("memory", budget, needed):
        return solve_recorded_step(
            step,
            within,
            offload="offload" in ways,
            recompute="recompute" in ways,
            time_limit=30,
        )
