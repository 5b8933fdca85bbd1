"""From the times of steps to each rank's share of the mini-batch."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import List, Optional, Sequence

from ucudnn.errors import NoPlan
from ucudnn.profiles import Time, Times
from ucudnn.sizes import size_text
from ucudnn.solve import assign
from ucudnn.torch.checks import refuse
from ucudnn.torch.profiling import StepProfile

_WORTH_UNEVENNESS = 0.99  # of the even step's time; less is noise
_WORTH_IDLING = 0.98  # of the step's time
WORTH_CHANGING = 0.98  # of the step's time


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
class SharePlan:
    """The shares of all ranks."""

    ranks: List[RankShare]
    predicted_ms: Optional[float]  # of the slowest rank
    even_ms: Optional[float]  # the same with even shares; None: not known
    reasons: List[str]

    @property
    def batch(self) -> int:
        return sum(rank.batch for rank in self.ranks)


class StepTable:
    """The time of every batch on one rank, from those that were measured:

    - between two measured batches, on the line through them;
    - beyond memory, k equal passes for the least k that fit, if k divides the
      batch and is at most `micro_steps`;
    - beyond the largest measured batch otherwise, none;
    - below the least measured batch none, or down to `least` the same time.
    """

    def __init__(
        self,
        measured: StepProfile,
        micro_steps: Optional[int] = None,
        least: Optional[int] = None,
    ) -> None:
        self._measured = measured
        self._micro_steps = micro_steps
        self._batches = sorted(
            b
            for b in measured.ms
            if measured.largest is None or b <= measured.largest
        )
        self._ms = [measured.ms[b] for b in self._batches]
        smallest = self._batches[0] if self._batches else 1
        self.least = smallest if least is None else min(least, smallest)

    def scaled(self, factor: float) -> StepTable:
        """The same, with all times longer by a factor."""
        told = self._measured
        times = {b: ms * factor for b, ms in zip(self._batches, self._ms)}
        bounds = {b: ms * factor for b, ms in told.bound_ms.items()}
        told = replace(told, ms=times, bound_ms=bounds)
        return StepTable(told, self._micro_steps, self.least)

    @property
    def kind(self) -> str:
        return self._measured.kind

    @property
    def budget(self) -> Optional[int]:
        return self._measured.budget

    def bound_ms(self, batch: int) -> Optional[float]:
        """What no plan of a batch beats, where that is known."""
        return self._measured.bound_ms.get(batch)

    @property
    def most(self) -> int:
        """The largest batch of one pass."""
        return self._batches[-1] if self._batches else 0

    @property
    def ends(self) -> bool:
        """Whether memory ends at `most`, rather than the measurements."""
        return self._measured.largest is not None

    def limit(self, batch: int) -> int:
        """The most of `batch` images that this rank can compute."""
        for images in range(batch, 0, -1):
            if self.micro_steps(images) > 0:
                return images
        return 0

    def micro_steps(self, batch: int) -> int:
        """The passes that a batch takes; 0 if it cannot be computed."""
        if batch <= self.most:
            return 1 if batch >= self.least else 0
        if not self.ends or self.most == 0:
            return 0
        passes = -(-batch // self.most)
        allowed = self._micro_steps is None or passes <= self._micro_steps
        return passes if allowed and batch % passes == 0 else 0

    def ms(self, batch: int) -> Optional[float]:
        """The time of a batch; None if it cannot be computed."""
        passes = self.micro_steps(batch)
        if passes == 0:
            return None
        return passes * self._pass_ms(batch // passes)

    def _pass_ms(self, batch: int) -> float:
        right = bisect_left(self._batches, batch)
        if right == 0 or self._batches[right] == batch:
            return self._ms[right]
        b0, b1 = self._batches[right - 1 : right + 1]
        t0, t1 = self._ms[right - 1 : right + 1]
        return t0 + (t1 - t0) * (batch - b0) / (b1 - b0)


def plan_shares(
    batch: int, tables: Sequence[StepTable], idle: bool = False
) -> SharePlan:
    """The shares with which the slowest rank takes the least time, by
    `ucudnn.assign`: exact for the tables' times. Even shares if they take at most
    1 % longer. Every rank gets images, unless `idle`. Raises NoPlan."""
    least = _least(tables, idle)
    if batch < sum(least):
        raise refuse(
            "share: batch",
            f"{batch} for {len(tables)} ranks",
            f"{sum(least)} or more is accepted, or idle=True",
        )
    plan = given_shares(_assigned(batch, tables, least), tables)
    if (
        plan.even_ms is not None
        and plan.predicted_ms is not None
        and plan.predicted_ms > _WORTH_UNEVENNESS * plan.even_ms
        and batch >= len(tables)
    ):
        plan = given_shares(even_shares(batch, len(tables)), tables)
    if not idle and len(tables) > 1:
        without = _idle_note(batch, tables, plan)
        plan = replace(plan, reasons=plan.reasons + without)
    return plan


def _least(tables: Sequence[StepTable], idle: bool) -> List[int]:
    """The images that each rank must have."""
    return [0 if idle else table.least for table in tables]


def given_shares(
    batches: Sequence[int], tables: Sequence[StepTable]
) -> SharePlan:
    """The plan with these shares, and what the tables predict for it."""
    total = sum(batches)
    ranks = []
    reasons = []
    first = 0
    for rank, (batch, table) in enumerate(zip(batches, tables)):
        ms = table.ms(batch) if batch else 0.0
        passes = max(1, table.micro_steps(batch)) if batch else 1
        ranks.append(
            RankShare(batch, first, passes, ms, table.budget, table.bound_ms(batch))
        )
        first += batch
        text = f"rank {rank} ({table.kind}): {batch} images"
        if ms:
            text += f", {ms:.2f} ms"
        if table.budget is not None:
            text += f" within {size_text(table.budget)}"
        if batch and batch == table.most and table.ends:
            text += ", all that fit"
        if passes > 1:
            text += f" in {passes} passes, because {table.most} fit in memory"
        reasons.append(text)
    return SharePlan(
        ranks, slowest(batches, tables), even_ms(total, tables), reasons
    )


def even_shares(batch: int, ranks: int) -> List[int]:
    """As equal as whole images allow, larger ones first."""
    return [batch // ranks + (rank < batch % ranks) for rank in range(ranks)]


def even_ms(batch: int, tables: Sequence[StepTable]) -> Optional[float]:
    """The slowest rank's time with even shares; None if one cannot compute its
    share."""
    return slowest(even_shares(batch, len(tables)), tables)


def slowest(
    batches: Sequence[int], tables: Sequence[StepTable]
) -> Optional[float]:
    """The longest of the ranks' times; None if one is unknown."""
    times = [t.ms(b) if b else 0.0 for b, t in zip(batches, tables)]
    known = [ms for ms in times if ms is not None]
    return max(known) if len(known) == len(times) else None


def _assigned(
    batch: int, tables: Sequence[StepTable], least: Sequence[int]
) -> List[int]:
    # The images that ranks must have are dealt beforehand, and the rest is an
    # assignment in which any rank may get none. A rank's time for its first image
    # bounds the step whatever the rest, so the result is optimal.
    for rank, table in enumerate(tables):
        if least[rank] and table.ms(least[rank]) is None:
            raise NoPlan(
                f"share: rank {rank} ({table.kind}): not one image fits in its "
                "memory; a smaller model or smaller images are accepted"
            )
    rest = batch - sum(least)
    shares = list(least)
    if rest == 0:
        return shares
    # No rank needs longer than with even shares, if those are possible.
    bound = even_ms(batch, tables)
    rows = [
        Time(str(rank), images, ms * 1000)
        for rank, table in enumerate(tables)
        for images in range(1, rest + 1)
        for ms in [table.ms(images + least[rank])]
        if ms is not None and (bound is None or ms <= bound)
    ]
    _refuse_too_large(batch, tables)
    for share in assign(Times(rows), rest).gpus:
        shares[int(share.gpu)] += share.batch
    return shares


def _refuse_too_large(batch: int, tables: Sequence[StepTable]) -> None:
    """Names the largest mini-batch, if it is less than `batch`."""
    limits = [table.limit(batch) for table in tables]
    if sum(limits) >= batch:
        return
    parts = ", ".join(f"rank {r}: {n}" for r, n in enumerate(limits))
    why = "fits in memory" if tables[0].ends else "was measured"
    raise NoPlan(
        f"share: batch: {batch}; at most {sum(limits)} is accepted, because no "
        f"more {why} ({parts})"
    )


def _idle_note(
    batch: int, tables: Sequence[StepTable], plan: SharePlan
) -> List[str]:
    best = given_shares(
        _assigned(batch, tables, _least(tables, idle=True)), tables
    )
    left_out = [r for r, share in enumerate(best.ranks) if share.batch == 0]
    if best.predicted_ms is None or plan.predicted_ms is None or not left_out:
        return []
    if best.predicted_ms > _WORTH_IDLING * plan.predicted_ms:
        return []
    names = ", ".join(str(r) for r in left_out)
    return [
        f"without rank {names} a step would take {best.predicted_ms:.2f} ms: "
        "idle=True leaves it out"
    ]
