"""Where shares come from, and when they change."""

from __future__ import annotations

import abc
import collections
import statistics
from dataclasses import replace
from typing import Any, NamedTuple, Optional

from ucudnn.torch.checks import refuse
from ucudnn.torch.parallel.planning import (
    WORTH_CHANGING,
    RankShare,
    RankSteps,
    SharePlan,
)
from ucudnn.torch.parallel.ranks import Ranks

_FIRST, _LAST = 16, 112  # as the coordinator keeps of a job's steps
_WARM_UP = 4  # of the first ones, that do not count


class Source(abc.ABC):
    """Plans the shares of a job, at first and again."""

    @abc.abstractmethod
    def plan(self) -> SharePlan:
        """The current shares."""

    @abc.abstractmethod
    def report(self, ms: float) -> None:
        """This rank computed for so long in a step."""

    @abc.abstractmethod
    def replan(self) -> Optional[SharePlan]:
        """Collective: new shares if there is reason to change, on all ranks or on
        none."""

    def finish(self) -> None:
        """There are no more steps."""


class StepTimes(NamedTuple):
    """What one rank tells the others."""

    first_ms: float  # median of the first steps under these shares
    last_ms: float  # median of the last ones


class StepLog:
    """One rank's step times under the current shares."""

    def __init__(self) -> None:
        self._first: list[float] = []
        self._last: collections.deque[float] = collections.deque(maxlen=_LAST)
        self._count = 0

    def add(self, ms: float) -> None:
        self._count += 1
        if self._count <= _WARM_UP:
            return
        if len(self._first) < _FIRST:
            self._first.append(ms)
        else:
            self._last.append(ms)

    def times(self) -> Optional[StepTimes]:
        """None until there are enough steps of both."""
        if len(self._last) < _FIRST:
            return None
        recent = list(self._last)[-_FIRST:]
        return StepTimes(statistics.median(self._first), statistics.median(recent))


def drifts(times: list[Optional[StepTimes]], tolerance: float) -> list[float]:
    """By what factor each rank's steps became longer or shorter than its first
    ones; 1 within the tolerance. All 1 until every rank has enough steps."""
    if any(t is None or t.first_ms <= 0 for t in times):
        return [1.0] * len(times)
    factors = [t.last_ms / t.first_ms for t in times if t is not None]
    return [f if abs(f - 1) > tolerance else 1.0 for f in factors]


def worth_changing(plan: SharePlan, now: Optional[SharePlan]) -> bool:
    """Whether other shares are so much faster than those of now, which may no longer
    fit."""
    if plan.predicted_ms is None:
        return False
    before = None if now is None else now.predicted_ms
    return before is None or plan.predicted_ms <= WORTH_CHANGING * before


class TimesSource(Source):
    """Shares from the times of steps. If a rank's steps become longer or shorter
    than its first ones by more than the tolerance, its times are scaled by the
    same factor; the shares change if that makes steps 2 % shorter."""

    def __init__(
        self, ranks: Ranks, plan: SharePlan, steps: RankSteps, tolerance: float
    ) -> None:
        self._ranks = ranks
        self._plan = plan
        self._steps = steps
        self._tolerance = tolerance
        self._log = StepLog()

    def plan(self) -> SharePlan:
        return self._plan

    def report(self, ms: float) -> None:
        self._log.add(ms)

    def replan(self) -> Optional[SharePlan]:
        times = self._ranks.gather(self._log.times())
        factors = drifts(times, self._tolerance)
        if all(factor == 1 for factor in factors):
            return None
        steps, now = self._steps.scaled(factors), self._plan
        plan, same = self._ranks.from_first(
            lambda: (steps.plan(now.batch), steps.given(now.batches))
        )
        self._last_now(steps)
        if not worth_changing(plan, same):
            return None
        notes = [
            f"rank {rank}: its steps took {f:.2f} times as long as its first ones"
            for rank, f in enumerate(factors)
            if f != 1
        ]
        self._plan = replace(plan, reasons=plan.reasons + notes, exchange=now.exchange)
        return self._plan

    def _last_now(self, steps: RankSteps) -> None:
        """What ranks were seen to take, from which on they may drift again."""
        self._steps = steps
        self._log = StepLog()


class SessionSource(Source):
    """The shares of a ucudnn.Session, whose ranks are those of the process group:
    a job of the coordinator."""

    def __init__(self, ranks: Ranks, session: Any, batch: int) -> None:
        place = "share: session"
        told = ranks.gather((session.rank, session.size, session.global_batch))
        for rank, (session_rank, size, session_batch) in enumerate(told):
            if (session_rank, size) != (rank, ranks.size):
                raise refuse(
                    place,
                    f"rank {session_rank} of {size} where torch.distributed has "
                    f"rank {rank} of {ranks.size}",
                    "a session whose ranks are those of torch.distributed is "
                    "accepted: start both from the same mpirun",
                )
            if session_batch != batch:
                raise refuse(
                    place,
                    f"its mini-batch is {session_batch}",
                    f"one of {batch}, as share's, is accepted",
                )
        self._ranks = ranks
        self._session = session

    def plan(self) -> SharePlan:
        session = self._session
        ranks = self._ranks.gather(
            RankShare(
                session.batch, session.first_image, 1, session.predicted_ms or None
            )
        )
        reasons = [f"{session.source}: {session.reason}", *session.notes]
        return SharePlan(ranks, session.predicted_step_ms or None, None, reasons)

    def report(self, ms: float) -> None:
        self._session.report_step(ms)

    def replan(self) -> Optional[SharePlan]:
        if not self._session.refresh():
            return None
        return self.plan()
