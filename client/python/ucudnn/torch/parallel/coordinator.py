"""What ranks measured of their step, put to a coordinator, and the plan of it."""

from __future__ import annotations

import functools
from typing import Any, Mapping, Union

from ucudnn.cluster import JobPlan
from ucudnn.coordinator import Coordinator
from ucudnn.errors import Error, InvalidArgument, NotAllowed, NotFound
from ucudnn.json_objects import encode
from ucudnn.rest import Rest
from ucudnn.torch.parallel.planning import RankSteps
from ucudnn.torch.profiling import StepProfile

_WITHIN_S = 5.0
_TRIES = 3  # if other jobs put under the same name meanwhile
_DRIFTED = " drifted"


class PutStep:
    """A step under a name at a coordinator. Of the kinds that other jobs put, those of
    the same fingerprint stay."""

    def __init__(self, url: str, name: str, fingerprint: str = "") -> None:
        self._url, self._name, self._fingerprint = url, name, fingerprint

    @functools.cached_property
    def cluster(self) -> Coordinator:
        return Coordinator(Rest(self._url, timeout=_WITHIN_S))

    def known(self) -> dict[str, StepProfile]:
        """The times that are there, by kind of device; none if there is no answer."""
        try:
            kinds = self._kinds(self._fingerprint)
        except Error:
            return {}
        return {kind["device_kind"]: _profile(kind) for kind in kinds}

    def plan(self, steps: RankSteps, batch: int) -> Union[JobPlan, str]:
        """Puts the times, and makes the plan; or why there is none. Raises InvalidArgument
        or NotAllowed as the coordinator says."""
        if not all(told.times for told in steps.ranks):
            return "the memory of a rank holds no image, so there are no times of it"
        try:
            for _ in range(_TRIES):
                plan, there = self._plan(steps, batch)
                if plan is not None and there:
                    return plan if _fits(plan, steps, batch) else _misfit(plan)
            return f"others put other times of {self._name} meanwhile"
        except (InvalidArgument, NotAllowed):
            raise
        except Error as error:
            return str(error)

    def put_drifted(self, content: Mapping[str, Any]) -> None:
        """Puts times of which some were not measured, but scaled: no other job takes them
        for measured ones."""
        self._put(content, self._fingerprint + _DRIFTED)

    def _plan(self, steps: RankSteps, batch: int) -> tuple[Any, bool]:
        """A plan, and whether it is of what this put."""
        put = self._put(steps.content(), self._fingerprint)
        budgets = [told.budget or 0 for told in steps.ranks]
        try:
            plan = self.cluster.make_plan(
                step=self._name, batch=batch, device_kinds=steps.kinds(),
                all_ranks=not steps.idle, memory_budgets=budgets if any(budgets) else (),
            )  # fmt: skip
        except InvalidArgument:
            if self.cluster.step(self._name).revision == put:
                raise
            return None, False
        return plan, plan.network_revision == put

    def _put(self, content: Mapping[str, Any], fingerprint: str) -> int:
        """Returns the revision."""
        ours = [{**kind, "fingerprint": fingerprint} for kind in content["kinds"]]
        names = {kind["device_kind"] for kind in ours}
        theirs = self._kinds(self._fingerprint, self._fingerprint + _DRIFTED)
        others = [kind for kind in theirs if kind["device_kind"] not in names]
        return self.cluster.put_step(self._name, {"kinds": ours + others}).revision

    def _kinds(self, *fingerprints: str) -> list[dict[str, Any]]:
        """What is there of these, as it is put."""
        try:
            kinds = self.cluster.step(self._name).kinds
        except NotFound:
            return []
        if not self._fingerprint:
            return []
        return [
            {
                "device_kind": kind.device_kind, "least": kind.least_batch,
                "fingerprint": kind.fingerprint,
                **({"passes": kind.passes} if kind.passes else {}),
                "steps": [encode(step) for step in kind.steps],
            }
            for kind in kinds
            if kind.fingerprint in fingerprints and not kind.recorded
        ]  # fmt: skip


def _fits(plan: JobPlan, steps: RankSteps, batch: int) -> bool:
    """Whether the ranks can have the plan's shares, which are of the mini-batch."""
    batches = [rank.batch for rank in plan.ranks]
    return (
        len(batches) == len(steps.ranks)
        and min(batches) >= 0
        and sum(batches) == batch
        and steps.given(batches) is not None
    )


def _misfit(plan: JobPlan) -> str:
    batches = [rank.batch for rank in plan.ranks]
    return f"the shares of its plan {plan.id}, {batches}, are none that these ranks can have"


def _profile(kind: dict[str, Any]) -> StepProfile:
    ms = {step["batch"]: step["time_us"] / 1000 for step in kind["steps"]}
    return StepProfile(kind["device_kind"], ms, max(ms) if "passes" in kind else None)
