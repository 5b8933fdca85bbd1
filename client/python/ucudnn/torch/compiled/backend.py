"""ucudnn.torch.compile, and the Dynamo backend "ucudnn"."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Mapping, Optional, Sequence

import torch

from ucudnn.errors import InvalidArgument
from ucudnn.sizes import Size
from ucudnn.torch.checks import refuse
from ucudnn.torch.compiled import private
from ucudnn.torch.compiled.job import Job, Options, raises
from ucudnn.torch.compiled.plans import CompiledPlan
from ucudnn.torch.splitting.split import refuse_stochastic

_jobs: weakref.WeakKeyDictionary[Any, Job] = weakref.WeakKeyDictionary()
_by_options: dict[Any, Job] = {}


def compile(
    model: Optional[Any] = None,
    *,
    budget: Optional[Size] = None,
    workspace_limit: Optional[Size] = None,
    enforce_limit: bool = False,
    host_budget: Optional[Size] = None,
    allow: Optional[Sequence[str]] = None,
    quiet: bool = False,
    compiler: str = "inductor",
    mode: Optional[str] = None,
    options: Optional[Mapping[str, Any]] = None,
    dynamic: Optional[bool] = False,
    **keywords: Any,
) -> Any:
    """torch.compile of a module or function whose training step needs no more than
    `budget`.

    On a GPU `budget` bounds torch.cuda.max_memory_allocated of a whole step:
    parameters, gradients and the optimizer's state included. Without one it is what
    the GPU has free, less a margin. On the CPU it bounds the bytes that are saved
    between forward and backward pass; without one nothing is planned. `allow` names
    what plans may do with values: "recompute" them in the backward pass, which is all
    by default, or "offload" them to the host meanwhile, which `host_budget` bounds and
    allows, too.

    With a `workspace_limit` convolutions are planned within it, each, as
    ucudnn.torch.convert does; on a GPU whole steps are compared with PyTorch's
    convolutions, and the faster stay. With `enforce_limit` plans stay, also where
    PyTorch takes more workspace and less time.

    The rest is as torch.compile takes it, `mode="reduce-overhead"` for CUDA graphs
    among it: these are captured once a plan was measured without them, whose peak
    bounds them, too. `compiler` is "inductor", or "aot_eager",
    which plans but generates no code. `plan_of(model)` tells the plan, once the first
    step has run; the first steps on a GPU are measured, and planned again, until they
    are within the budget. A budget that is too small raises NoPlan in the first step,
    with the least as its `least`. If planning itself fails, that is one warning, and
    the model is compiled without a plan. Raises InvalidArgument.
    """
    if "backend" in keywords:
        raise refuse(
            "compile: backend", repr(keywords["backend"]),
            "ucudnn's own; `compiler` may be given",
        )  # fmt: skip
    ours = Options(
        budget, workspace_limit, enforce_limit, host_budget, allow, quiet, compiler
    )
    if model is None:
        return lambda one: compile(
            one, mode=mode, options=options, dynamic=dynamic, **ours._asdict(),
            **keywords,
        )  # fmt: skip
    refuse_stochastic("compile", model)
    job = Job(ours, _inductor_options(compiler, mode, options))
    compiled = torch.compile(model, backend=job.backend, dynamic=dynamic, **keywords)
    _jobs[compiled] = job
    if isinstance(model, torch.nn.Module):
        _jobs[model] = job
    return compiled


def split_options(
    given: Mapping[str, Any], mode: Optional[str], inductor: Optional[Mapping[str, Any]]
) -> tuple[Options, dict[str, Any]]:
    """Ours among what is given, and Inductor's."""
    ours = Options(**{name: given[name] for name in Options._fields if name in given})
    return ours, _inductor_options(ours.compiler, mode, inductor)


def _inductor_options(
    compiler: str, mode: Optional[str], options: Optional[Mapping[str, Any]]
) -> dict[str, Any]:
    if compiler != "inductor":
        for name, value in (("mode", mode), ("options", options)):
            if value and value != "default":
                raise refuse(
                    f"compile: {name}", repr(value),
                    f"with compiler {compiler!r}, none is accepted",
                )  # fmt: skip
        return {}
    try:
        return private.inductor_options(mode, options or {})
    except RuntimeError as error:
        told = str(error).partition(", known options")[0]
        raise InvalidArgument(
            f"compile: mode or options: {told}; Inductor's are accepted, and by the "
            f"backend's name {', '.join(Options._fields)}"
        ) from error


def backend(
    module: Any,
    inputs: Sequence[Any],
    *,
    mode: Optional[str] = None,
    options: Optional[Mapping[str, Any]] = None,
) -> Callable[..., Any]:
    """torch.compile(model, backend="ucudnn", options={"budget": "16GiB"}). Options
    are those of ucudnn.torch.compile; others are Inductor's."""
    given = dict(options or {})
    key = (mode, *sorted(map(str, given.items())))
    if key not in _by_options:
        others = {n: v for n, v in given.items() if n not in Options._fields}
        try:
            _by_options[key] = Job(*split_options(given, mode, others))
        except InvalidArgument as error:
            return raises(error)
    return _by_options[key].backend(module, inputs)


def plan_of(model: Optional[Any] = None) -> CompiledPlan:
    """The plan of the last shapes and mode that a compiled model was planned for.
    Models that were compiled by the backend's name alone share a plan for each set
    of options: they are not told apart, and any model, or none, names the last."""
    job, one, is_compiled = None, model, model is None
    while job is None and one is not None:
        is_compiled |= private.is_compiled(one)
        copied = getattr(private.backend_of(one), "__self__", None)
        job = copied if isinstance(copied, Job) else _jobs.get(one)
        inner = getattr(one, "module", None)
        one = inner if inner is not None else getattr(one, "_orig_mod", None)
    if job is None and is_compiled:
        named = reversed(list(_by_options.values()))
        job = max(named, key=lambda one: one.choice is not None, default=None)
    if job is None:
        name = type(model).__name__
        raise refuse("plan_of", repr(name), "a compiled model is accepted")
    if job.choice is None:
        raise refuse(
            "plan_of", "a model without a plan",
            "one with a budget, after its first training step, is accepted",
        )  # fmt: skip
    return job.told()
