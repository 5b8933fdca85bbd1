"""Measures a step on one rank of each kind of device, where it matters."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Sequence, Set

from ucudnn.torch.cache import StepCache
from ucudnn.torch.devices import Device
from ucudnn.torch.planning import SharePlan, StepTable, plan_shares
from ucudnn.torch.profile import Step, StepProfile, profile
from ucudnn.torch.ranks import Ranks

_ROUNDS = 6  # of planning and measuring what was planned


class Measuring:
    """The times of one step on all kinds of a job's devices. Collective: all
    ranks make the same calls. Of the ranks of one kind, the first measures, while
    the others wait."""

    def __init__(
        self,
        ranks: Ranks,
        device: Device,
        step: Step,
        *,
        name: str,
        keep: Iterable[Any] = (),
        cache: Optional[StepCache] = None,
        micro_steps: Optional[int] = None,
    ) -> None:
        self._ranks = ranks
        self._device = device
        self._step = step
        self._keep = list(keep)
        self._cache = cache or StepCache("")
        self._micro_steps = micro_steps
        cached = ranks.gather((name, self._cache.read(name, device.kind)))
        self._name = name
        self.kinds = [measured.kind for _, measured in cached]
        self._known: Dict[str, StepProfile] = {}
        for _, measured in cached:
            self._add(measured)
        self.measured_here = 0  # batches, on all ranks

    def tables(self) -> List[StepTable]:
        """The table of each rank's kind."""
        by_kind = {
            kind: StepTable(measured, self._micro_steps)
            for kind, measured in self._known.items()
        }
        return [by_kind[kind] for kind in self.kinds]

    def plan(
        self, batch: int, idle: bool, first: Optional[Sequence[int]] = None
    ) -> SharePlan:
        """Plans from a few batches (`first`, or a default around the even share),
        measures what was planned, and plans again until all of the plan is
        measured."""
        wanted = set(first or starting_batches(batch, self._ranks.size))
        self._measure({kind: wanted for kind in self.kinds})
        for _ in range(_ROUNDS):
            tables = self.tables()
            plan = self._ranks.from_first(
                lambda: plan_shares(batch, tables, idle)
            )
            missing = self._unmeasured(plan, batch)
            if not any(missing.values()):
                break
            self._measure(missing)
        for kind in dict.fromkeys(self.kinds):
            if kind == self._device.kind:
                self._cache.write(self._name, self._known[kind])
        return plan

    def _unmeasured(self, plan: SharePlan, batch: int) -> Dict[str, Set[int]]:
        """What the plan uses without having been measured; and more, where it
        uses the largest that was."""
        missing: Dict[str, Set[int]] = {kind: set() for kind in self.kinds}
        most = batch - self._ranks.size + 1
        for share, table in zip(plan.ranks, self.tables()):
            known = self._known[table.kind].ms
            size = share.batch // share.micro_steps
            if size and size not in known:
                missing[table.kind].add(size)
            if share.batch >= table.most and not table.ends:
                missing[table.kind].add(min(2 * table.most, most))
        return {k: batches - set(self._known[k].ms) for k, batches in missing.items()}

    def _measure(self, wanted: Dict[str, Set[int]]) -> None:
        kind = self._device.kind
        first = self.kinds.index(kind) == self._ranks.rank
        known = self._known[kind]
        batches = [
            b
            for b in wanted[kind]
            if b not in known.ms
            and (known.largest is None or b < known.largest)
        ]

        def run() -> StepProfile:
            if not first or not batches:
                return StepProfile(kind)
            return profile(
                self._step,
                batches,
                keep=self._keep,
                device=self._device.device,
                kind=kind,
            )

        for measured in self._ranks.agree(run):
            self.measured_here += len(measured.ms)
            self._add(measured)

    def _add(self, measured: StepProfile) -> None:
        known = self._known.get(measured.kind, StepProfile(measured.kind))
        largest = measured.largest
        if largest is None:
            largest = known.largest
        self._known[measured.kind] = StepProfile(
            measured.kind, {**known.ms, **measured.ms}, largest
        )


def starting_batches(batch: int, ranks: int) -> List[int]:
    """Batches from which interpolation is good enough to find those that matter:
    1, and fractions and multiples of the even share."""
    even = batch / ranks
    most = max(1, batch - ranks + 1)
    parts = (0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
    return sorted({1, *(min(most, max(1, round(even * p))) for p in parts)})
