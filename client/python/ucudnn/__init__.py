"""Exact plans for micro-batched convolutions, from measured profiles.

>>> import ucudnn
>>> profile = ucudnn.Profile.read("profile.csv")
>>> plan = ucudnn.solve_wr(profile, batch=256, workspace_limit="64MiB")
>>> plan.total_time_us, plan.optimal
(20512.3, True)
>>> ucudnn.best_batch_size(256, ["K80", "K80", "K20Xm"], times="times.csv")
[96, 96, 64]

The solvers are ctypes over the C functions of libucudnn_solve.so, found as
`ucudnn.library` says; `connect` calls a coordinator over REST. No compiler and
no other package is needed, except matplotlib for plots. Functions without state
may be called from any thread. Times are microseconds, sizes bytes; every size may
also be given as text such as "64MiB".
"""

from ucudnn.cluster import JobPlan, MemoryRequest, PlanRequest
from ucudnn.coordinator import Coordinator, connect
from ucudnn.errors import (
    Error,
    InvalidArgument,
    LibraryNotFound,
    NoPlan,
    NotAllowed,
    NotFound,
    Unreachable,
)
from ucudnn.joint_memory import Gpu, JointMemoryPlan, MemoryShare, solve_joint_memory
from ucudnn.memory import solve_memory
from ucudnn.memory_plans import (
    BlockLife,
    MemoryEvent,
    MemoryPlan,
    MemoryRange,
    MemoryRound,
    ResidentBlock,
    TaskPart,
)
from ucudnn.memory_plots import plot_arena, plot_memory
from ucudnn.plans import (
    Allocation,
    Assignment,
    Front,
    FrontPoint,
    KernelPlan,
    MicroBatch,
    Share,
    WorkspacePlan,
)
from ucudnn.plots import plot_pareto, plot_plan
from ucudnn.profiles import Buffer, Measurement, Profile, Time, Times
from ucudnn.recorded_steps import (
    RankStep,
    RecordedAction,
    RecordedPlan,
    StepShares,
    solve_recorded_step,
    solve_step_shares,
)
from ucudnn.running import Offer, RankDevice, RunningJob
from ucudnn.session import Session
from ucudnn.solve import (
    assign,
    best_batch_size,
    iteration_times,
    pareto,
    solve_allocation,
    solve_wd,
    solve_wr,
    solve_ws,
)

__version__ = "0.1.0"

__all__ = [
    "Allocation", "Assignment", "BlockLife", "Buffer", "Coordinator", "Error", "Front",
    "FrontPoint", "Gpu", "InvalidArgument", "JobPlan", "JointMemoryPlan", "KernelPlan",
    "LibraryNotFound", "Measurement", "MemoryEvent", "MemoryPlan", "MemoryRange",
    "MemoryRequest", "MemoryRound", "MemoryShare", "MicroBatch", "NoPlan", "NotAllowed",
    "NotFound", "Offer", "PlanRequest", "Profile", "RankDevice", "RankStep",
    "RecordedAction", "RecordedPlan", "ResidentBlock", "RunningJob", "Session", "Share",
    "StepShares", "TaskPart", "Time", "Times", "Unreachable", "WorkspacePlan", "assign",
    "best_batch_size", "connect", "iteration_times", "pareto", "plot_arena",
    "plot_memory", "plot_pareto", "plot_plan", "solve_allocation", "solve_joint_memory",
    "solve_memory", "solve_recorded_step", "solve_step_shares", "solve_wd", "solve_wr",
    "solve_ws",
]  # fmt: skip


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
