"""share(): each rank's part of a mini-batch."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

import torch

from ucudnn.files import PathLike
from ucudnn.profiles import Times
from ucudnn.running import RunningJob
from ucudnn.sizes import Size
from ucudnn.torch.checks import refuse, warn, whole_number
from ucudnn.torch.devices import Device, find_device
from ucudnn.torch.kept import stateful
from ucudnn.torch.parallel.budgets import Loss, PlannedSteps, budget_of, check_model
from ucudnn.torch.parallel.cache import StepCache
from ucudnn.torch.parallel.checks import refuse_shared_gpu, same_on_all_ranks
from ucudnn.torch.parallel.coordinator import PutStep
from ucudnn.torch.parallel.exchange import exchange_of
from ucudnn.torch.parallel.fingerprint import fingerprint
from ucudnn.torch.parallel.measuring import Measuring
from ucudnn.torch.parallel.planning import Coordinated, RankSteps, SharePlan
from ucudnn.torch.parallel.ranks import Ranks
from ucudnn.torch.parallel.registered import RegisteredSource, begin_job
from ucudnn.torch.parallel.shares import Shares
from ucudnn.torch.parallel.sources import SessionSource, TimesSource, worth_changing
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
    - `session`: a ucudnn.Session of the same ranks under MPI; then report() and
      refresh() are the coordinator's job.

    With `coordinator`, a URL such as "http://host:7461", the times are put under `name`
    there, and the shares are those of its plan (`shares.coordinated`), which the ranks
    follow as a job: refresh() adopts what the coordinator offers. What it has of the
    same step, by its fingerprint, is not measured again. Without an answer shares are
    planned here, after a warning.

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
    given = {"step": step, "model": model, "times": times, "session": session}
    sources = [key for key, value in given.items() if value is not None]

    def checked() -> Device:
        whole_number("share: batch", batch, 1)
        if micro_steps is not None:
            whole_number("share: micro_steps", micro_steps, 1)
        if len(sources) != 1:
            raise refuse(
                "share",
                f"given {' and '.join(sources) or 'no times'}",
                "one of step=, model=, times= and session= is accepted",
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
        if coordinator is not None and (session is not None or not name):
            raise refuse(
                "share: coordinator",
                "with session=" if session is not None else "without name=",
                "name= with step=, model= or times= is accepted",
            )
        if step is not None and not callable(step):
            raise refuse(
                "share: step", repr(step), "a function of a batch size is accepted"
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
            "coordinator": f"{coordinator!r}, {name!r}",
            "given": " and ".join(sources),
        }
    )
    for key in told[0]:
        same_on_all_ranks(f"share: {key}", [values[key] for values in told])
    if ranks.backend not in ("gloo", "mpi") and all(d.gpu for d in devices):
        refuse_shared_gpu([d.gpu for d in devices])

    if session is not None:
        return Shares(ranks, own, SessionSource(ranks, session, batch))

    # A rank's own numbers, such as its GPU's, do not matter.
    key = ranks.from_first(lambda: _key(step, model, loss, optimizer, budget, options))
    put = None if coordinator is None else PutStep(coordinator, name or "", key)
    cache = StepCache(cache_dir)
    compiled = None
    if step is not None:
        iterate = step
        measuring = Measuring(
            ranks,
            own,
            lambda batches: profile(
                iterate, batches, keep=keep, device=own.device, kind=own.kind
            ),
            # Other jobs may use the times.
            name=key if put or not name else name,
            cache=cache,
            idle=idle,
            micro_steps=micro_steps,
            known={} if put is None else ranks.from_first(put.known),
        )
        plan, steps = _measured(measuring, batch, batches), measuring.steps()
    elif model is not None and loss is not None:
        sizes = ranks.agree(lambda: budget_of(budget, own))
        # What is free differs between devices of a kind.
        known = [
            n for n, d in zip(sizes, devices) if d.kind == own.kind and n is not None
        ]
        planned: list[PlannedSteps] = []
        ranks.agree(
            lambda: planned.append(
                PlannedSteps(
                    model, loss, optimizer, keep, min(known, default=None), own,
                    batch - ranks.size + 1, options,
                )
            )
        )  # fmt: skip
        plan, steps = _planned(ranks, own, planned[0], batch, batches)
        compiled = planned[0].model
    else:
        plan, steps = ranks.from_first(
            lambda: _timed(devices, times or {}, batch, idle, micro_steps)
        )
    if times is None:
        modules = [model] if step is None else stateful(step, keep)
        exchange = exchange_of(
            ranks, (d.kind for d in devices), modules, own.device,
            len({*plan.batches}) > 1, cache, key,
        )  # fmt: skip
        plan = replace(plan, exchange=exchange)
    job = None
    if put is not None:
        plan, job = _coordinated(ranks, own, put, steps, plan)
    if put is None or job is None:
        source = TimesSource(ranks, plan, steps, drift_tolerance)
    else:
        source = RegisteredSource(
            ranks, job, plan, steps, put.put_drifted, drift_tolerance
        )
    return Shares(ranks, own, source, compiled)


def _coordinated(
    ranks: Ranks, own: Device, put: PutStep, steps: RankSteps, here: SharePlan
) -> tuple[SharePlan, Optional[RunningJob]]:
    """The shares of the coordinator's plan, and this rank's part of the job; those
    planned here, with the reason, where it has none."""
    made = ranks.from_first(lambda: put.plan(steps, here.batch))
    if isinstance(made, str):
        why = f"planned without the coordinator: {made}"
        if ranks.rank == 0:
            warn(f"share: {why}")
        return replace(here, reasons=[*here.reasons, why]), None
    plan = steps.given([rank.batch for rank in made.ranks])
    assert plan is not None  # put.plan() saw to that
    notes = here.reasons[len(here.ranks) :]  # what is said beside each rank's share
    plan = replace(
        plan,
        reasons=[f"plan {made.id} of {put.cluster!r}", *plan.reasons, *notes],
        exchange=here.exchange,
        coordinated=Coordinated(made.id, made.request),
    )
    return plan, begin_job(ranks, own, put.cluster, made)


def _key(
    step: Optional[Step],
    model: Optional[torch.nn.Module],
    loss: Optional[Loss],
    optimizer: Optional[torch.optim.Optimizer],
    budget: Any,
    options: Mapping[str, Any],
) -> str:
    """A fingerprint of what is measured; empty, if others measured it."""
    if step is not None:
        return fingerprint(step)
    if loss is None:
        return ""
    within = f"{budget!r} {sorted(options.items())!r}"
    return fingerprint(lambda: (loss, model, optimizer, within))


def _measured(
    measuring: Measuring, batch: int, batches: Optional[Sequence[int]]
) -> SharePlan:
    plan = measuring.plan(batch, batches)
    count = measuring.measured_here
    note = (
        f"{count} batches measured now"
        if count
        else "all times from the cache of earlier measurements"
    )
    return replace(plan, reasons=[*plan.reasons, note])


def _planned(
    ranks: Ranks,
    own: Device,
    planned: PlannedSteps,
    batch: int,
    batches: Optional[Sequence[int]],
) -> tuple[SharePlan, RankSteps]:
    measuring = Measuring(ranks, own, planned.profile, micro_steps=1)
    plan = measuring.plan(batch, batches)
    for _ in range(_TRIALS):
        mine = {b for b, kind in zip(plan.batches, measuring.kinds) if kind == own.kind}
        measuring.revise(lambda: [planned.tried(b) for b in mine][-1])
        tried = measuring.steps().given(plan.batches)
        plan = measuring.plan(batch)
        if tried is not None and not worth_changing(plan, tried):
            plan = tried
            break
    return plan, measuring.steps()


def _timed(
    devices: list[Device],
    times: TimesOfKinds,
    batch: int,
    idle: bool,
    micro_steps: Optional[int],
) -> tuple[SharePlan, RankSteps]:
    by_kind = _by_kind(times)
    told = []
    for rank, found in enumerate(devices):
        if found.kind not in by_kind:
            known = ", ".join(repr(k) for k in by_kind) or "none"
            raise refuse(
                "share: times",
                f"none of {found.kind!r}, rank {rank}'s kind",
                f"kind= is accepted, one of {known}",
            )
        told.append(StepProfile(found.kind, by_kind[found.kind]))
    steps = RankSteps(told, idle, micro_steps, least=1)
    return steps.plan(batch), steps


def _by_kind(times: TimesOfKinds) -> dict[str, dict[int, float]]:
    if isinstance(times, Mapping):
        return {kind: dict(of_kind) for kind, of_kind in times.items()}
    by_kind: dict[str, dict[int, float]] = {}
    rows = (times if isinstance(times, Times) else Times.read(times)).rows
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
