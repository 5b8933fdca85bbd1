"""share(): each rank's part of a mini-batch."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

import torch

from ucudnn.files import PathLike
from ucudnn.profiles import Times, csv_of
from ucudnn.sizes import Size
from ucudnn.torch.checks import refuse, whole_number
from ucudnn.torch.devices import Device, find_device
from ucudnn.torch.parallel.budgets import (
    Loss,
    PlannedSteps,
    budget_of,
    check_model,
)
from ucudnn.torch.parallel.cache import StepCache
from ucudnn.torch.parallel.checks import refuse_shared_gpu, same_on_all_ranks
from ucudnn.torch.parallel.coordinator import coordinators_plan, kind_of_gpu
from ucudnn.torch.parallel.fingerprint import fingerprint
from ucudnn.torch.parallel.measuring import Measuring
from ucudnn.torch.parallel.planning import (
    WORTH_CHANGING,
    StepTable,
    given_shares,
    plan_shares,
)
from ucudnn.torch.parallel.ranks import Ranks
from ucudnn.torch.parallel.shares import Shares
from ucudnn.torch.parallel.sources import (
    FixedSource,
    SessionSource,
    Source,
    TimesSource,
)
from ucudnn.torch.profiling import Step, StepProfile, profile

_TRIALS = 3  # of measuring the batches that ranks would get

TimesOfKinds = Union[Times, PathLike, Mapping[str, Mapping[int, float]]]


def share(
    batch: int,
    *,
    step: Optional[Step] = None,
    model: Optional[torch.nn.Module] = None,
    loss: Optional[Loss] = None,
    optimizer: Optional[torch.optim.Optimizer] = None,
    budget: Union[None, Size, Mapping[str, Size]] = None,
    options: Mapping[str, Any] = MappingProxyType({}),
    times: Optional[TimesOfKinds] = None,
    session: Optional[Any] = None,
    network: Optional[str] = None,
    coordinator: Optional[str] = None,
    kind: Optional[str] = None,
    device: Optional[Any] = None,
    group: Optional[Any] = None,
    idle: bool = False,
    micro_steps: Optional[int] = None,
    keep: Iterable[Any] = (),
    name: Optional[str] = None,
    batches: Optional[Sequence[int]] = None,
    cache_dir: Optional[PathLike] = None,
    drift_tolerance: float = 0.1,
) -> Shares:
    """Divides a mini-batch of `batch` images among the ranks of a process group,
    so that the slowest takes the least time. Collective.

    The times come from one of:

    - `step`: step(b) is one whole iteration on b images, on this rank alone: the
      bare model's passes and the optimizer's step. It is measured on one rank of
      each kind of device (see profile()) and cached, in
      $UCUDNN_CACHE_DIR/torch or as cache.py says; `cache_dir` names another
      folder, "" none. `name` names the step in the cache; by default a hash of
      its code, layers, shapes and PyTorch's settings. `keep` and `batches` are as
      in profile(); by default parts of the even share are measured, and the batches
      that the plan uses.
    - `model` and `loss`: loss(model, b) is the loss of b images, as many as the
      mini-batch. Each rank gets a batch and trains by ucudnn.torch.compile within its
      budget; `budget` is a size, one for each kind, {kind: size}, or None for what
      is free. The time of a batch is that of its plan, and is measured for the
      batches that ranks get. `shares.model` is the compiled model, for a
      DistributedDataParallel; `optimizer` counts with its memory and time, and
      `options` are those of compile. A rank never gets more images than its budget
      holds at once.
    - `times`: {kind: {batch: milliseconds}}, ucudnn.Times, or their CSV file, for
      the kinds of all ranks. Between two batches times are interpolated.
    - `network` and `coordinator`: a network's name and a coordinator's URL, such
      as "http://host:7461", whose measurements of convolutions are used.
    - `session`: a ucudnn.Session of the same ranks under MPI; then report() and
      refresh() are the coordinator's job.

    `device` is this rank's, by default the current GPU, else the CPU; `kind` tells
    kinds of devices apart where the model's name, multiprocessors, memory and
    versions do not. Every rank gets images; with `idle` some may get none, and
    then need shares.loader(). A share beyond a device's memory becomes
    several passes, at most `micro_steps`. Steps that change by more than
    `drift_tolerance` make refresh() plan again.

    All ranks raise the same error: InvalidArgument if arguments are malformed or
    differ between ranks, or if two ranks of NCCL have one GPU; NoPlan if no memory
    holds the mini-batch, naming the largest, or if a budget holds no image, with the
    least; what `step` or `loss` raises.
    """
    ranks = Ranks(group)
    given = {
        "step": step,
        "model": model,
        "times": times,
        "session": session,
        "network": network,
    }
    sources = [key for key, value in given.items() if value is not None]

    def checked() -> Device:
        whole_number("share: batch", batch, 1, "a whole number from 1 up")
        if micro_steps is not None:
            whole_number(
                "share: micro_steps", micro_steps, 1, "a whole number from 1 up"
            )
        if len(sources) != 1:
            raise refuse(
                "share",
                f"given {' and '.join(sources) or 'no times'}",
                "one of step=, model=, times=, session= and network= is accepted",
            )
        if model is not None:
            check_model(model, loss)
            if idle or micro_steps is not None:
                raise refuse(
                    "share: idle or micro_steps",
                    "given with model=, where each rank's images fit at once",
                    "neither is accepted",
                )
        elif budget is not None or loss is not None:
            raise refuse(
                "share: budget or loss",
                f"given with {sources[0]}=",
                "with model= both are accepted; or ucudnn.torch.compile(budget=)",
            )
        if (network is None) != (coordinator is None):
            raise refuse(
                "share",
                "network= or coordinator= alone",
                "both together are accepted",
            )
        if step is not None and not callable(step):
            raise refuse(
                "share: step",
                repr(step),
                "a function of a batch size is accepted",
            )
        return find_device(device, kind)

    devices = ranks.agree(checked)
    own = devices[ranks.rank]
    told = ranks.gather(
        {
            "batch": repr(batch),
            "idle": repr(idle),
            "micro_steps": repr(micro_steps),
            "budget": repr(budget),
            "given": " and ".join(sources),
        }
    )
    for key in told[0]:
        same_on_all_ranks(f"share: {key}", [values[key] for values in told])
    if ranks.backend not in ("gloo", "mpi") and all(d.gpu for d in devices):
        refuse_shared_gpu([d.gpu for d in devices])

    source: Source
    if step is not None:
        iterate = step
        measuring = Measuring(
            ranks,
            own,
            lambda batches: profile(
                iterate, batches, keep=keep, device=own.device, kind=own.kind
            ),
            # A rank's own numbers, such as its GPU's, do not matter.
            name=ranks.from_first(lambda: name or fingerprint(iterate)),
            cache=StepCache(cache_dir),
            micro_steps=micro_steps,
        )
        source = _measured(
            ranks, measuring, batch, idle, batches, drift_tolerance
        )
    elif model is not None and loss is not None:
        sizes = ranks.agree(lambda: budget_of(budget, own))
        # What is free differs between devices of a kind.
        known = [
            n for n, d in zip(sizes, devices) if d.kind == own.kind and n is not None
        ]
        planned: List[PlannedSteps] = []
        ranks.agree(
            lambda: planned.append(
                PlannedSteps(
                    model, loss, optimizer, keep, min(known, default=None), own,
                    batch - ranks.size + 1, options,
                )
            )
        )  # fmt: skip
        source = _planned(ranks, own, planned[0], batch, batches, drift_tolerance)
        return Shares(ranks, own, source, planned[0].model)
    elif times is not None:
        source = _timed(
            ranks, devices, times, batch, idle, micro_steps, drift_tolerance
        )
    elif session is not None:
        source = SessionSource(ranks, session, batch)
    else:
        source = _coordinated(
            ranks, own, str(network), str(coordinator), batch, kind
        )
    return Shares(ranks, own, source)


def _measured(
    ranks: Ranks,
    measuring: Measuring,
    batch: int,
    idle: bool,
    batches: Optional[Sequence[int]],
    tolerance: float,
) -> Source:
    plan = measuring.plan(batch, idle, batches)
    count = measuring.measured_here
    note = (
        f"{count} batches measured now"
        if count
        else "all times from the cache of earlier measurements"
    )
    plan = replace(plan, reasons=[*plan.reasons, note])
    return TimesSource(ranks, plan, measuring.tables(), idle, tolerance)


def _planned(
    ranks: Ranks,
    own: Device,
    steps: PlannedSteps,
    batch: int,
    batches: Optional[Sequence[int]],
    tolerance: float,
) -> Source:
    measuring = Measuring(ranks, own, steps.profile, micro_steps=1)
    plan = measuring.plan(batch, False, batches)
    for _ in range(_TRIALS):
        mine = [s.batch for s, k in zip(plan.ranks, measuring.kinds) if k == own.kind]
        measuring.revise(lambda: [steps.tried(b) for b in {*mine}][-1])
        tried = given_shares([s.batch for s in plan.ranks], measuring.tables())
        plan = measuring.plan(batch, False)
        now, then = tried.predicted_ms, plan.predicted_ms
        if now is not None and then is not None and then > WORTH_CHANGING * now:
            plan = tried
            break
    return TimesSource(ranks, plan, measuring.tables(), False, tolerance)


def _timed(
    ranks: Ranks,
    devices: List[Device],
    times: TimesOfKinds,
    batch: int,
    idle: bool,
    micro_steps: Optional[int],
    tolerance: float,
) -> Source:
    def read() -> List[StepTable]:
        by_kind = _by_kind(times)
        tables = []
        for rank, found in enumerate(devices):
            if found.kind not in by_kind:
                known = ", ".join(repr(k) for k in by_kind) or "none"
                raise refuse(
                    "share: times",
                    f"none of {found.kind!r}, rank {rank}'s kind",
                    f"kind= is accepted, one of {known}",
                )
            measured = StepProfile(found.kind, by_kind[found.kind])
            tables.append(StepTable(measured, micro_steps, least=1))
        return tables

    tables = ranks.from_first(read)
    plan = ranks.from_first(lambda: plan_shares(batch, tables, idle))
    return TimesSource(ranks, plan, tables, idle, tolerance)


def _by_kind(times: TimesOfKinds) -> Dict[str, Dict[int, float]]:
    if isinstance(times, Mapping):
        return {kind: dict(of_kind) for kind, of_kind in times.items()}
    by_kind: Dict[str, Dict[int, float]] = {}
    rows = (
        times.rows
        if isinstance(times, Times)
        else Times.from_csv(csv_of(times), str(times)).rows
    )
    models = {row.model for row in rows}
    if len(models) > 1:
        raise refuse(
            "share: times",
            f"of {len(models)} models",
            "the times of one model are accepted",
        )
    for row in rows:
        by_kind.setdefault(row.gpu, {})[row.batch] = row.time_us / 1000
    return by_kind


def _coordinated(
    ranks: Ranks,
    own: Device,
    network: str,
    url: str,
    batch: int,
    kind: Optional[str],
) -> Source:
    kinds = ranks.agree(lambda: kind or kind_of_gpu(url, own.gpu))
    plan = ranks.from_first(
        lambda: coordinators_plan(url, network, batch, kinds)
    )
    return FixedSource(plan)
