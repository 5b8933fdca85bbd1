"""From the times of steps to each rank's share of the mini-batch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Optional, Sequence

from ucudnn.cluster import PlanRequest
from ucudnn.errors import NoPlan
from ucudnn.recorded_steps import StepShares, solve_step_shares
from ucudnn.sizes import size_text
from ucudnn.torch.checks import refuse
from ucudnn.torch.parallel.exchange import Exchange
from ucudnn.torch.profiling import StepProfile

_WORTH_UNEVENNESS = 0.99  # of the even step's time; less is noise
_WORTH_IDLING = 0.98  # of the step's time
WORTH_CHANGING = 0.98  # of the step's time
_ANY_PASSES = 1 << 24


@dataclass(frozen=True)
class RankShare:
    """One rank's part of each mini-batch."""

    batch: int  # images; 0: the rank is idle
    first_image: int  # index in the mini-batch
    micro_steps: int  # passes that the share takes; 1 if it fits in memory
    ms: Optional[float]  # predicted; None: unknown
    budget: Optional[int] = None  # bytes that its plan keeps to; None: not planned
    bound_ms: Optional[float] = None  # that no plan of the batch beats


@dataclass(frozen=True)
class Coordinated:
    """The plan of a coordinator that shares are of."""

    id: int
    request: PlanRequest


@dataclass(frozen=True)
class SharePlan:
    """The shares of all ranks. Times are of what ranks compute, without exchanges."""

    ranks: list[RankShare]
    predicted_ms: Optional[float]  # of the slowest rank
    even_ms: Optional[float]  # the same with even shares; None: not known
    reasons: list[str]
    exchange: Exchange = field(default_factory=Exchange)
    coordinated: Optional[Coordinated] = None

    @property
    def batch(self) -> int:
        return sum(rank.batch for rank in self.ranks)

    @property
    def batches(self) -> list[int]:
        return [rank.batch for rank in self.ranks]


@dataclass(frozen=True)
class RankSteps:
    """What was measured on each rank's device, and which shares ranks may have. Between
    two measured batches times are on the line through them; beyond memory a share takes
    the fewest equal passes. The rest is docs/steps.md's."""

    ranks: Sequence[StepProfile]
    idle: bool = False  # a rank may get no images
    micro_steps: Optional[int] = None  # passes at most; None: as many as it takes
    # Down to it, a share takes as long as the smallest measured batch; None: there is
    # none below that.
    least: Optional[int] = None

    def scaled(self, factors: Sequence[float]) -> RankSteps:
        """The same, with each rank's times longer by a factor."""
        pairs = zip(self.ranks, factors)
        return replace(self, ranks=[t if f == 1 else t.scaled(f) for t, f in pairs])

    def plan(self, batch: int) -> SharePlan:
        """The shares with which the slowest rank takes the least time: exact for these
        times. Even shares if they take at most 1 % longer. Every rank gets images, unless
        `idle`. Raises NoPlan."""
        self._check(batch)
        plan = self._solved(batch)
        if not self.idle and len(self.ranks) > 1:
            plan = replace(plan, reasons=plan.reasons + self._idle_note(plan))
        return plan

    def given(self, batches: Sequence[int]) -> Optional[SharePlan]:
        """The plan with these shares; None if a rank has no step of its own."""
        try:
            return self._told(self._asked(sum(batches), batches))
        except NoPlan:
            return None

    def kinds(self) -> list[str]:
        """Each rank's kind of device, apart where the same kind has other times."""
        known: dict[str, StepProfile] = {}
        names = []
        for rank, told in enumerate(self.ranks):
            same = known.setdefault(told.kind, told) == told
            names.append(told.kind if same else f"{told.kind} of rank {rank}")
        return names

    def content(self) -> dict[str, Any]:
        """As docs/steps.md has it."""
        by_name = dict(zip(self.kinds(), self.ranks))
        return {
            "kinds": [self._kind(n, told) for n, told in by_name.items() if told.times]
        }

    def _kind(self, name: str, told: StepProfile) -> dict[str, Any]:
        kind: dict[str, Any] = {"device_kind": name}
        if self.least is not None:
            kind["least"] = self.least
        if told.ends:
            kind["passes"] = self.micro_steps or _ANY_PASSES
        # Whole nanoseconds, as coordinators answer.
        kind["steps"] = [
            {
                "batch": b,
                "time_us": round(ms * 1000, 3),
                "peak_bytes": told.peak.get(b, 0),
            }
            for b, ms in told.times.items()
        ]
        return kind

    def _check(self, batch: int) -> None:
        if self.idle:
            return
        for rank, told in enumerate(self.ranks):
            if not told.times:
                raise NoPlan(
                    f"share: rank {rank} ({told.kind}): not one image fits in its "
                    "memory; a smaller model or smaller images are accepted"
                )
        least = sum(min(told.smallest, self.least or batch) for told in self.ranks)
        if batch < least:
            raise refuse(
                "share: batch", f"{batch} for {len(self.ranks)} ranks",
                f"{least} or more is accepted, or idle=True",
            )  # fmt: skip

    def _solved(self, batch: int) -> SharePlan:
        plan = self._told(self._asked(batch))
        even, ms = plan.even_ms, plan.predicted_ms
        unworthy = even is not None and ms is not None and ms > _WORTH_UNEVENNESS * even
        if self.idle and unworthy and batch >= len(self.ranks):
            size = len(self.ranks)
            evenly = [batch // size + (rank < batch % size) for rank in range(size)]
            return self.given(evenly) or plan
        return plan

    def _able(self) -> list[int]:
        """The ranks whose memory holds an image."""
        return [rank for rank, told in enumerate(self.ranks) if told.times]

    def _asked(self, batch: int, shares: Optional[Sequence[int]] = None) -> StepShares:
        kinds = self.kinds()
        able = self._able()
        if not able:
            raise NoPlan("share: not one image fits in any rank's memory")
        return solve_step_shares(
            self.content(), batch, [kinds[rank] for rank in able],
            all_ranks=not self.idle, shares=shares and [shares[rank] for rank in able],
        )  # fmt: skip

    def _told(self, answer: StepShares) -> SharePlan:
        by_rank = dict(zip(self._able(), answer.ranks))
        ranks, reasons = [], []
        first = 0
        for rank, told in enumerate(self.ranks):
            step = by_rank.get(rank)
            batch, passes = (step.batch, step.passes) if step else (0, 1)
            ms = step.time_us / 1000 if step else 0.0
            bound = min(told.bound_ms.get(batch, ms), ms) if told.bound_ms else None
            ranks.append(RankShare(batch, first, passes, ms, told.budget, bound))
            first += batch
            reasons.append(f"rank {rank} ({told.kind}): {batch} images")
            if batch:
                reasons[-1] += f", {ms:.2f} ms"
            if told.budget is not None:
                reasons[-1] += f" within {size_text(told.budget)}"
            if batch == told.most and told.ends:
                reasons[-1] += ", all that fit"
            if passes > 1:
                reasons[-1] += f" in {passes} passes, because {told.most} fit in memory"
        even = answer.even_us if len(by_rank) == len(ranks) else None
        even_ms = None if even is None else even / 1000
        return SharePlan(ranks, answer.time_us / 1000, even_ms, reasons)

    def _idle_note(self, plan: SharePlan) -> list[str]:
        best = replace(self, idle=True)._solved(plan.batch)
        left_out = [r for r, share in enumerate(best.ranks) if share.batch == 0]
        if best.predicted_ms is None or plan.predicted_ms is None or not left_out:
            return []
        if best.predicted_ms > _WORTH_IDLING * plan.predicted_ms:
            return []
        names = ", ".join(map(str, left_out))
        return [
            f"without rank {names} a step would take {best.predicted_ms:.2f} ms: "
            "idle=True leaves it out"
        ]
