"""The solvers of libucudnn_solve.so."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, SupportsIndex, Union

from ucudnn.errors import InvalidArgument
from ucudnn.files import PathLike
from ucudnn.json_objects import decode
from ucudnn.library import ask_solver
from ucudnn.literals import BatchPolicy, Layout, Operation, Precision
from ucudnn.networks import InputShapeLike, NetworkLike, network_of, shapes_of
from ucudnn.plans import Allocation, Assignment, Front, WorkspacePlan
from ucudnn.profile_filter import KernelFilter, ProfileFilter, named
from ucudnn.profiles import (
    BuffersLike,
    Profile,
    Time,
    Times,
    csv_of,
    csv_of_buffers,
    opened_of,
)
from ucudnn.sizes import Size, parse_size

if TYPE_CHECKING:  # a part of Python's typing since 3.11
    from typing_extensions import Unpack

ProfileLike = Union[Profile, PathLike]
TimesLike = Union[Times, PathLike]


def solve_wr(
    profile: ProfileLike,
    batch: SupportsIndex,
    workspace_limit: Size,
    batch_policy: BatchPolicy = "all",
    **rows: Unpack[KernelFilter],
) -> WorkspacePlan:
    """WR: the fastest division of each kernel within its own workspace limit
    (Oyama et al., CLUSTER 2018, section III-B).

    `workspace_limit` is in bytes, or text such as "64MiB". `rows` are `device`,
    `network`, `layer`, `op`, `precision` and `layout` of the profile, required
    where it has several values, and `max_error`, the largest error of algorithms
    as far as the profile has errors; the plan's `notes` say where it has none.
    `batch_policy` chooses the
    sizes of micro-batches: "all", "powerOfTwo", "undivided" or "adaptive",
    which here uses every measured size. Takes O(batch * rows) time for each
    kernel. Raises NoPlan if nothing fits, InvalidArgument if the input is
    malformed.
    """
    request = _request(batch, workspace_limit, batch_policy, rows)
    return _planned("wr", profile, request)


def solve_wd(
    profile: ProfileLike,
    batch: SupportsIndex,
    workspace_limit: Size,
    batch_policy: BatchPolicy = "all",
    **rows: Unpack[KernelFilter],
) -> WorkspacePlan:
    """WD: the same within one limit for all kernels, each with its own segment
    of the workspace (section III-C). Arguments are as of solve_wr.
    """
    request = _request(batch, workspace_limit, batch_policy, rows)
    return _planned("wd", profile, request)


def solve_ws(
    profile: ProfileLike,
    model: NetworkLike,
    batch: SupportsIndex,
    workspace_limit: Size,
    batch_policy: BatchPolicy = "all",
    *,
    input_shape: Optional[InputShapeLike] = None,
    **rows: Unpack[KernelFilter],
) -> WorkspacePlan:
    """WS: the same within one limit for an arena in which kernels that never run
    at once share memory. Every kernel has an offset.

    `model` is an ONNX model, as a file or its contents as bytes; its branches
    say which kernels may run at once. Its layers are those of the profile, by
    name or, if all names differ, by order. Where the profile has several
    networks and none is given, the one named like the model's file is meant.
    `input_shape` is as of solve_memory.
    Other arguments are as of solve_wr. Raises InvalidArgument too if model and
    profile do not match.
    """
    contents, name = network_of(model)
    request = _request(batch, workspace_limit, batch_policy, rows)
    request.update(network_name=name, input_shapes=shapes_of(input_shape))
    return _planned("ws", profile, request, contents)


def pareto(
    profile: ProfileLike,
    batch: SupportsIndex,
    workspace_limit: Size,
    layer: str = "",
    op: Optional[Operation] = None,
    batch_policy: BatchPolicy = "all",
    **rows: Unpack[ProfileFilter],
) -> Front:
    """The Pareto front of one kernel, by increasing workspace: the divisions
    that no other beats in both time and workspace. Arguments are as of solve_wr.
    """
    request = _request(
        batch, workspace_limit, batch_policy, {**rows, "layer": layer, "op": op}
    )
    answer = opened_of(profile).ask("pareto", request=request)
    return Front.of(answer, request)


def iteration_times(
    profile: ProfileLike,
    batch: SupportsIndex,
    workspace_limit: Size,
    batch_policy: BatchPolicy = "all",
    **rows: Unpack[KernelFilter],
) -> dict[int, float]:
    """The time of all kernels together under solve_wr, in microseconds, for
    each batch up to `batch` that can be divided within the limit. Arguments are
    as of solve_wr.
    """
    request = _request(batch, workspace_limit, batch_policy, rows)
    answer = opened_of(profile).ask("times", request=request)
    return {point["batch"]: point["time_us"] for point in answer["times"]}


def _planned(
    problem: str, profile: ProfileLike, request: Mapping[str, Any], *inputs: bytes
) -> WorkspacePlan:
    answer = opened_of(profile).ask(problem, *inputs, request=request)
    return decode(WorkspacePlan, answer, "answer")


def _request(
    batch: SupportsIndex,
    workspace_limit: Size,
    batch_policy: str,
    rows: Mapping[str, Any],
) -> dict[str, Any]:
    return {
        "batch": batch,
        "workspace_limit_bytes": parse_size(workspace_limit),
        "batch_policy": batch_policy,
        **named(rows),
    }


def assign(times: TimesLike, batch: SupportsIndex, model: str = "") -> Assignment:
    """Divides a mini-batch among unlike GPUs so that the slowest takes the least
    time (section III-E). Raises NoPlan if no measured batches sum to `batch`."""
    request = {"batch": batch, "model": model}
    answer = ask_solver("assign", csv_of(times), request=request)
    return Assignment.from_json(answer)


def solve_allocation(
    buffers: BuffersLike, capacity: Optional[Size] = None, time_limit: float = 60.0
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
    minibatch: SupportsIndex,
    gpus: Sequence[str],
    *,
    times: Optional[TimesLike] = None,
    model: str = "",
    profile: Optional[ProfileLike] = None,
    workspace_limit: Size = "64MiB",
    batch_policy: BatchPolicy = "powerOfTwo",
    network: str = "",
    precision: Optional[Precision] = None,
    layout: Optional[Layout] = None,
    max_error: Optional[float] = None,
) -> list[int]:
    """Divides `minibatch` among `gpus` so that the slowest takes the least time.
    Returns the batch of each GPU; 0 for a GPU that is better left out.

    As in figure 7 of Oyama et al., CLUSTER 2018:

    >>> gpus = ["K80", "K80", "K20Xm"]
    >>> CNN(gpus=gpus, minibatch=ucudnn.best_batch_size(256, gpus)).run()

    `gpus` lists the device kind of each GPU. Their times come from `times` (of
    whole iterations of `model`, by column gpu), or from `profile` (of all its
    kernels, divided within `workspace_limit`, by column device); if neither is
    given, from the profile that the environment variable UCUDNN_PROFILE names.
    Other arguments are as of solve_wr.
    """
    if times is not None and profile is not None:
        raise InvalidArgument("give either times or a profile, not both")
    if times is not None:
        by_kind = _times_of_models(times, model)
        measured = list(by_kind)
    else:
        profile = profile or os.environ.get("UCUDNN_PROFILE")
        if not profile:
            raise InvalidArgument(
                "neither times nor a profile is given, and UCUDNN_PROFILE " "names none"
            )
        if not isinstance(profile, Profile):
            profile = Profile.read(profile)
        measured = profile.devices
        by_kind = {
            kind: list(
                iteration_times(
                    profile, minibatch, workspace_limit, batch_policy,
                    device=kind, network=network, precision=precision,
                    layout=layout, max_error=max_error,
                ).items()
            )
            for kind in dict.fromkeys(gpus)
            if kind in measured
        }  # fmt: skip
    for kind in gpus:
        if kind not in by_kind:
            raise InvalidArgument(
                f"nothing was measured on {kind!r}, but on "
                + (", ".join(repr(k) for k in measured) or "nothing")
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


def _times_of_models(
    times: TimesLike, model: str
) -> dict[str, list[tuple[int, float]]]:
    """Batches and times by kind of GPU."""
    table = times if isinstance(times, Times) else Times.read(times)
    if len({row.model for row in table.rows}) > 1 and not model:
        raise InvalidArgument("the times are of several models; model= chooses one")
    by_kind: dict[str, list[tuple[int, float]]] = {}
    for row in table.rows:
        if not model or row.model == model:
            # Keep repeated measurements; their median counts.
            by_kind.setdefault(row.gpu, []).append((row.batch, row.time_us))
    return by_kind
