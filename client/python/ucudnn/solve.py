"""The solvers of libucudnn_solve.so."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from ucudnn.errors import InvalidArgument
from ucudnn.library import ask_solver
from ucudnn.plans import Allocation, Assignment, FrontPoint, WorkspacePlan
from ucudnn.profiles import (
    BuffersLike,
    PathLike,
    Profile,
    Time,
    Times,
    csv_of,
    csv_of_buffers,
)
from ucudnn.sizes import Size, parse_size

ProfileLike = Union[Profile, PathLike]
TimesLike = Union[Times, PathLike]


def _request(
    batch: int, workspace_limit: Size, batch_policy: str, rows: Dict[str, str]
) -> Dict[str, Any]:
    return {
        "batch": batch,
        "workspace_limit_bytes": parse_size(workspace_limit),
        "batch_policy": batch_policy,
        **rows,
    }


def solve_wr(
    profile: ProfileLike,
    batch: int,
    workspace_limit: Size,
    batch_policy: str = "all",
    **rows: str,
) -> WorkspacePlan:
    """WR: the fastest division of each kernel within its own workspace limit
    (Oyama et al., CLUSTER 2018, section III-B).

    `workspace_limit` is in bytes, or text such as "64MiB". `rows` select rows
    of the profile: device, network, layer, op, precision, layout; required
    where the profile has several values. `batch_policy` chooses the sizes of
    micro-batches: "all", "powerOfTwo", "undivided" or "adaptive", which here
    uses every measured size. Takes O(batch * rows) time for each kernel. Raises
    NoPlan if nothing fits, InvalidArgument if the input is malformed.
    """
    request = _request(batch, workspace_limit, batch_policy, rows)
    answer = ask_solver("wr", csv_of(profile), request=request)
    return WorkspacePlan.from_json(answer)


def solve_wd(
    profile: ProfileLike,
    batch: int,
    workspace_limit: Size,
    batch_policy: str = "all",
    **rows: str,
) -> WorkspacePlan:
    """WD: the same within one limit for all kernels, each with its own segment
    of the workspace (section III-C).

    `rows` and `batch_policy` are as in solve_wr.
    """
    request = _request(batch, workspace_limit, batch_policy, rows)
    answer = ask_solver("wd", csv_of(profile), request=request)
    return WorkspacePlan.from_json(answer)


def pareto(
    profile: ProfileLike,
    batch: int,
    workspace_limit: Size,
    layer: str = "",
    op: str = "",
    batch_policy: str = "all",
    **rows: str,
) -> List[FrontPoint]:
    """The Pareto front of one kernel, by increasing workspace: the divisions
    that no other beats in both time and workspace.

    `rows` and `batch_policy` are as in solve_wr.
    """
    request = _request(
        batch, workspace_limit, batch_policy, {"layer": layer, "op": op, **rows}
    )
    answer = ask_solver("pareto", csv_of(profile), request=request)
    return [FrontPoint.from_json(point) for point in answer["front"]]


def iteration_times(
    profile: ProfileLike,
    batch: int,
    workspace_limit: Size,
    batch_policy: str = "all",
    **rows: str,
) -> Dict[int, float]:
    """The time of all kernels together under solve_wr, in microseconds, for
    each batch up to `batch` that can be divided within the limit.

    `rows` and `batch_policy` are as in solve_wr.
    """
    request = _request(batch, workspace_limit, batch_policy, rows)
    answer = ask_solver("times", csv_of(profile), request=request)
    return {point["batch"]: point["time_us"] for point in answer["times"]}


def assign(times: TimesLike, batch: int, model: str = "") -> Assignment:
    """Divides a mini-batch among unlike GPUs so that the slowest takes the least
    time (section III-E). Raises NoPlan if no measured batches sum to `batch`."""
    request = {"batch": batch, "model": model}
    answer = ask_solver("assign", csv_of(times), request=request)
    return Assignment.from_json(answer)


def solve_allocation(
    buffers: BuffersLike,
    capacity: Optional[Size] = None,
    time_limit: float = 60.0,
) -> Allocation:
    """Assigns offsets in the smallest pool to buffers of known lifetimes, so
    that no two buffers that are live at once overlap.

    `buffers` is a CSV file with the columns id, lower, upper and size (bytes),
    or Buffer objects. If `capacity` is given, any pool of at most this size will
    do, and NoPlan is raised if there is none. After `time_limit` seconds the
    best allocation so far is returned, with the proven bound.
    """
    request = {
        "time_limit_s": time_limit,
        "capacity_bytes": None if capacity is None else parse_size(capacity),
    }
    answer = ask_solver("allocation", csv_of_buffers(buffers), request=request)
    return Allocation.from_json(answer)


def best_batch_size(
    minibatch: int,
    gpus: Sequence[str],
    *,
    times: Optional[TimesLike] = None,
    profile: Optional[ProfileLike] = None,
    workspace_limit: Size = "64MiB",
    batch_policy: str = "powerOfTwo",
    **rows: str,
) -> List[int]:
    """Divides `minibatch` among `gpus` so that the slowest takes the least time.
    Returns the batch of each GPU; 0 for a GPU that is better left out.

    As in figure 7 of Oyama et al., CLUSTER 2018:

    >>> gpus = ["K80", "K80", "K20Xm"]
    >>> CNN(gpus=gpus, minibatch=ucudnn.best_batch_size(256, gpus)).run()

    `gpus` lists the device kind of each GPU. Their times come from `times` (of
    whole iterations, by column gpu), or from `profile` (of all its kernels,
    divided within `workspace_limit`, by column device); if neither is given,
    from the profile that the environment variable UCUDNN_PROFILE names. `rows`
    and `batch_policy` are as in solve_wr.
    """
    if times is not None and profile is not None:
        raise InvalidArgument("give either times or a profile, not both", 3)
    if times is None and profile is None:
        profile = os.environ.get("UCUDNN_PROFILE")
        if not profile:
            raise InvalidArgument(
                "neither times nor a profile is given, and UCUDNN_PROFILE "
                "names none",
                3,
            )
    by_kind: Dict[str, List[Tuple[int, float]]] = {}
    if times is not None:
        table = times if isinstance(times, Times) else Times.read(times)
        for row in table.rows:
            if row.model == rows.get("model", row.model):
                # Keep repeated measurements; their median counts.
                by_kind.setdefault(row.gpu, []).append((row.batch, row.time_us))
        if len({row.model for row in table.rows}) > 1 and "model" not in rows:
            raise InvalidArgument(
                "the times are of several models; model= chooses one", 3
            )
    else:
        assert profile is not None
        measured = (
            profile if isinstance(profile, Profile) else Profile.read(profile)
        )
        for kind in dict.fromkeys(gpus):
            if kind in measured.devices:
                by_batch = iteration_times(
                    measured.where(device=kind),
                    minibatch,
                    workspace_limit,
                    batch_policy,
                    **rows,
                )
                by_kind[kind] = list(by_batch.items())
    for kind in gpus:
        if kind not in by_kind:
            known = measured.devices if times is None else list(by_kind)
            raise InvalidArgument(
                f"nothing was measured on {kind!r}, but on "
                + (", ".join(repr(k) for k in known) or "nothing"),
                3,
            )
    # Number the GPUs, because several may have the same kind.
    every = Times(
        [
            Time(f"{i}", batch, time)
            for i, kind in enumerate(gpus)
            for batch, time in by_kind[kind]
        ]
    )
    return [share.batch for share in assign(every, minibatch).gpus]
