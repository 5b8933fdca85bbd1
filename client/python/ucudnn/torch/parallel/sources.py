"""Where shares come from, and when they change."""

from __future__ import annotations

import abc
from dataclasses import replace
from typing import Any, List, Optional

from ucudnn.torch.checks import refuse
from ucudnn.torch.parallel.drift import StepLog, drifts
from ucudnn.torch.parallel.planning import (
    WORTH_CHANGING,
    RankShare,
    SharePlan,
    StepTable,
    plan_shares,
    slowest,
)
from ucudnn.torch.parallel.ranks import Ranks


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


class FixedSource(Source):
    """Shares that stay."""

    def __init__(self, plan: SharePlan) -> None:
        self._plan = plan

    def plan(self) -> SharePlan:
        return self._plan

    def report(self, ms: float) -> None:
        pass

    def replan(self) -> Optional[SharePlan]:
        return None


class TimesSource(Source):
    """Shares from the times of steps. If a rank's steps become longer or shorter
    than its first ones by more than the tolerance, its times are scaled by the
    same factor; the shares change if that makes steps 2 % shorter."""

    def __init__(
        self,
        ranks: Ranks,
        plan: SharePlan,
        tables: List[StepTable],
        idle: bool,
        tolerance: float,
    ) -> None:
        self._ranks = ranks
        self._plan = plan
        self._tables = tables
        self._idle = idle
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
        tables = [t.scaled(f) for t, f in zip(self._tables, factors)]
        batches = [rank.batch for rank in self._plan.ranks]
        plan = self._ranks.from_first(
            lambda: plan_shares(sum(batches), tables, self._idle)
        )
        # The steps were seen to last this long, so that is what they last now.
        self._tables = tables
        self._log.clear()
        before = slowest(batches, tables)
        if before is None or plan.predicted_ms is None:
            return None
        if plan.predicted_ms > WORTH_CHANGING * before:
            return None
        notes = [
            f"rank {rank}: its steps took {f:.2f} times as long as its first ones"
            for rank, f in enumerate(factors)
            if f != 1
        ]
        self._plan = replace(plan, reasons=plan.reasons + notes)
        return self._plan


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
                session.batch,
                session.first_image,
                1,
                session.predicted_ms or None,
            )
        )
        reasons = [f"{session.source}: {session.reason}", *session.notes]
        return SharePlan(
            ranks, session.predicted_step_ms or None, None, reasons
        )

    def report(self, ms: float) -> None:
        self._session.report_step(ms)

    def replan(self) -> Optional[SharePlan]:
        if not self._session.refresh():
            return None
        return self.plan()
