"""What a coordinator knows, as plain objects. Times are in microseconds, sizes
in bytes, points in time Unix milliseconds; lists of coordinators leave some
fields out, which then have their defaults."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Iterator, Optional

from ucudnn.errors import InvalidArgument
from ucudnn.files import PathLike, read_json
from ucudnn.json_objects import decode
from ucudnn.plans import WorkspacePlan, optional_time
from ucudnn.problems import problem_text
from ucudnn.shown import PREDICTED, Shown, Table
from ucudnn.sizes import size_text, time_text


@dataclass(frozen=True)
class Measuring:
    """The tasks that a device has leased."""

    problem: str
    batch: int
    tasks: int
    layer: str = ""


@dataclass(frozen=True)
class Device:
    """A GPU, a slice of one, or a CPU."""

    id: str
    agent_id: str
    kind: str
    driver: str
    state: str  # "idle", "busy", "cordoned", "draining" or "lost"
    state_reason: str
    last_seen_ms: int
    measuring: Optional[Measuring] = None


@dataclass(frozen=True)
class Agent:
    """A node's agent."""

    id: str
    host: str
    version: str
    state: str  # "online", "cordoned", "draining" or "gone"
    registered_ms: int
    last_seen_ms: int
    device_ids: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Layer:
    """One convolution; lists hold height and width, or depth, height, width."""

    name: str
    channels: int
    filters: int
    groups: int
    input: list[int]
    filter: list[int]
    padding: list[int]
    stride: list[int]
    dilation: list[int]
    transposed: bool = False
    needs_input_gradient: bool = True
    images: int = 1  # convolved for one image of the batch

    def problems(self, precision: str, layout: str) -> Iterator[tuple[str, str]]:
        """Each operation with its problem's text, the key of measurements."""
        adjoint = {"forward": "backward_data", "backward_data": "forward"}
        for op in ("forward", "backward_data", "backward_filter"):
            if op == "backward_data" and not self.needs_input_gradient:
                continue
            computed = adjoint.get(op, op) if self.transposed else op
            yield op, problem_text(
                computed, self.channels, self.input, self.filters, self.filter,
                self.padding, self.stride, self.dilation, self.groups, precision,
                layout, self.images,
            )  # fmt: skip


@dataclass(frozen=True, repr=False)
class Network(Shown):
    """A registered network."""

    name: str
    revision: int
    format: str  # "csv" or "onnx"
    updated_ms: int
    layers: list[Layer] = field(default_factory=list)

    def _table(self) -> Table:
        return Table(
            f"Network {self.name}, revision {self.revision}: "
            f"{len(self.layers)} convolutions",
            ("layer", "input", "filters", "extent", "stride"),
            [
                (
                    layer.name,
                    "x".join(map(str, [layer.channels, *layer.input])),
                    layer.filters,
                    "x".join(map(str, layer.filter)),
                    "x".join(map(str, layer.stride)),
                )
                for layer in self.layers
            ],
        )


@dataclass(frozen=True)
class ProfileSummary:
    """What is measured of one kind of device."""

    id: str  # the kind
    problems: int
    points: int
    last_measured_ms: int
    stale_points: int = 0  # under drivers that no device online has
    drivers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class MemoryRequest:
    """Whole iterations within device memory instead of workspaces."""

    budget_bytes: int = 0  # of each rank; 0: the device model's memory
    policy: str = "best"
    recompute: bool = False
    offload_weights: bool = False
    rank_budget_bytes: list[int] = field(default_factory=list)  # instead
    momentum: bool = False

    def budget_text(self) -> str:
        """For people."""
        budgets = self.rank_budget_bytes or [self.budget_bytes]
        return ", ".join(map(size_text, budgets))


@dataclass(frozen=True)
class PlanRequest:
    """What a plan is asked for."""

    network: str
    batch: int  # over all ranks
    device_kinds: list[str] = field(default_factory=list)  # in rank order
    workspace_limit_bytes: int = 0  # of each kernel
    total_workspace_bytes: int = 0  # of all kernels together
    batch_policy: str = "powerOfTwo"
    precision: str = "FP32"
    layout: str = "NCHW"
    memory: Optional[MemoryRequest] = None
    exclude_ranks: list[int] = field(default_factory=list)
    concurrent: bool = False  # the total is divided among what may run at once
    max_error: float = 0.0  # of algorithms; 0: as accurate as rounding explains
    step: str = ""  # instead of a network: a framework's step (docs/steps.md)
    all_ranks: bool = False  # of a step: all get images that are not excluded

    def limit_text(self) -> str:
        """For people."""
        if self.memory is not None:
            return f"{self.memory.budget_text()} of device memory"
        if self.step:
            return "whole steps"
        if self.total_workspace_bytes:
            return f"{size_text(self.total_workspace_bytes)} for all kernels"
        return f"{size_text(self.workspace_limit_bytes)} for each kernel"


@dataclass(frozen=True)
class RankMemory:
    """What a rank needs on its device under its memory plan."""

    budget_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class RankPlan:
    """One rank's part; without a batch it has none."""

    rank: int
    device_kind: str
    batch: int
    weight: float  # of its gradient
    reason: str = ""
    workspace: Optional[WorkspacePlan] = None
    workspace_of_rank: Optional[int] = None  # the rank that it is shared with
    memory: Optional[RankMemory] = None


@dataclass(frozen=True)
class DeviceMemoryPlan:
    """The memory plan of all ranks with this kind, batch and budget, as JSON that
    MemoryPlan.from_json reads."""

    device_kind: str
    batch: int
    plan: dict[str, Any]
    budget_bytes: int = 0


@dataclass(frozen=True, repr=False)
class JobPlan(Shown):
    """A plan for a job, as coordinators make them and `ucudnn plan --save` writes
    them."""

    id: int
    request: PlanRequest
    # The slowest rank's; see whole_steps.
    predicted_us: float
    lower_bound_us: float
    optimal: bool
    undivided_us: Optional[float]
    revision: int = 0
    network_revision: int = 0
    ranks: list[RankPlan] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    created_ms: int = 0
    memory_plans: list[DeviceMemoryPlan] = field(default_factory=list)
    under_load_us: Optional[float] = None  # if the devices slow down then
    # A time limit ended a search: an equal request searches again.
    cut_off: bool = False
    # Whether times are of whole steps, not of convolutions alone.
    whole_steps: bool = False

    def __post_init__(self) -> None:
        for place, rank in enumerate(self.ranks):
            of = rank.workspace_of_rank
            if of is None:
                continue
            if not 0 <= of < place:
                raise InvalidArgument(
                    f"ranks[{place}].workspace_of_rank is {of}; an earlier rank "
                    "is accepted"
                )
            self.ranks[place] = replace(rank, workspace=self.ranks[of].workspace)

    @classmethod
    def read(cls, path: PathLike) -> JobPlan:
        """Reads what `ucudnn plan --save` wrote. Raises InvalidArgument."""
        return decode(cls, read_json(path), str(path))

    def _table(self) -> Table:
        return Table(
            f"JobPlan {self.id}: {self.request.step or self.request.network}, batch "
            f"{self.request.batch}, {self.request.limit_text()}: "
            f"{'' if self.whole_steps else PREDICTED + ' '}"
            f"{time_text(self.predicted_us)}, undivided "
            f"{optional_time(self.undivided_us)}",
            ("rank", "device kind", "batch", "weight", "time", "why"),
            [
                (
                    rank.rank,
                    rank.device_kind,
                    rank.batch,
                    f"{rank.weight:.4f}",
                    time_text(rank.workspace.total_time_us) if rank.workspace else "-",
                    rank.reason,
                )
                for rank in self.ranks
            ],
        )


@dataclass(frozen=True)
class StepTimes:
    """How long a rank's steps took under one revision; of the last `samples`."""

    revision: int
    count: int
    samples: int
    last_us: float
    median_us: float
    p90_us: float
    predicted_us: float  # of a step's convolutions; 0: unknown
    first_median_us: float  # 0: too few steps yet
    first_us: list[float] = field(default_factory=list)
    latest_us: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class JobRank:
    """One rank of a job."""

    rank: int
    device_id: str
    device_kind: str
    host: str
    last_seen_ms: int
    steps: list[StepTimes] = field(default_factory=list)


@dataclass(frozen=True)
class JobRevision:
    """One of a job's plans."""

    revision: int
    plan_id: int  # 0: not made by this coordinator
    reason: str
    created_ms: int
    adopted_ms: int  # 0: not yet
    rejected: str
    predicted_us: float = 0


@dataclass(frozen=True)
class IdleDevices:
    """Idle devices on a job's nodes; it can take them when it is started again."""

    device_kind: str
    count: int
    predicted_now_us: float  # of its convolutions, as it runs
    predicted_us: float  # with these devices too


@dataclass(frozen=True, repr=False)
class Job(Shown):
    """A training job, as its ranks report it."""

    id: str
    name: str
    plan_id: int  # 0: not made by this coordinator
    revision: int
    state: str  # "running", "finished" or "lost"
    created_ms: int
    updated_ms: int
    request: Optional[PlanRequest] = None
    source: str = ""
    reason: str = ""
    newest_revision: int = 0
    revisions: list[JobRevision] = field(default_factory=list)
    ranks: list[JobRank] = field(default_factory=list)
    drift: list[str] = field(default_factory=list)
    idle_devices: list[IdleDevices] = field(default_factory=list)

    def _table(self) -> Table:
        rows = [
            (
                rank.rank,
                rank.device_kind,
                rank.host,
                steps.revision,
                steps.count,
                time_text(steps.median_us),
                time_text(steps.p90_us),
            )
            for rank in self.ranks
            for steps in rank.steps
        ]
        return Table(
            f"Job {self.name or self.id}: {self.state}, revision {self.revision}"
            + "".join(f"; {change}" for change in self.drift),
            ("rank", "device kind", "host", "revision", "steps", "median", "p90"),
            rows,
        )


@dataclass(frozen=True)
class Measurements:
    """The progress of measurements that a plan needs."""

    total: int
    done: int
    running: int
    failed: int
    unasked: int
    cancelled: int = 0
    cancelled_why: str = ""
    failures: list[str] = field(default_factory=list)
    kinds_without_device: list[str] = field(default_factory=list)
    campaign_id: int = 0
    estimate_ms: Optional[int] = None

    @property
    def missing(self) -> int:
        return self.total - self.done - self.failed


@dataclass(frozen=True)
class Status:
    """A coordinator, and how much it knows."""

    version: str
    database: str
    schema_version: int
    agents_online: int
    devices_online: int
    networks: int
    tasks_pending: int
    tasks_running: int
    tasks_done: int
    tasks_failed: int
    tasks_cancelled: int = 0
