"""A training job of a framework, as its ranks tell a coordinator of it.

>>> job = cluster.register_job(plan)        # rank 0; shows the others job.key
>>> job = cluster.join_job(key, rank)       # all others
>>> with job:
...     for step in steps:
...         job.report(milliseconds)        # sends every few seconds
...         if job.offer:                   # on rank 0, at a step's or epoch's end
...             job.accept(job.offer)       # and job.follow(revision) on the others
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import random
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

from ucudnn.cluster import JobPlan
from ucudnn.errors import Error, InvalidArgument, NotFound
from ucudnn.json_objects import decode, encode
from ucudnn.rest import Rest, path_of

# As sessions have them (client/session/job_link.h and step_log.h).
_KEPT = 4096  # steps, while the coordinator is away
_AT_ONCE = 1024  # steps, in one call
_WITHIN_S = 1.0  # all calls of one exchange
_FINISH_WITHIN_S = 5.0
_FINISH_PAUSE_S = 0.2
_LEAST_PAUSE_S, _MOST_PAUSE_S = 0.01, 30.0


@dataclass(frozen=True)
class RankDevice:
    """Where a rank computes. By its device's id, or else its host, a coordinator
    finds the ranks of a node that is drained."""

    device_kind: str = ""
    device_id: str = ""
    host: str = ""


class Offer(NamedTuple):
    """A plan that the job is asked to adopt."""

    revision: int
    plan: JobPlan
    reason: str


def job_id_of(key: str) -> str:
    """The id of the key's job (proto/job_key.h)."""
    half = bytearray(hashlib.sha256(key.encode()).digest()[:16])
    half[6] = half[6] & 0x0F | 0x80
    half[8] = half[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(half)))


class RunningJob:
    """One rank of a running job. If the coordinator is away, steps are kept (the
    first 4,096; later ones only count) and sent later; what it acknowledged never
    counts twice. Only rank 0 gets offers. Its calls never fail because of the
    coordinator: `problem` tells what went wrong last. One thread reports and
    answers; any other may exchange."""

    def __init__(
        self,
        rest: Rest,
        key: str,
        rank: int,
        registration: Optional[dict[str, Any]] = None,
    ) -> None:
        """Rank 0 has the registration; Coordinator.register_job and join_job make
        these."""
        self.key = key
        self.id = job_id_of(key)
        self.rank = rank
        self.revision = 1
        """Of the plan that the ranks follow."""
        self.state = ""
        """"running", "finished" or "lost"; empty until the coordinator answered."""
        self.problem = ""
        """Why the last exchange failed; empty if it did not."""
        self.offer: Optional[Offer] = None
        """On rank 0: awaits accept() or refuse()."""
        self._rest = rest.for_job(key)
        self._registration = registration
        self._registered = registration is None
        self._steps: collections.deque[tuple[int, int, float]] = collections.deque()
        self._index = 0  # of the next step under the revision
        self._answers: collections.deque[tuple[int, str]] = collections.deque()
        self._exchanging = threading.Lock()
        # Used by who exchanges.
        self._sending: list[tuple[int, int, float]] = []  # not acknowledged yet
        self._fetched = 1
        self._end = 0.0
        self._pause = 1.0
        self._failures = 0
        self._due = 0.0
        self._finished = False

    def __repr__(self) -> str:
        return f"RunningJob {self.id}, rank {self.rank}, revision {self.revision}"

    def __enter__(self) -> RunningJob:
        return self

    def __exit__(self, *error: Any) -> None:
        self.finish()

    def report(self, *ms: float, wait: bool = True) -> None:
        """This rank's next steps took so many milliseconds. Sends them every few
        seconds, as often as the coordinator wants, which takes up to a second; less
        and less often while it is away. Without `wait` they are only kept for
        exchange(). Raises InvalidArgument."""
        for step in ms:
            if not 0 <= step < float("inf"):
                raise InvalidArgument(
                    f"report: {step} ms; a time from 0 up is accepted"
                )
            if len(self._steps) < _KEPT:
                self._steps.append((self.revision, self._index, float(step) * 1000))
            self._index += 1
        if wait and self.due_in == 0:
            self.exchange()

    @property
    def due_in(self) -> float:
        """The seconds until the next exchange is due."""
        return max(0.0, self._due - time.monotonic())

    def accept(self, offer: Offer) -> None:
        """All ranks have adopted the plan; the others call follow()."""
        if self._registration is not None:
            self._registration = {
                **self._registration,
                "revision": offer.revision,
                "plan_id": offer.plan.id,
                "request": encode(offer.plan.request),
            }
        self._answer(offer, "")
        self.follow(offer.revision)

    def refuse(self, offer: Offer, why: str) -> None:
        """The job cannot run the plan; `ucudnn show job` tells why."""
        if not why:
            raise InvalidArgument("refuse: why is empty; a reason is accepted")
        self._answer(offer, why)

    def follow(self, revision: int) -> None:
        """The next steps are under this revision."""
        self.revision, self._index = revision, 0

    def exchange(self, within: float = _WITHIN_S) -> bool:
        """Sends what waits, and takes an offer, within so many seconds. Without
        steps it tells that this rank is alive. Whether all went well."""
        with self._exchanging:
            self._end = time.monotonic() + within
            try:
                self._register()
                self._send_answers()
                self._send_steps()
            except Error as error:
                self.problem = str(error)
                self._failures += 1
            else:
                self.problem = ""
                self._failures = 0
            pause = min(_MOST_PAUSE_S, self._pause * 2.0**self._failures)
            # Ranks that lose a coordinator at once come back one by one.
            spread = random.uniform(0.5, 1) if self._failures else 1
            self._due = time.monotonic() + pause * spread
            return not self.problem

    def finish(self, within: float = _FINISH_WITHIN_S) -> bool:
        """Sends what is left and, on rank 0, that the job ended, again and again for
        so many seconds while the coordinator is away. Whether it knows."""
        end = time.monotonic() + within
        pause = _FINISH_PAUSE_S
        while not self._finished:
            left = max(0.0, end - time.monotonic())
            self._finished = self.exchange(left) and self._tell_end()
            if not self._finished:
                if end - time.monotonic() <= pause:
                    break
                time.sleep(pause * random.uniform(0.5, 1))
                pause *= 2
        return self._finished

    def _tell_end(self) -> bool:
        try:
            if self._registration:
                self._post("finish", {})
        except Error as error:
            self.problem = str(error)
            return False
        return True

    def register(self) -> None:
        """On rank 0, before all else; exchange() does it, too, if the coordinator does
        not know the job. Raises what the call does."""
        with self._exchanging:
            self._end = time.monotonic() + _WITHIN_S
            self._register()

    def _register(self) -> None:
        if not self._registered:
            self.offer = None  # of the coordinator that knew the job
            registration = self._registration or {}
            answer = self._call().post(path_of("jobs"), registration)
            self._registered = True
            self._fetched = registration.get("revision", 1)
            self._set_pause(answer)

    def _call(self) -> Rest:
        return self._rest.within(max(0.05, self._end - time.monotonic()))

    def _post(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._call().post(path_of("jobs", self.id, what), body)

    def _answer(self, offer: Offer, rejected: str) -> None:
        if self.offer is not None and self.offer.revision == offer.revision:
            self.offer = None
        self._answers.append((offer.revision, rejected))
        self._due = 0.0

    def _send_answers(self) -> None:
        while self._answers:
            revision, rejected = self._answers[0]
            # What the coordinator refuses, it would refuse again.
            with contextlib.suppress(InvalidArgument, NotFound):
                self._post("revision", {"revision": revision, "rejected": rejected})
            self._answers.popleft()

    def _send_steps(self) -> None:
        more = True
        while more:
            while self._steps and len(self._sending) < _AT_ONCE:
                self._sending.append(self._steps.popleft())
            more = len(self._sending) == _AT_ONCE
            batches = _batches(self._sending)
            try:
                answer = self._post("steps", {"rank": self.rank, "batches": batches})
            except NotFound:
                # Another database than before: register again, with the revision
                # that the ranks follow.
                self._registered = self._registration is None
                raise
            except InvalidArgument:
                self._sending.clear()  # it would refuse them again
                raise
            self._sending.clear()
            self._set_pause(answer)
            self.state = answer.get("state", "")
            self._fetch(answer.get("newest") or {})

    def _fetch(self, newest: dict[str, Any]) -> None:
        """The plan of a new revision, on rank 0."""
        revision, plan = newest.get("revision", 0), newest.get("plan_id", 0)
        if not self._registration or revision <= self._fetched or not plan:
            return
        if newest.get("rejected"):
            return
        path = path_of("plans", str(plan))
        answer = self._call().get(path)
        self._fetched = revision
        try:
            decoded = decode(JobPlan, answer, path)
        except InvalidArgument as error:
            self._answers.append((revision, str(error)))
            return
        self.offer = Offer(revision, decoded, newest.get("reason", ""))

    def _set_pause(self, answer: dict[str, Any]) -> None:
        seconds = answer.get("report_after_ms", 0) / 1000
        if seconds > 0:
            self._pause = min(max(seconds, _LEAST_PAUSE_S), _MOST_PAUSE_S)


def _batches(steps: list[tuple[int, int, float]]) -> list[dict[str, Any]]:
    """The steps of a report: runs of one revision without a gap."""
    batches: list[dict[str, Any]] = []
    for revision, index, us in steps:
        last = batches[-1] if batches else None
        if (
            last is None
            or last["revision"] != revision
            or last["first_step"] + len(last["step_us"]) != index
        ):
            last = {"revision": revision, "first_step": index, "step_us": []}
            batches.append(last)
        last["step_us"].append(us)
    return batches
