"""A mini-batch shared among unlike GPUs of limited memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional, Sequence, SupportsIndex, Union

from ucudnn.json_objects import decode
from ucudnn.library import ask_solver
from ucudnn.memory import DeviceModelLike, MemoryOptions, device_model_of, request_of
from ucudnn.memory_plans import MemoryPlan
from ucudnn.networks import NetworkLike
from ucudnn.profiles import csv_of
from ucudnn.shown import Shown, Table
from ucudnn.sizes import Size, parse_size, size_text, time_text
from ucudnn.solve import ProfileLike

if TYPE_CHECKING:  # a part of Python's typing since 3.11
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Gpu:
    """A GPU: its device model as of solve_memory, its memory for an iteration
    (None: the device model's), and what was measured on it (None: estimates)."""

    device_model: DeviceModelLike
    budget: Optional[Size] = None
    profile: Optional[ProfileLike] = None
    name: str = ""  # "": the device model's


@dataclass(frozen=True)
class MemoryShare:
    """One GPU's part of a mini-batch; if `batch` is 0, the GPU is left out."""

    gpu: str
    budget_bytes: int
    batch: int
    weight: float  # of its gradient
    time_us: float
    binding: str  # what limits the batch: "slowest", "next_too_slow", ...
    why: str
    whole_batch: int  # the largest batch of which nothing has to leave
    plan: Optional[int] = None  # index into JointMemoryPlan.plans


@dataclass(frozen=True, repr=False)
class JointMemoryPlan(Shown):
    """Shares of a mini-batch so that the slowest GPU takes the least time, and a
    memory plan for each kind of GPU and batch."""

    batch: int
    makespan_us: float
    lower_bound_us: float  # the makespan, unless the time limit ended the search
    # With the best shares that fit without a memory plan; None if there are none.
    makespan_whole_us: Optional[float]
    gpus: list[MemoryShare]
    plans: list[MemoryPlan]
    # The time limit ended the search: another one may find faster shares, and
    # makespan_whole_us and whole_batch are not known.
    cut_off: bool = False
    # Of the measurements of each kind of GPU: "K40: accuracy not measured: ...".
    notes: list[str] = field(default_factory=list)

    @property
    def optimal(self) -> bool:
        return self.lower_bound_us == self.makespan_us

    def plan_of(self, gpu: int) -> Optional[MemoryPlan]:
        """The plan of a GPU, by its place in `gpus`; None if it is left out."""
        index = self.gpus[gpu].plan
        return None if index is None else self.plans[index]

    def _table(self) -> Table:
        return Table(
            f"JointMemoryPlan of batch {self.batch}: "
            f"{time_text(self.makespan_us)}, bound "
            f"{time_text(self.lower_bound_us)}",
            ("gpu", "budget", "batch", "time", "why"),
            [
                (
                    share.gpu,
                    size_text(share.budget_bytes),
                    share.batch,
                    time_text(share.time_us),
                    share.why,
                )
                for share in self.gpus
            ],
            self.notes,
        )


def solve_joint_memory(
    network: NetworkLike,
    batch: SupportsIndex,
    gpus: Sequence[Union[str, Gpu]],
    *,
    step: SupportsIndex = 1,
    **options: Unpack[MemoryOptions],
) -> JointMemoryPlan:
    """Divides `batch` images among `gpus`, each of which trains its share under a
    memory plan, so that the slowest takes the least time (docs/memory.md):

    >>> joint = ucudnn.solve_joint_memory("vgg16.csv", 64, ["K40=2GB", "K40=8GB"])
    >>> [share.batch for share in joint.gpus]
    [32, 32]

    A GPU is a Gpu, or text: the name of a device model, "K40", or that and its
    memory, "K40=4GB". Shares are multiples of `step` images. Everything else is
    as of solve_memory, for each GPU.

    Takes the time of a few plans and of a bound for each batch; with many images
    a larger `step` is faster. After `time_limit` seconds the best shares so far
    count. Raises NoPlan if no shares add up to the batch, and InvalidArgument if
    the input is malformed.
    """
    model, request = request_of(network, batch, options)
    request.update(gpus=[_request_of(gpu) for gpu in gpus], step=step)
    answer = ask_solver("joint_memory", model, request=request)
    return decode(JointMemoryPlan, answer, "answer")


def _request_of(gpu: Union[str, Gpu]) -> dict[str, Any]:
    if isinstance(gpu, str):
        device_model, _, budget = gpu.partition("=")
        gpu = Gpu(device_model, budget or None, name=gpu)
    request: dict[str, Any] = {"device_model": device_model_of(gpu.device_model)}
    if gpu.budget is not None:
        request["budget_bytes"] = parse_size(gpu.budget)
    if gpu.profile is not None:
        request["profile"] = csv_of(gpu.profile)
    if gpu.name:
        request["name"] = gpu.name
    return request
