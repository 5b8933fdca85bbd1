"""The Dynamo backend "ucudnn", and what compiles, watches and plans the graphs that
one call of ucudnn.torch.compile gets from Dynamo."""

from __future__ import annotations

import logging
import re
import time
import weakref
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

import torch

from ucudnn.errors import InvalidArgument, NoPlan
from ucudnn.sizes import Size, parse_size, size_text, time_text
from ucudnn.torch.checks import refuse
from ucudnn.torch.compiled import private
from ucudnn.torch.compiled.costs import Costs
from ucudnn.torch.compiled.describing import Description, described
from ucudnn.torch.compiled.memory import Watch, free_budget, surroundings
from ucudnn.torch.compiled.planning import Choice, Layout, Part, planned
from ucudnn.torch.compiled.applying import applied
from ucudnn.torch.compiled.plans import CompiledPlan, PlannedValue

_log = logging.getLogger("ucudnn.torch.compile")

_COMPILERS = ("inductor", "aot_eager")
# A plan is made again after the measured peak was above the budget, or so far below it
# that a new one may gain more than this part of a step, at most so many times.
_GAIN = 0.01
_MOST_PLANS = 4
# Steps that are watched at most, if others than the planned one come between.
_MOST_STEPS = 20


class Tried(NamedTuple):
    """A plan under which a step was measured."""

    us: float
    choice: Choice


class Graph:
    """One of Dynamo's graphs for arguments of one size."""

    def __init__(self, job: Job, module: Any) -> None:
        self.job = job
        self.module = module  # as Dynamo made it
        self.run: Optional[Callable[..., Any]] = None
        self.described: Optional[Description] = None
        self.layout: Optional[Layout] = None  # by the plan
        self.compiled_for: Optional[Layout] = None
        self.calls = 1  # in a step
        self.saved: List[str] = []  # names of nodes
        self.inputs: Sequence[Any] = ()  # while it is compiled
        self.planned = True  # unless that failed

    def __call__(self, *arguments: Any) -> Any:
        if self.job.watching or self.job.looked_at:
            return self.job.call(self, arguments)
        assert self.run is not None
        return self.run(*arguments)

    def compile(self, inputs: Sequence[Any]) -> None:
        """By the plan; the first time it is made meanwhile. `inputs` are fake or real
        tensors."""
        self.inputs = inputs
        try:
            self._compile()
        except (NoPlan, InvalidArgument):
            raise
        except Exception as error:
            if self.layout is None:
                raise
            self.job.warn(error)
            self.planned, self.described = False, None
            self._compile()
        self.inputs = ()
        self.compiled_for = self.layout

    def _compile(self) -> None:
        begun = time.monotonic()
        self.run = private.compile_graph(
            private.copied(self.module), self.inputs, self, self.job.compiler,
            self.job.options,
        )  # fmt: skip
        _log.debug("compiled in %.1f s", time.monotonic() - begun)

    def choose(self, graph: Any, saved: List[Any], outputs: List[Any]) -> List[Any]:
        if not self.planned:
            return saved
        first = self.described is None
        told = self.job.describe(graph, saved, outputs, self.inputs, first)
        if told is None:
            return saved
        self.described = told
        if first:
            self.job.plan(self)
        return applied(graph, told, self.layout)

    def split(self, saved: List[str]) -> None:
        self.saved = saved


class Dispatcher:
    """What Dynamo calls: a graph for each size of its arguments."""

    def __init__(self, job: Job, module: Any) -> None:
        self.job = job
        self.module = module
        self.graphs: Dict[Any, Tuple[Graph, List[int]]] = {}

    def __call__(self, *arguments: Any) -> Any:
        key = private.size_key(self.module, arguments)
        if key not in self.graphs:
            module, kept = private.specialized(self.module, arguments)
            graph = Graph(self.job, module)
            self.job.compile(graph, private.faked([arguments[i] for i in kept]))
            self.graphs[key] = graph, kept
        graph, kept = self.graphs[key]
        return graph(*(arguments[i] for i in kept))


class Job:
    """The graphs of one model or function, and their plan."""

    def __init__(
        self,
        budget: Optional[Size],
        compiler: str,
        quiet: bool,
        options: Mapping[str, Any],
    ) -> None:
        if compiler not in _COMPILERS:
            known = " and ".join(map(repr, _COMPILERS))
            raise refuse("compile: compiler", repr(compiler), f"{known} are accepted")
        private.warn_untried()
        self.budget = None if budget is None else parse_size(budget)
        self.compiler = compiler
        self.quiet = quiet
        self.options = dict(options)
        self.watching = True  # the step is not yet known, or its plan not yet settled
        self.looked_at: Set[int] = set()  # storages of arguments, while check() runs
        self.choice: Optional[Choice] = None
        self.bound_by: Optional[int] = None  # the budget, or what is free
        self._watch: Optional[Watch] = None
        self._costs: Optional[Costs] = None
        self._planned: List[Graph] = []  # in the order of their forward passes
        self._device = torch.device("cpu")
        self.measured: Optional[int] = None  # peak of the last step that was measured
        # As the last measured step had it: what the graphs took of what was predicted,
        # and what the rest of the step took.
        self._scale, self._rest_us = 1.0, 0.0
        self._tried: List[Tried] = []
        self._warned = False
        self._plans = 0
        self._steps = 0  # since something new was compiled

    def backend(self, module: Any, inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        """What torch.compile calls with each graph. Errors of planning are raised by
        the graph's first call, because Dynamo would wrap or swallow them here."""
        module = private.copied(module)
        if any(map(private.symbolic, inputs)):
            return Dispatcher(self, module)
        graph = Graph(self, module)
        try:
            self.compile(graph, inputs)
        except (NoPlan, InvalidArgument) as error:
            return _raises(error)
        return graph

    def compile(self, graph: Graph, inputs: Sequence[Any]) -> None:
        self.watching, self._steps, self._plans = True, 0, 0
        graph.compile(inputs)

    def describe(
        self,
        graph: Any,
        saved: List[Any],
        outputs: List[Any],
        inputs: Sequence[Any],
        first: bool,
    ) -> Optional[Description]:
        """None: there is nothing to plan, or planning failed."""
        device = _device(inputs)
        if self.budget is None and device.type != "cuda":
            return None
        try:
            if self._costs is None or self._costs.device != device:
                self._costs = Costs(device)
            if self._watch is None:
                self._watch = Watch(device)
            if first:
                with private.outside():
                    self._watch.expect(surroundings(inputs, device))
            begun = time.monotonic()
            told = described(graph, saved, outputs, self._costs)
            self._costs.save()
            _log.debug("described in %.1f s", time.monotonic() - begun)
            return told
        except Exception as error:
            self.warn(error)
            return None

    def plan(self, new: Optional[Graph] = None) -> None:
        """The graphs of the step so far and a new one, or those planned before."""
        assert self._watch is not None
        order = self._planned if new is None else [*self._watch.order, new]
        graphs = [g for g in order if g.described is not None]
        parts = [Part(g.described, g.calls) for g in graphs if g.described is not None]
        self._device = parts[0].described.device
        budget = free_budget(self._device) if self.budget is None else self.budget
        begun = time.monotonic()
        try:
            choice = planned(parts, self._watch.around, budget)
        except NoPlan:
            raise
        except Exception as error:
            self.warn(error)
            return
        self._plans += 1
        _log.debug("planned in %.1f s", time.monotonic() - begun)
        same = new is None and [g.layout for g in graphs] == choice.layouts
        self._planned, self.bound_by = graphs, budget
        if new is not None:
            self._tried = []
        self._adopt(choice)
        if not (same or self.quiet):
            _log.info("%s", self.told())

    def told(self) -> CompiledPlan:
        """The plan, for people."""
        choice, graphs = self.choice, self._planned
        assert choice is not None
        kept: List[PlannedValue] = []
        again: List[PlannedValue] = []
        saved = plain = 0
        for graph, layout in zip(graphs, choice.layouts):
            told = graph.described
            if told is None:
                continue
            numbers = {number for number, _ in layout.again} if layout else set()
            for number, value in enumerate(told.values):
                one = PlannedValue(*_named(value.node), value.bytes * graph.calls)
                (again if number in numbers else kept).append(one)
            saved += told.saved_bytes(graph.saved) * graph.calls
            plain += told.saved_bytes(n.name for n in told.plain) * graph.calls
        return CompiledPlan(
            self.bound_by, kept, again, saved, plain, choice.predicted.peak,
            choice.plain.peak, self._ms(choice.predicted.us), self._ms(choice.plain.us),
            self._ms(choice.bound_us), len(graphs), self._device, choice.cut_off,
            self.measured, self.looked_at,
        )  # fmt: skip

    def _ms(self, graphs_us: float) -> float:
        return (graphs_us * self._scale + self._rest_us) / 1e3

    def call(self, graph: Graph, arguments: Sequence[Any]) -> Any:
        """A graph's call in a step that is watched."""
        if self.looked_at:
            self.looked_at.update(
                one.untyped_storage().data_ptr()
                for one in arguments
                if isinstance(one, torch.Tensor)
            )
        watch = self._watch
        if not self.watching or watch is None or graph.described is None:
            assert graph.run is not None
            return graph.run(*arguments)
        if watch.between_steps():
            self._step_done(watch)
        if graph.compiled_for != graph.layout:
            graph.compile(private.faked(arguments))
            watch.compiled()
        return watch.forward(graph, arguments)

    def _step_done(self, watch: Watch) -> None:
        """Plans again where the step was not as expected, and no longer watches it
        where it was."""
        seen = watch.step_done(self._planned, self.choice)
        self._steps += 1
        self.watching = self._steps < _MOST_STEPS
        calls = [watch.calls.get(g, g.calls) for g in self._planned]
        if seen is not None and calls != [g.calls for g in self._planned]:
            for graph, count in zip(self._planned, calls):
                graph.calls = count
            self.plan()
        elif seen:
            if watch.peak is not None and self.choice is not None:
                self._measured(watch, self.choice, watch.peak)
            if all(g.compiled_for == g.layout for g in self._planned):
                self.watching = False
        if not self.watching:
            watch.close()

    def _measured(self, watch: Watch, choice: Choice, peak: int) -> None:
        """Plans again if the step needed more than the budget, or so much less that a
        new plan may gain time; keeps the fastest that is within."""
        predicted, plain, budget = choice.predicted, choice.plain, self.bound_by or peak
        self.measured = peak
        self._scale = watch.graphs_us / predicted.us if predicted.us else 1.0
        self._rest_us = max(0.0, watch.us - watch.graphs_us)
        self.choice = choice._replace(predicted=predicted._replace(peak=peak))
        self._tried.append(Tried(watch.us, self.choice))
        _log.debug(
            "measured: %s, %s, of which the graphs %s", time_text(watch.us),
            size_text(peak), time_text(watch.graphs_us),
        )  # fmt: skip
        adds = predicted.us / plain.us - 1 if plain.us else 0.0
        spared = (budget - peak) / max(1, plain.peak - peak)
        if peak > budget or (adds * spared > _GAIN and self._plans < _MOST_PLANS):
            if self._plans < _MOST_PLANS:
                self.plan()
                if any(t.choice.layouts == self.choice.layouts for t in self._tried):
                    self._keep_fastest(budget)
                return
            _log.warning(
                "a step takes %s, more than its budget of %s",
                size_text(peak), size_text(budget),
            )  # fmt: skip
        self._keep_fastest(budget)

    def _keep_fastest(self, budget: int) -> None:
        fit = [t for t in self._tried if t.choice.predicted.peak <= budget]
        best = min(fit, key=lambda t: t.us, default=None)
        if best is not None and best.us < self._tried[-1].us * (1 - _GAIN):
            self._adopt(best.choice)

    def _adopt(self, choice: Choice) -> None:
        self.choice = choice
        for graph, layout in zip(self._planned, choice.layouts):
            graph.layout = layout

    def warn(self, error: BaseException) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "compiled without a plan: %s: %s", type(error).__name__, error,
                exc_info=_log.isEnabledFor(logging.DEBUG),
            )  # fmt: skip


def _raises(error: Exception) -> Callable[..., Any]:
    def refused(*_: Any) -> Any:
        raise error

    return refused


def _device(inputs: Sequence[Any]) -> torch.device:
    tensors = [one for one in inputs if isinstance(one, torch.Tensor)]
    for one in tensors:
        if one.device.type == "cuda":
            return one.device
    return tensors[0].device if tensors else torch.device("cpu")


def _named(node: Any) -> Tuple[str, str]:
    """The module and the operator that made it."""
    while getattr(node.target, "__name__", "") == "getitem":
        node = node.args[0]
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]) if stack else ""
    path = re.sub(r"^L\['\w+'\]\.?(_orig_mod\.)?", "", path)
    packet = getattr(node.target, "overloadpacket", node.target)
    return path, str(packet)


_jobs: weakref.WeakKeyDictionary[Any, Job] = weakref.WeakKeyDictionary()
_by_options: Dict[Any, Job] = {}


def compile(
    model: Optional[Any] = None,
    *,
    budget: Optional[Size] = None,
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
    between forward and backward pass; without one nothing is planned.

    The rest is as torch.compile takes it. `compiler` is "inductor", or "aot_eager",
    which plans but generates no code. `plan_of(model)` tells the plan, once the first
    step has run; the first steps on a GPU are measured, and planned again, until they
    are within the budget. A budget that is too small raises NoPlan in the first step,
    with the least as its `least`. If planning itself fails, that is one warning, and
    the model is compiled without a plan. Raises InvalidArgument.
    """
    if model is None:
        return lambda one: compile(
            one, budget=budget, quiet=quiet, compiler=compiler, mode=mode,
            options=options, dynamic=dynamic, **keywords,
        )  # fmt: skip
    chosen = {**_of_mode(mode), **(options or {})}
    job = Job(budget, compiler, quiet, chosen)
    compiled = torch.compile(model, backend=job.backend, dynamic=dynamic, **keywords)
    _jobs[compiled] = job
    if isinstance(model, torch.nn.Module):
        _jobs[model] = job
    return compiled


def _of_mode(mode: Optional[str]) -> Dict[str, Any]:
    if mode in (None, "default"):
        return {}
    return dict(torch._inductor.list_mode_options(mode))


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
    budget = given.pop("budget", None)
    compiler = given.pop("compiler", "inductor")
    quiet = given.pop("quiet", False)
    key = (str(budget), compiler, quiet, mode, tuple(sorted(map(str, given.items()))))
    if key not in _by_options:
        try:
            job = Job(budget, compiler, quiet, {**_of_mode(mode), **given})
        except InvalidArgument as error:
            return _raises(error)
        _by_options[key] = job
    return _by_options[key].backend(module, inputs)


def plan_of(model: Optional[Any] = None) -> CompiledPlan:
    """The plan of the last shapes and mode that a compiled model was planned for.
    Models that were compiled by the backend's name alone share a plan for each set
    of options: they are not told apart, and any model, or none, names the last."""
    job, one = None, model
    while job is None and one is not None:
        job = _jobs.get(one)
        inner = getattr(one, "module", None)
        one = inner if inner is not None else getattr(one, "_orig_mod", None)
    if job is None and (model is None or hasattr(model, "_orig_mod")):
        job = next(reversed(list(_by_options.values())), None)
    if job is None:
        name = type(model).__name__
        raise refuse("plan_of", repr(name), "a compiled model is accepted")
    if job.choice is None:
        raise refuse(
            "plan_of", "a model without a plan",
            "one with a budget, after its first training step, is accepted",
        )  # fmt: skip
    return job.told()
