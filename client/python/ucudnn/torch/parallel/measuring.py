"""Measures a step on one rank of each kind of device, where it matters."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Callable, Mapping, Optional, Sequence

from ucudnn.errors import NoPlan
from ucudnn.torch.devices import Device
from ucudnn.torch.parallel.cache import StepCache
from ucudnn.torch.parallel.planning import RankSteps, SharePlan
from ucudnn.torch.parallel.ranks import Ranks
from ucudnn.torch.profiling import StepProfile

_ROUNDS = 12  # of planning and measuring what was planned
_EARLY = 0.98  # of a step's time: a rank that needs less may take more images


class Measuring:
    """The times of one step on all kinds of a job's devices, by what `profile` tells
    of batches on this rank's. Collective: all ranks make the same calls. Of the ranks of
    one kind, the first measures, while the others wait."""

    def __init__(
        self,
        ranks: Ranks,
        device: Device,
        profile: Callable[[list[int]], StepProfile],
        *,
        name: str = "",
        cache: Optional[StepCache] = None,
        idle: bool = False,
        micro_steps: Optional[int] = None,
        known: Mapping[str, StepProfile] = MappingProxyType({}),
    ) -> None:
        """`known` are times that others measured, by kind, where the cache has none."""
        self._ranks = ranks
        self._device = device
        self._profile = profile
        self._cache = cache or StepCache("")
        self._idle, self._micro_steps = idle, micro_steps
        mine = self._cache.read(name, device.kind)
        cached = ranks.gather(mine if mine.ms else known.get(device.kind, mine))
        self._name = name
        self.kinds = [measured.kind for measured in cached]
        self._known: dict[str, StepProfile] = {}
        for measured in cached:
            self._add(measured)
        self.measured_here = 0  # batches, on all ranks

    def steps(self) -> RankSteps:
        """What is known of each rank's kind."""
        told = [self._known[kind] for kind in self.kinds]
        return RankSteps(told, self._idle, self._micro_steps)

    def plan(self, batch: int, first: Optional[Sequence[int]] = None) -> SharePlan:
        """Plans from a few batches (`first`, or a default around the even share),
        measures what was planned, and plans again until all of the plan is
        measured."""
        wanted = set(first or starting_batches(batch, self._ranks.size))
        self._measure({kind: wanted for kind in self.kinds})
        for _ in range(_ROUNDS):
            try:
                missing = self._unmeasured(self._planned(batch), batch)
            except NoPlan:
                missing = self._larger(batch)
                if not missing:
                    raise
            if not missing:
                break
            self._measure(missing)
        self._cache.write(self._name, self._known[self._device.kind])
        return self._planned(batch)

    def _planned(self, batch: int) -> SharePlan:
        steps = self.steps()
        return self._ranks.from_first(lambda: steps.plan(batch))

    def _larger(self, batch: int) -> dict[str, set[int]]:
        """Batches to measure, where those that were cannot sum to the mini-batch."""
        if not self._idle and not all(told.times for told in self._known.values()):
            return {}  # no more of others would help
        return {
            told.kind: {min(2 * told.most, batch)}
            for told in self._known.values()
            if not told.ends and told.most < batch
        }

    def _unmeasured(self, plan: SharePlan, batch: int) -> dict[str, set[int]]:
        """What the plan uses without having been measured; larger batches of
        ranks that would wait for others with the largest that was, and smaller
        ones of ranks that others would wait for with the smallest."""
        missing: dict[str, set[int]] = {kind: set() for kind in self.kinds}
        most = batch - self._ranks.size + 1
        for share, kind in zip(plan.ranks, self.kinds):
            known = self._known[kind]
            size = share.batch // share.micro_steps
            if size and size not in known.ms:
                missing[kind].add(size)
            waits = (
                share.ms is None
                or plan.predicted_ms is None
                or share.ms < _EARLY * plan.predicted_ms
            )
            if waits and share.batch >= known.most and not known.ends:
                missing[kind].add(min(2 * known.most, most))
            if not waits and share.batch == known.smallest > known.least:
                missing[kind].add(share.batch // 2)
        new = {k: b - set(self._known[k].ms) for k, b in missing.items()}
        return {kind: batches for kind, batches in new.items() if batches}

    def _measure(self, wanted: dict[str, set[int]]) -> None:
        kind = self._device.kind
        known = self._known[kind]
        batches = sorted(
            b
            for b in wanted.get(kind, set())
            if b not in known.ms and (known.largest is None or b < known.largest)
        )
        if known.ms and len(batches) > 1 and batches[0] == 1:
            del batches[0]  # may fail, so it is measured alone

        def run() -> StepProfile:
            if not batches:
                return StepProfile(kind)
            try:
                return self._profile(batches)
            except Exception:
                # BatchNorm refuses the single values that one image may give.
                if batches != [1] or not known.ms:
                    raise
                return StepProfile(kind, least=2)

        self.measured_here += self.revise(run)

    def revise(self, run: Callable[[], StepProfile]) -> int:
        """Adds what `run` tells on the first rank of each kind: so many batches."""
        kind = self._device.kind
        first = self.kinds.index(kind) == self._ranks.rank
        told = self._ranks.agree(lambda: run() if first else StepProfile(kind))
        for measured in told:
            self._add(measured)
        return sum(len(measured.ms) for measured in told)

    def _add(self, measured: StepProfile) -> None:
        known = self._known.get(measured.kind, StepProfile(measured.kind))
        largest, budget = measured.largest, measured.budget
        self._known[measured.kind] = replace(
            known,
            ms={**known.ms, **measured.ms},
            largest=known.largest if largest is None else largest,
            least=max(known.least, measured.least),
            budget=known.budget if budget is None else budget,
            bound_ms={**known.bound_ms, **measured.bound_ms},
            peak={**known.peak, **measured.peak},
        )


def starting_batches(batch: int, ranks: int) -> list[int]:
    """The first batches to measure: parts of the even share."""
    even = -(-batch // ranks)
    least = max(1, min(2, batch // ranks))
    return sorted({max(least, even // part) for part in (8, 4, 2, 1)})
