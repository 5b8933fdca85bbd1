"""Shares in a job that a coordinator follows."""

from __future__ import annotations

import socket
import threading
import weakref
from dataclasses import replace
from typing import Any, Callable, Mapping, Optional, Sequence

from ucudnn.cluster import JobPlan
from ucudnn.coordinator import Coordinator
from ucudnn.errors import Error, InvalidArgument, NotAllowed
from ucudnn.running import Offer, RankDevice, RunningJob
from ucudnn.torch.checks import warn
from ucudnn.torch.devices import Device
from ucudnn.torch.parallel.planning import Coordinated, RankSteps, SharePlan
from ucudnn.torch.parallel.ranks import Ranks
from ucudnn.torch.parallel.sources import StepLog, TimesSource, drifts

_LAST_WORDS_S = 10.0
_POLL_S = 0.02


def begin_job(
    ranks: Ranks, own: Device, cluster: Coordinator, plan: Optional[JobPlan]
) -> Optional[RunningJob]:
    """Collective: this rank of a job that follows `plan`, which rank 0 has. None on
    all ranks, and a warning, if the coordinator does not let us register one."""
    places = ranks.gather(RankDevice(own.kind, own.gpu, socket.gethostname()))
    registered: list[RunningJob] = []

    def register() -> Optional[str]:
        assert plan is not None
        try:
            job = cluster.register_job(plan, ranks=places, auto_replan=True)
        except (InvalidArgument, NotAllowed) as error:
            warn(f"share: the job is not registered: {error}")
            return None
        registered.append(job)
        return job.key

    key = ranks.from_first(register)
    if key is None:
        return None
    return registered[0] if registered else cluster.join_job(key, ranks.rank)


class RegisteredSource(TimesSource):
    """Shares of a coordinator's plan for a step that was put. Each rank reports what
    its steps take. replan() adopts what the coordinator offers, on all ranks or on none:
    without a rank that is silent or whose node is drained, or other shares because
    steps drift. Then rank 0 puts the step anew, each kind as slow as its slowest rank
    was seen to be, from which the coordinator plans.

    A thread of each rank talks to the coordinator, so that training never waits for
    it."""

    def __init__(
        self,
        ranks: Ranks,
        job: RunningJob,
        plan: SharePlan,
        steps: RankSteps,
        put: Callable[[Mapping[str, Any]], Any],
        tolerance: float,
    ) -> None:
        """`put` stores the step's content under its name, on rank 0."""
        super().__init__(ranks, plan, steps, tolerance)
        self._job = job
        self._put = put
        self._talk = _Talk(job)
        self._talk.start()
        # When nobody uses the shares any more, or the program ends.
        self._end = weakref.finalize(self, _Talk.end, self._talk)

    def report(self, ms: float) -> None:
        super().report(ms)
        self._job.report(ms, wait=False)

    def replan(self) -> Optional[SharePlan]:
        told = self._ranks.gather((self._log.times(), self._job.offer))
        offer = told[0][1]
        if offer is not None:
            return self._answer(offer)
        factors = drifts([times for times, _ in told], self._tolerance)
        if any(factor != 1 for factor in factors):
            self._remeasured(factors)
        return None

    def finish(self) -> None:
        self._end()

    def _answer(self, offer: Offer) -> Optional[SharePlan]:
        """All ranks decide alike, from what rank 0 told."""
        batches = [rank.batch for rank in offer.plan.ranks]
        why = self._refusal(batches)
        plan = None if why else self._steps.given(batches)
        if plan is None:
            if self._ranks.rank == 0:
                why = why or f"the ranks cannot compute {batches} images"
                self._job.refuse(offer, why)
                warn(
                    f"refresh: revision {offer.revision} ({offer.reason}) is not "
                    f"adopted: {why}"
                )
            return None
        if self._ranks.rank == 0:
            self._job.accept(offer)
        else:
            self._job.follow(offer.revision)
        self._log = StepLog()
        note = f"revision {offer.revision}, plan {offer.plan.id}: {offer.reason}"
        self._plan = replace(
            plan,
            reasons=[note, *plan.reasons],
            exchange=self._plan.exchange,
            coordinated=Coordinated(offer.plan.id, offer.plan.request),
        )
        return self._plan

    def _refusal(self, batches: list[int]) -> str:
        """Why the job cannot have these shares; empty if it can."""
        if len(batches) != self._ranks.size:
            return f"it is of {len(batches)} ranks; {self._ranks.size} are accepted"
        if sum(batches) != self._plan.batch:
            return (
                f"the mini-batch would be {sum(batches)} images; {self._plan.batch}, "
                "as the job began, are accepted"
            )
        if 0 in batches and not self._steps.idle:
            return (
                f"rank {batches.index(0)} would get no images, as if it could be left "
                "out; share(idle=True) and shares.loader() let it take part without"
            )
        return ""

    def _remeasured(self, factors: Sequence[float]) -> None:
        kinds = self._steps.kinds()
        worst = {
            kind: max(f for f, k in zip(factors, kinds) if k == kind) for kind in kinds
        }
        self._last_now(self._steps.scaled([worst[kind] for kind in kinds]))
        if self._ranks.rank == 0:
            put, content = self._put, self._steps.content()
            self._talk.errand = lambda: put(content)


class _Talk(threading.Thread):
    """Exchanges with the coordinator until the job ends, and then ends it."""

    def __init__(self, job: RunningJob) -> None:
        super().__init__(name="ucudnn job", daemon=True)
        self._job = job
        self._ended = threading.Event()
        self.errand: Optional[Callable[[], Any]] = None
        """To be done once the coordinator answers."""

    def run(self) -> None:
        while not self._ended.wait(max(_POLL_S, self._job.due_in)):
            if self._job.exchange():
                self._run_errand()
        self._job.finish()

    def end(self) -> None:
        """What finalizes may run in any thread, this one too."""
        self._ended.set()
        if threading.current_thread() is not self:
            self.join(_LAST_WORDS_S)

    def _run_errand(self) -> None:
        errand = self.errand
        if errand is None:
            return
        try:
            errand()
        except (InvalidArgument, NotAllowed) as error:
            warn(f"refresh: the step is not put anew: {error}")
        except Error:
            return  # later
        if self.errand is errand:
            self.errand = None
