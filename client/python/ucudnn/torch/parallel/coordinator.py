"""What ranks measured of their step, put to a coordinator, and the shares of its plan."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from typing import Any, Dict, List, Optional

from ucudnn.errors import Error, InvalidArgument, NotAllowed, NotFound
from ucudnn.rest import Rest, path_of
from ucudnn.torch.checks import warn
from ucudnn.torch.parallel.planning import Coordinated, RankSteps, SharePlan
from ucudnn.torch.profiling import StepProfile

_WITHIN_S = 5.0
_TRIES = 3  # if other jobs put under the same name meanwhile


class PutStep:
    """A step under a name at a coordinator. Kinds that other jobs put stay, if their
    fingerprint is the same; a step of another fingerprint is replaced. One rank alone
    calls."""

    def __init__(self, url: str, name: str, fingerprint: str = "") -> None:
        self._url, self._name, self._fingerprint = url, name, fingerprint
        self._path = path_of("steps", name)

    @functools.cached_property
    def _rest(self) -> Rest:
        return Rest(self._url, timeout=_WITHIN_S)

    def known(self) -> Dict[str, StepProfile]:
        """The times that are there, by kind of device; none if there is no answer."""
        try:
            kinds = self._kinds()
        except Error:
            return {}
        return {kind["device_kind"]: _profile(kind) for kind in kinds}

    def shares(self, steps: RankSteps, here: SharePlan) -> SharePlan:
        """Puts the times, and makes the plan. If the coordinator has none or cannot be
        reached, the shares planned here, with the reason, which is also warned of. Raises
        InvalidArgument or NotAllowed as the coordinator says."""
        try:
            for _ in range(_TRIES):
                found = self._plan(steps, here)
                if found is not None:
                    return found
            why = f"others put other times of {self._name} meanwhile"
        except (InvalidArgument, NotAllowed):
            raise
        except Error as error:
            why = str(error)
        why = f"planned without the coordinator: {why}"
        warn(f"share: {why}")
        return replace(here, reasons=[*here.reasons, why])

    def _plan(self, steps: RankSteps, here: SharePlan) -> Optional[SharePlan]:
        """None if what was put is no longer there."""
        put = self._put(steps)
        request: Dict[str, Any] = {
            "step": self._name, "batch": here.batch, "device_kinds": steps.kinds(),
            "all_ranks": not steps.idle,
        }  # fmt: skip
        if any(told.budget for told in steps.ranks):
            budgets = [told.budget or 0 for told in steps.ranks]
            request["memory"] = {"rank_budget_bytes": budgets}
        try:
            plan = self._rest.post(path_of("plans"), request)
        except InvalidArgument:
            if self._rest.get(self._path)["revision"] == put["revision"]:
                raise
            return None
        if plan["network_revision"] != put["revision"]:
            return None
        shares = steps.given([rank.get("batch", 0) for rank in plan["ranks"]])
        notes = here.reasons[len(here.ranks) :]  # what is said beside each rank's share
        return shares and replace(
            shares,
            reasons=[f"plan {plan['id']} of {self._rest!r}", *shares.reasons, *notes],
            coordinated=Coordinated(self._url, plan["id"], request),
        )

    def _put(self, steps: RankSteps) -> Dict[str, Any]:
        content = steps.content()
        ours = {kind["device_kind"] for kind in content["kinds"]}
        others = [kind for kind in self._kinds() if kind["device_kind"] not in ours]
        content["kinds"] += others
        content["fingerprint"] = self._fingerprint
        return self._rest.put(self._path, json.dumps(content).encode())

    def _kinds(self) -> List[Dict[str, Any]]:
        """What is there of this fingerprint, as it is put."""
        try:
            told = self._rest.get(self._path)
        except NotFound:
            return []
        if not self._fingerprint or told.get("fingerprint") != self._fingerprint:
            return []
        kinds = []
        for kind in told["kinds"]:
            put = {name: kind[name] for name in ("device_kind", "steps")}
            put["least"] = kind["least_batch"]
            if kind.get("passes"):
                put["passes"] = kind["passes"]
            if not kind.get("recorded"):
                kinds.append(put)
        return kinds


def _profile(kind: Dict[str, Any]) -> StepProfile:
    ms = {step["batch"]: step["time_us"] / 1000 for step in kind["steps"]}
    return StepProfile(kind["device_kind"], ms, max(ms) if "passes" in kind else None)
