"""A client of coordinators over REST."""

from __future__ import annotations

import secrets
import time
from typing import Any, Optional, Sequence, SupportsIndex, TypeVar, Union

from ucudnn.cluster import (
    Agent,
    Device,
    Job,
    JobPlan,
    JobRank,
    Measurements,
    MemoryRequest,
    Network,
    PlanRequest,
    ProfileSummary,
    Status,
)
from ucudnn.errors import Error, InvalidArgument, NoPlan, NotAllowed
from ucudnn.files import PathLike
from ucudnn.json_objects import decode, encode
from ucudnn.literals import BatchPolicy, Layout, Operation, Precision
from ucudnn.networks import InputShapeLike, NetworkLike, network_of, shapes_of
from ucudnn.plans import Front
from ucudnn.profiles import Measurement, Profile
from ucudnn.rest import Rest, path_of
from ucudnn.running import RankDevice, RunningJob, job_id_of
from ucudnn.sizes import Size, as_int, parse_size
from ucudnn.steps import FrameworkStep, StepLike, contents_of

_Object = TypeVar("_Object")
_POLL_S = 0.5


def connect(
    address: str,
    *,
    ca: Optional[PathLike] = None,
    cert: Optional[PathLike] = None,
    key: Optional[PathLike] = None,
    token_file: Optional[PathLike] = None,
    timeout: float = 30.0,
) -> Coordinator:
    """A client of the coordinator whose REST is at `address`:

    >>> cluster = ucudnn.connect("localhost:7461")
    >>> [device.kind for device in cluster.devices()]
    ['NVIDIA H200/132u/139GiB/cudnn-9.19']
    >>> plan = cluster.make_plan("resnet50", 256, workspace_limit="64MiB")

    `address` is HOST, HOST:PORT or a URL. With the certificate `ca` it speaks
    TLS, and shows either `cert` and `key` or the token in `token_file`; files
    that are not given are those of the environment variables UCUDNN_CA,
    UCUDNN_CERT, UCUDNN_KEY and UCUDNN_TOKEN_FILE. An answer may take `timeout`
    seconds. Raises Unreachable if no coordinator answers, and NotAllowed if it
    wants another certificate or token.
    """
    rest = Rest(
        address, ca=ca, cert=cert, key=key, token_file=token_file, timeout=timeout
    )
    coordinator = Coordinator(rest)
    coordinator.status()
    return coordinator


class Coordinator:
    """What a coordinator knows and does. Every method is a call of its own;
    lists are fetched whole, page by page. Any threads may call.

    Raises Unreachable if the coordinator cannot answer, NotAllowed if it does
    not let this caller, and NotFound for what it does not know.
    """

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    def __repr__(self) -> str:
        return f"Coordinator at {self._rest!r}"

    def status(self) -> Status:
        return self._one(Status, path_of("status"))

    def agents(self) -> list[Agent]:
        return self._all(Agent, "agents")

    def agent(self, id: str) -> Agent:
        return self._one(Agent, path_of("agents", id))

    def devices(self, *, kind: str = "", state: str = "") -> list[Device]:
        return _in_state(state, self._all(Device, "devices", kind=kind))

    def device(self, id: str) -> Device:
        return self._one(Device, path_of("devices", id))

    def networks(self) -> list[Network]:
        return self._all(Network, "networks")

    def network(self, name: str) -> Network:
        return self._one(Network, path_of("networks", name))

    def put_network(
        self,
        network: NetworkLike,
        name: str = "",
        *,
        input_shape: Optional[InputShapeLike] = None,
    ) -> Network:
        """Registers an ONNX model or convolutions as CSV, a file or its contents,
        under `name`, or that of the file. A model that leaves sizes besides the
        batch open gets them from `input_shape`, such as (3, 224, 224), or of
        several inputs by their names."""
        contents, of_file = network_of(network)
        path = path_of("networks", name or of_file)
        registered = self._rest.put(path, contents, input_shape=shapes_of(input_shape))
        return decode(Network, registered, path)

    def steps(self) -> list[FrameworkStep]:
        return self._all(FrameworkStep, "steps")

    def step(self, name: str) -> FrameworkStep:
        return self._one(FrameworkStep, path_of("steps", name))

    def put_step(self, name: str, step: StepLike) -> FrameworkStep:
        """Stores the times or recordings of a framework's step under a name
        (docs/steps.md): a file, its contents, or a dictionary. The same content
        again changes nothing; other content replaces it."""
        path = path_of("steps", name)
        put = self._rest.put(path, contents_of(step), "application/json")
        return decode(FrameworkStep, put, path)

    def delete_step(self, name: str, reason: str = "") -> None:
        """Plans of it stay. Raises NoPlan if a running job needs it."""
        self._rest.delete(path_of("steps", name), reason=reason)

    def profiles(self) -> list[ProfileSummary]:
        """A summary of the measurements of each kind of device."""
        return self._all(ProfileSummary, "profiles")

    def profile(self, kind: str, network: str) -> Profile:
        """What is measured of a registered network's convolutions on a kind of
        device, as solve_wr and others take it. Measurements that no plan is made
        from any more, because no device online has their driver, are left out."""
        layers = self.network(network).layers
        known = {
            entry["problem"]: entry["measurements"]
            for entry in self._rest.get(path_of("profiles", kind))["problems"]
        }
        forms = {tuple(problem.rsplit("-", 2)[1:]): None for problem in known}
        return Profile(
            [
                _measurement(
                    row, problem, device=kind, network=network, layer=layer.name,
                    op=op, layout=layout,
                )
                for precision, layout in forms
                for layer in layers
                for op, problem in layer.problems(precision, layout)
                for row in known.get(problem, [])
                if not row.get("stale")
            ]
        )  # fmt: skip

    def plans(self) -> list[JobPlan]:
        """All plans, without their kernels."""
        return self._all(JobPlan, "plans")

    def plan(self, id: SupportsIndex) -> JobPlan:
        return self._one(JobPlan, path_of("plans", str(as_int(id))))

    def front(
        self, plan: SupportsIndex, layer: str, op: Operation, rank: SupportsIndex = 0
    ) -> Front:
        """The Pareto front of a planned kernel, from the measurements known now."""
        path = path_of("plans", str(as_int(plan)), "front")
        answer = self._rest.get(path, layer=layer, op=op, rank=as_int(rank))
        limit = max((p["workspace_bytes"] for p in answer["points"]), default=0)
        return Front.of(
            {"front": answer["points"]},
            {
                "layer": layer,
                "op": op,
                "batch": answer["batch"],
                "workspace_limit_bytes": limit,
            },
        )

    def make_plan(
        self,
        network: str = "",
        batch: SupportsIndex = 0,
        *,
        step: str = "",
        device_kinds: Sequence[str] = (),
        workspace_limit: Optional[Size] = None,
        total_workspace: Optional[Size] = None,
        concurrent: bool = False,
        memory: Optional[MemoryRequest] = None,
        batch_policy: BatchPolicy = "powerOfTwo",
        precision: Precision = "FP32",
        layout: Layout = "NCHW",
        exclude_ranks: Sequence[SupportsIndex] = (),
        max_error: float = 0.0,
        all_ranks: bool = False,
        memory_budgets: Sequence[Size] = (),
        measure: bool = True,
        timeout: Optional[float] = None,
    ) -> JobPlan:
        """The optimal plan for a registered network, with one of
        `workspace_limit` (of each kernel), `total_workspace` (of all) and
        `memory`. With `concurrent` the total is divided among the kernels that
        may run at once by the network's graph, which an ONNX model tells.
        `device_kinds` has the kind of each rank's device; without it, there is
        one rank, on the only kind of the cluster. `max_error` bounds the errors
        of algorithms, relative to the largest element of a result; 0: what
        rounding explains. The same request over the same measurements gives the
        same plan.

        `step` names a framework's step instead of a network (put_step); with
        `all_ranks` every rank gets images. `memory_budgets` is short for a
        `memory` with these alone: one for all ranks, or one for each.

        Has measured what is missing first, and waits for it up to `timeout`
        seconds (None: as long as it takes); raises NoPlan then, and goes on
        measuring. Without `measure`, NoPlan is raised if anything is missing.
        """
        if memory_budgets:
            if memory is not None:
                raise InvalidArgument(
                    "make_plan: memory and memory_budgets are given; one is accepted"
                )
            memory = _budgets([parse_size(size) for size in memory_budgets])
        request = PlanRequest(
            network=network,
            batch=as_int(batch),
            device_kinds=list(device_kinds),
            workspace_limit_bytes=_bytes(workspace_limit),
            total_workspace_bytes=_bytes(total_workspace),
            batch_policy=batch_policy,
            precision=precision,
            layout=layout,
            memory=memory,
            exclude_ranks=[as_int(rank) for rank in exclude_ranks],
            concurrent=concurrent,
            max_error=max_error,
            step=step,
            all_ranks=all_ranks,
        )
        if measure and not step:
            self._await_measurements(encode(request), timeout)
        path = path_of("plans")
        return decode(JobPlan, self._rest.post(path, encode(request)), path)

    def measurements(self, request: PlanRequest) -> Measurements:
        """The progress of the measurements that a plan needs; asks for none."""
        return self._measure({"plan": encode(request), "dry_run": True})

    def jobs(self, *, state: str = "") -> list[Job]:
        """All jobs, or those in a state, without their ranks and revisions."""
        return _in_state(state, self._all(Job, "jobs"))

    def job(self, id: str) -> Job:
        return self._one(Job, path_of("jobs", id))

    def job_rank(self, id: str, rank: SupportsIndex) -> JobRank:
        """One rank with its first and latest steps."""
        return self._one(JobRank, path_of("jobs", id, "ranks", str(as_int(rank))))

    def register_job(
        self,
        plan: Union[JobPlan, PlanRequest],
        *,
        ranks: Sequence[RankDevice] = (),
        name: str = "",
        auto_replan: bool = False,
    ) -> RunningJob:
        """Registers a job that follows a plan of this coordinator, or one that has
        no plan for the request, as its rank 0. `ranks` tells where each computes; by
        default only their kinds are known. With `auto_replan` the job is offered
        what the coordinator proposes by itself. The other ranks join_job() with its
        `key`, a secret. If the coordinator is away, the job is registered later.
        Raises NotAllowed, and InvalidArgument."""
        made = plan if isinstance(plan, JobPlan) else None
        request = plan.request if isinstance(plan, JobPlan) else plan
        places = ranks or [RankDevice(kind) for kind in request.device_kinds]
        key = secrets.token_hex(32)
        job = RunningJob(
            self._rest,
            key,
            0,
            {
                "job_id": job_id_of(key),
                "name": name or request.step or request.network,
                "request": encode(request),
                "plan_id": made.id if made else 0,
                "source": "coordinator" if made else "undivided",
                "reason": f"plan {made.id} of {self._rest!r}" if made else "",
                "ranks": [
                    {"rank": rank, **encode(place)} for rank, place in enumerate(places)
                ],
                "auto_replan": auto_replan,
            },
        )
        try:
            job.register()
        except (InvalidArgument, NotAllowed):
            raise
        except Error:
            pass  # later, with the first report
        return job

    def join_job(self, key: str, rank: SupportsIndex) -> RunningJob:
        """Another rank of the job that rank 0 registered."""
        return RunningJob(self._rest, key, as_int(rank))

    def _one(self, cls: type[_Object], path: str) -> _Object:
        return decode(cls, self._rest.get(path), path)

    def _all(self, cls: type[_Object], what: str, **parameters: str) -> list[_Object]:
        return [
            decode(cls, entry, what)
            for entry in self._rest.entries(path_of(what), **parameters)
        ]

    def _measure(self, request: dict[str, Any]) -> Measurements:
        path = path_of("measure")
        return decode(Measurements, self._rest.post(path, request), path)

    def _await_measurements(
        self, plan: dict[str, Any], timeout: Optional[float]
    ) -> None:
        end = None if timeout is None else time.monotonic() + timeout
        request = {"plan": plan, "retry_cancelled": True}
        while True:
            now = self._measure(request)
            polled = bool(request.get("dry_run"))
            if now.missing == 0 and not polled:
                return
            if now.cancelled:
                raise NoPlan(
                    f"{now.cancelled} of {now.total} measurements were cancelled "
                    f"{now.cancelled_why}; asking again asks for them again"
                )
            if end is not None and time.monotonic() >= end:
                raise NoPlan(
                    f"{now.missing} of {now.total} measurements have not ended "
                    f"within {timeout} s, and go on"
                    + _without_device(now.kinds_without_device)
                )
            # Once asked for, only poll, until more turns out to be needed.
            poll = now.missing > 0 and now.unasked == 0
            request = {"plan": plan, "dry_run": poll, "wait_for_device": True}
            if poll:
                time.sleep(_POLL_S)


def _in_state(state: str, entries: list[_Object]) -> list[_Object]:
    return [e for e in entries if state in ("", getattr(e, "state", ""))]


def _without_device(kinds: Sequence[str]) -> str:
    if not kinds:
        return ""
    return f"; no device online is of kind {', '.join(kinds)}"


def _budgets(sizes: list[int]) -> MemoryRequest:
    if len(sizes) == 1:
        return MemoryRequest(budget_bytes=sizes[0])
    return MemoryRequest(rank_budget_bytes=sizes)


def _bytes(size: Optional[Size]) -> int:
    return 0 if size is None else parse_size(size)


# The numbers of a point besides its time (base/measured_point.h).
_NUMBERS = (
    "spread_us", "repeats", "min_us", "p90_us", "enqueue_us", "outliers",
    "adding_us",
)  # fmt: skip


def _measurement(row: dict[str, Any], problem: str, **of_kernel: Any) -> Measurement:
    others = {name: str(row[name]) for name in _NUMBERS if row.get(name)}
    if row.get("error_ppt"):
        others["error"] = str(row["error_ppt"] / 1e12)
    point = ("precision", "batch", "algorithm", "math", "workspace_bytes", "time_us")
    return Measurement(
        **of_kernel,
        **{name: row[name] for name in point},
        others={"problem": problem, **others},
    )
