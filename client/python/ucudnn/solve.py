"""The solvers of libucudnn_solve.so."""

from __future__ import annotations

import json
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


def _solve(problem: str, table: str, request: Dict[str, Any]) -> Dict[str, Any]:
    asked = {name: value for name, value in request.items() if value != ""}
    answer: Dict[str, Any] = ask_solver(problem, table, json.dumps(asked))
    return answer


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
    """The fastest division of each kernel under a limit for each of them.

    `rows` says which rows of the profile are meant where it has several:
    device, network, layer, op, precision, layout. `batch_policy` says which
    sizes of micro-batches there may be: "all", "powerOfTwo", "undivided" or
    "adaptive", which chooses what to measure: of a profile it uses all that
    was measured. Raises NoPlan if nothing fits.
    """
    request = _request(batch, workspace_limit, batch_policy, rows)
    return WorkspacePlan.from_json(_solve("wr", csv_of(profile), request))


def solve_wd(
    profile: ProfileLike,
    batch: int,
    workspace_limit: Size,
    batch_policy: str = "all",
    **rows: str,
) -> WorkspacePlan:
    """The same under one limit for all kernels, each with its own segment.

    `rows` and `batch_policy` are as in solve_wr.
    """
    request = _request(batch, workspace_limit, batch_policy, rows)
    return WorkspacePlan.from_json(_solve("wd", csv_of(profile), request))


def pareto(
    profile: ProfileLike,
    batch: int,
    workspace_limit: Size,
    layer: str = "",
    op: str = "",
    batch_policy: str = "all",
    **rows: str,
) -> List[FrontPoint]:
    """One kernel's divisions that none beats in both time and workspace, by
    rising workspace.

    `rows` and `batch_policy` are as in solve_wr.
    """
    request = _request(
        batch, workspace_limit, batch_policy, {"layer": layer, "op": op, **rows}
    )
    answer = _solve("pareto", csv_of(profile), request)
    return [FrontPoint.from_json(point) for point in answer["front"]]


def iteration_times(
    profile: ProfileLike,
    batch: int,
    workspace_limit: Size,
    batch_policy: str = "all",
    **rows: str,
) -> Dict[int, float]:
    """How long all kernels take, divided as solve_wr does, for every batch up
    to `batch` that can be divided under the limit; microseconds by batch.

    `rows` and `batch_policy` are as in solve_wr.
    """
    request = _request(batch, workspace_limit, batch_policy, rows)
    answer = _solve("times", csv_of(profile), request)
    return {point["batch"]: point["time_us"] for point in answer["times"]}


def assign(times: TimesLike, batch: int, model: str = "") -> Assignment:
    """Shares a mini-batch among unlike GPUs so that the slowest of them is as
    fast as possible. Raises NoPlan if no batches sum to `batch`."""
    request = {"batch": batch, "model": model}
    return Assignment.from_json(_solve("assign", csv_of(times), request))


def solve_allocation(
    buffers: BuffersLike,
    capacity: Optional[Size] = None,
    time_limit: float = 60.0,
) -> Allocation:
    """Offsets for buffers of known lifetimes in one pool, the smallest there
    is, so that no two overlap that are live at once.

    `buffers` is a CSV file with the columns id, lower, upper and size, or
    Buffer objects. A pool within `capacity`, where that is given, is enough;
    NoPlan is raised if there is none. After `time_limit` seconds the best
    allocation so far is the answer, with the bound that was proven.
    """
    request: Dict[str, Any] = {"time_limit_s": time_limit}
    if capacity is not None:
        request["capacity_bytes"] = parse_size(capacity)
    answer = _solve("allocation", csv_of_buffers(buffers), request)
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
    """The batch of each of `gpus`, which sum to `minibatch`, such that the
    slowest of them is as fast as possible; 0 for a GPU that is better left
    out.

    As in figure 7 of Oyama et al., CLUSTER 2018:

    >>> gpus = ["K80", "K80", "K20Xm"]
    >>> CNN(gpus=gpus, minibatch=ucudnn.best_batch_size(256, gpus)).run()

    `gpus` are kinds, each as often as there are such GPUs. Their times come
    from `times` (of whole iterations, by its column gpu), or from `profile`
    (of all its kernels, divided under `workspace_limit`, by its column
    device); if neither is given, from the profile that the variable
    UCUDNN_PROFILE names. `rows` and `batch_policy` are as in solve_wr.
    """
    if times is not None and profile is not None:
        raise InvalidArgument("either times or a profile is to be given", 3)
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
                # Repeated measurements too: their median counts.
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
    # Each of several alike is a GPU of its own.
    every = Times(
        [
            Time(f"{i}", batch, time)
            for i, kind in enumerate(gpus)
            for batch, time in by_kind[kind]
        ]
    )
    return [share.batch for share in assign(every, minibatch).gpus]
