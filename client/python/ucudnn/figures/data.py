"""The committed measurements that the figures are made from."""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ucudnn.errors import NoPlan
from ucudnn.files import PathLike
from ucudnn.memory import solve_memory
from ucudnn.memory_plans import MemoryPlan
from ucudnn.plans import KernelPlan, WorkspacePlan
from ucudnn.profiles import Profile
from ucudnn.solve import solve_wd, solve_wr

MIB = 1 << 20
GB = 1_000_000_000
LIMITS_MIB = (8, 64, 512)  # of each kernel, in both papers
H200 = "NVIDIA H200, cuDNN 9.19, FP32, NCHW"


@functools.lru_cache(maxsize=None)
def profile(root: PathLike, name: str) -> Profile:
    """A file of tests/data/h200, without the algorithm that is too inaccurate for
    the drop-in handle: Winograd on the 5x5 filters of AlexNet's conv2 (ADR 9)."""
    measured = Profile.read(Path(root) / "tests/data/h200" / name)
    return Profile(
        [
            row
            for row in measured.rows
            if (row.network, row.layer, row.algorithm)
            != ("alexnet", "conv2", "WINOGRAD_NONFUSED")
        ]
    )


def result(root: PathLike, name: str) -> Any:
    """A gzipped JSON file of docs/results."""
    with gzip.open(Path(root) / "docs/results" / name) as file:
        return json.load(file)


def network(root: PathLike, name: str) -> Path:
    """A model of tests/data/onnx."""
    return Path(root) / "tests/data/onnx" / name


def memory_plan(
    root: PathLike, model: str, batch: int, device: str, policy: Any, **more: Any
) -> Optional[MemoryPlan]:
    """Of a model of tests/data/onnx, or a table of tests/data/networks; None if
    there is none within the budget."""
    path = network(root, model)
    if model.endswith(".csv"):
        path = Path(root) / "tests/data/networks" / model
    try:
        return solve_memory(path, batch, device, policy=policy, **more)
    except NoPlan:
        return None


def by_layer(plan: WorkspacePlan) -> Dict[str, float]:
    """The time (ms) of each layer's kernels together, in order."""
    times: Dict[str, float] = {}
    for kernel in plan.kernels:
        times[kernel.layer] = times.get(kernel.layer, 0) + kernel.time_us / 1000
    return times


def reuse_plans(
    measured: Profile, batch: int, limits_mib: Sequence[int] = LIMITS_MIB
) -> List[Tuple[int, WorkspacePlan, WorkspacePlan]]:
    """For each limit, WR undivided and in powers of two."""
    return [
        (
            limit,
            solve_wr(measured, batch, limit * MIB, "undivided", precision="FP32"),
            solve_wr(measured, batch, limit * MIB, "powerOfTwo", precision="FP32"),
        )
        for limit in limits_mib
    ]


def division_plan(
    measured: Profile, batch: int, total_mib: int
) -> WorkspacePlan:
    """WD in powers of two."""
    return solve_wd(
        measured, batch, total_mib * MIB, "powerOfTwo", precision="FP32"
    )


def short(kernel: KernelPlan) -> str:
    """ "conv2 BF", as the papers abbreviate."""
    ops = {"forward": "F", "backward_data": "BD", "backward_filter": "BF"}
    return f"{kernel.layer} {ops[kernel.op]}"
