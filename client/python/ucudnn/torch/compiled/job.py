"""The graphs that one call of ucudnn.torch.compile gets from Dynamo, and their plan."""

from __future__ import annotations

import logging
import time
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

import torch

from ucudnn.errors import InvalidArgument, NoPlan
from ucudnn.sizes import Size, parse_size, size_text, time_text
from ucudnn.torch.checks import one_of, refuse
from ucudnn.torch.compiled import private
from ucudnn.torch.compiled.applying import applied
from ucudnn.torch.compiled.calibrating import Backward, Measured, Scales, ratios
from ucudnn.torch.compiled.convolutions import Convolutions
from ucudnn.torch.compiled.costs import Costs
from ucudnn.torch.compiled.describing import Description, described
from ucudnn.torch.compiled.memory import Watch, free_budget, surroundings
from ucudnn.torch.compiled.naming import breaks_of, named
from ucudnn.torch.compiled.planning import (
    Choice, Layout, Part, Step, Surroundings, Way, fastest,
)  # fmt: skip
from ucudnn.torch.compiled.plans import CompiledPlan, PlannedValue

_log = logging.getLogger("ucudnn.torch.compile")

_COMPILERS = ("inductor", "aot_eager")
_ALLOWED = ("recompute", "offload")
# A plan is made again while the measured peak is above the budget, at most so often in
# all; and once if it is so far below it that a new one may gain more than this part of
# a step: each plan is compiled, which takes Inductor 14 to 31 s on an H200.
_MOST_PLANS = 4
_GAIN = 0.01
_PLANS_THAT_GAIN = 2
# Or if values move, and passes take another time by this part.
_APART = 0.1
# Steps that are watched at most, if others than the planned one come between.
_MOST_STEPS = 20


class Options(NamedTuple):
    """Those of ucudnn.torch.compile that are not Inductor's."""

    budget: Optional[Size] = None
    workspace_limit: Optional[Size] = None
    enforce_limit: bool = False
    host_budget: Optional[Size] = None
    allow: Optional[Sequence[str]] = None
    quiet: bool = False
    compiler: str = "inductor"


class Tried(NamedTuple):
    """A plan under which steps were measured."""

    us: float
    choice: Choice
    backward: Backward


class Aside(NamedTuple):
    """What is known of a plan that is not settled while steps of other sizes run."""

    choice: Choice
    bound_by: Optional[int]
    tried: list[Tried]
    plans: int
    steps: int
    measured: Optional[int]
    rest_us: float
    around: Surroundings


class Graph:
    """One of Dynamo's graphs for arguments of one size."""

    def __init__(self, job: Job, module: Any) -> None:
        self.job = job
        self.module = module  # as Dynamo made it
        self.run: Optional[Callable[..., Any]] = None
        self.described: Optional[Description] = None
        self.layout: Optional[Layout] = None  # by the plan
        self.captured = False  # it runs as CUDA graphs
        self.calls = 1  # in a step
        self.saved: list[str] = []  # names of the nodes that the backward pass finds
        self.inputs: Sequence[Any] = ()  # while it is compiled
        self.planned = True  # unless that failed, or it has no backward pass
        self._compiled_for: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if self.job.watching or self.job.looked_at:
            return self.job.call(self, arguments)
        assert self.run is not None
        return self.run(*arguments)

    def is_stale(self) -> bool:
        """Whether it was compiled for another plan."""
        return bool(self._compiled_for != self._wanted())

    def _wanted(self) -> Any:
        return self.layout, self.captured, self.job.convolutions.used

    def compile(self, inputs: Sequence[Any]) -> None:
        """By the plan; the first time it is made meanwhile. `inputs` are fake or real
        tensors."""
        self.inputs = inputs
        self.planned = self.planned and private.trains(inputs)
        try:
            self._compile()
        except (NoPlan, InvalidArgument):
            raise
        except Exception as error:
            if self.layout is None:
                raise
            self.job.warn(error)
            self._without_plan()
        if self.planned and self.described is None and self.job.wants_cuda_graphs:
            self._without_plan()
        self.inputs = ()
        self._compiled_for = self._wanted()

    def _without_plan(self) -> None:
        self.planned, self.described = False, None
        self._compile()

    def _compile(self) -> None:
        begun = time.monotonic()
        options = dict(self.job.options)
        if self.job.wants_cuda_graphs:
            # Plans are measured without them first, pass by pass.
            options[private.CUDA_GRAPHS] = self.captured or not self.planned
        self.run = private.compile_graph(
            private.copied(self.module), self.inputs, self, self.job.compiler, options
        )
        _log.debug("compiled in %.1f s", time.monotonic() - begun)

    def rewrite(self, graph: Any) -> None:
        """Replaces what gains by planned convolutions."""
        try:
            self.job.convolutions.rewrite(graph)
        except Exception as error:
            self.job.warn(error, "PyTorch's convolutions stay")

    def choose(self, graph: Any, saved: list[Any], outputs: list[Any]) -> list[Any]:
        """The nodes of the joint graph to save between its passes, instead of PyTorch's
        choice `saved`, where the forward pass returns `outputs`."""
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


class Dispatcher:
    """What Dynamo calls: a graph for each size of its arguments."""

    def __init__(self, job: Job, module: Any) -> None:
        self.job = job
        self.module = module
        self.graphs: dict[Any, tuple[Graph, list[int]]] = {}

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

    def __init__(self, options: Options, inductor: Mapping[str, Any]) -> None:
        self.compiler = options.compiler
        one_of("compile: compiler", self.compiler, _COMPILERS)
        private.warn_untried()
        self._given = options, dict(inductor)
        self.budget = _bytes(options.budget)
        self.quiet = options.quiet
        self.options = dict(inductor)
        limit = _bytes(options.workspace_limit)
        if options.enforce_limit and limit is None:
            raise refuse(
                "compile: enforce_limit", True, "with a workspace_limit, it is accepted"
            )
        self.convolutions = Convolutions(limit, options.enforce_limit)
        self.host_budget = _bytes(options.host_budget)
        self.allow = _allowed(options.allow, self.host_budget)
        if "offload" in self.allow:
            if self.wants_cuda_graphs:
                raise refuse(
                    "compile: allow", "'offload' with CUDA graphs",
                    "'offload' without them, or 'recompute' is accepted",
                )  # fmt: skip
            # Inductor moves copies to where they take the least memory, beside nothing.
            self.options.setdefault("reorder_for_peak_memory", False)
        self.watching = True  # the step is not yet known, or its plan not yet settled
        self.looked_at: set[int] = set()  # storages of arguments, while check() runs
        self.choice: Optional[Choice] = None
        self.bound_by: Optional[int] = None  # the budget, or what is free
        self._watch: Optional[Watch] = None
        self._costs: Optional[Costs] = None
        self._planned: list[Graph] = []  # in the order of their forward passes
        self._aside: dict[tuple[Graph, ...], Aside] = {}
        self._unsettled = True  # the plan before the one that is being made
        self._device = torch.device("cpu")
        self.measured: Optional[int] = None  # peak of the last step that was measured
        self._scales = Scales()  # as the last measured steps had them
        self._rest_us = 0.0  # what else than the graphs they took
        self._tried: list[Tried] = []
        self._warned = False
        self._plans = 0
        self._steps = 0  # since something new was compiled

    def __reduce__(self) -> Any:
        """Copies of a compiled model, and pickles, get plans of their own."""
        return Job, self._given

    def backend(
        self, module: Any, inputs: Sequence[Any], **_: Any
    ) -> Callable[..., Any]:
        """What torch.compile calls with each graph. Errors of planning are raised by
        the graph's first call, because Dynamo would wrap or swallow them here."""
        module = private.copied(module)
        if self.wants_cuda_graphs and _device(inputs).type != "cuda":
            _log.warning(
                "compile: CUDA graphs, which mode or options ask for, need a GPU; on "
                "the CPU nothing changes"
            )
            self.options[private.CUDA_GRAPHS] = False
        if any(map(private.symbolic, inputs)) and private.trains(inputs):
            return Dispatcher(self, module)
        graph = Graph(self, module)
        try:
            self.compile(graph, inputs)
        except (NoPlan, InvalidArgument) as error:
            return raises(error)
        return graph

    @property
    def wants_cuda_graphs(self) -> bool:
        return bool(self.options.get(private.CUDA_GRAPHS))

    def compile(self, graph: Graph, inputs: Sequence[Any]) -> None:
        if private.trains(inputs):  # else no step changes by it
            self._unsettled = self.watching
            self.watching, self._steps, self._plans = True, 0, 0
        graph.compile(inputs)

    def describe(
        self,
        graph: Any,
        saved: list[Any],
        outputs: list[Any],
        inputs: Sequence[Any],
        first: bool,
    ) -> Optional[Description]:
        """None: there is nothing to plan, or planning failed."""
        device = _device(inputs)
        if device.type not in ("cuda", "cpu"):
            raise refuse(
                "compile: device", device, "GPUs of CUDA and the CPU are accepted"
            )
        if self.budget is None and device.type != "cuda":
            return None
        try:
            if self._costs is None or self._costs.device != device:
                self._costs = Costs(device)
            if self._watch is None:
                self._watch = Watch(device)
            if first:
                if self._unsettled and self._watch.begins_step():
                    self._put_aside()
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
            step = Step(parts, self._watch.around, self._scales)
            choice = fastest(step, budget, self._way())
        except NoPlan as error:
            told = f"{error}{breaks_of(g.module for g in graphs)}"
            raise NoPlan(told, error.least) from error
        except Exception as error:
            self.warn(error)
            return
        self._plans += 1
        _log.debug("planned in %.1f s", time.monotonic() - begun)
        same = new is None and [g.layout for g in graphs] == choice.layouts
        if new is not None:
            self._tried, self.measured = [], None
        self._planned, self.bound_by = graphs, budget
        self._adopt(choice)
        if not (same or self.quiet):
            _log.info("%s", self.told())

    def _put_aside(self) -> None:
        if self.choice is not None and self._watch is not None:
            self._aside[tuple(self._planned)] = Aside(
                self.choice, self.bound_by, self._tried, self._plans, self._steps,
                self.measured, self._rest_us, self._watch.around,
            )  # fmt: skip

    def _take_up(self, order: Sequence[Graph]) -> None:
        """Goes on with the plan of the graphs that ran, as after an epoch's last and
        smaller batch."""
        known = self._aside.pop(tuple(order), None)
        if known is None or self._watch is None:
            return
        self._put_aside()
        self._planned = list(order)
        (self.choice, self.bound_by, self._tried, self._plans, self._steps,
         self.measured, self._rest_us, self._watch.around) = known  # fmt: skip

    def _way(self) -> Way:
        assert self._costs is not None
        link = self._costs.link() if "offload" in self.allow else None
        self._costs.save()
        return Way("recompute" in self.allow, link, self.host_budget)

    def told(self) -> CompiledPlan:
        """The plan, for people."""
        choice, graphs = self.choice, self._planned
        assert choice is not None
        settled = not self.watching
        if self._watch is not None and self._watch.measures:
            settled = settled and self.measured is not None
        kept: list[PlannedValue] = []
        again: list[PlannedValue] = []
        moved: list[PlannedValue] = []
        saved = plain = 0
        for graph, layout in zip(graphs, choice.layouts):
            told = graph.described
            if told is None:
                continue
            recomputed = layout.recomputed if layout else frozenset()
            gone = {leave.value for leave in layout.leaves} if layout else set()
            for number, value in enumerate(told.values):
                one = PlannedValue(*named(value.node), value.bytes * graph.calls)
                if number in gone:
                    moved.append(one)
                else:
                    (again if number in recomputed else kept).append(one)
            saved += told.saved_bytes(graph.saved) * graph.calls
            plain += told.saved_bytes(n.name for n in told.plain) * graph.calls
        return CompiledPlan(
            self.bound_by, kept, again, moved, saved, plain, choice.predicted.peak,
            choice.plain.peak, self._ms(choice.predicted.us), self._ms(choice.plain.us),
            self._ms(choice.bound_us), len(graphs), self._device, choice.cut_off,
            choice.pinned, self.convolutions.used, self.convolutions.lines, self.measured, settled, self.looked_at,
        )  # fmt: skip

    def _ms(self, graphs_us: float) -> float:
        return (graphs_us + self._rest_us) / 1e3

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
        if graph.is_stale():
            graph.compile(private.faked(arguments))
            watch.compiled()
        return watch.forward(graph, arguments)

    def _step_done(self, watch: Watch) -> None:
        """Plans again where the step was not as expected, and no longer watches it
        where it was."""
        self._look_outside(watch)
        order = list(watch.order)
        enough = watch.step_done(self._planned, self.choice)
        if enough is None:
            self._take_up(order)
        self._steps += 1
        # What is stale must be compiled before it runs again.
        stale = any(graph.is_stale() for graph in self._planned)
        self.watching = stale or self._steps < _MOST_STEPS
        calls = [watch.calls.get(g, g.calls) for g in self._planned]
        if enough is not None and calls != [g.calls for g in self._planned]:
            for graph, count in zip(self._planned, calls):
                graph.calls = count
            self.plan()
        elif enough:
            if watch.measured is not None and self.choice is not None:
                self._measured(watch.measured, self.choice)
            if any(graph.is_stale() for graph in self._planned):
                self.watching, self._steps = True, 0
            elif self.wants_cuda_graphs and not all(g.captured for g in self._planned):
                self._begin_again(captured=True)
            elif watch.measured is not None and self.convolutions.change(
                watch.measured.us
            ):
                self._begin_again(captured=False)
            else:
                self.watching = False
        if not self.watching:
            watch.close()

    def _look_outside(self, watch: Watch) -> None:
        """Warns once if what is saved between the graphs exceeds the budget."""
        if self.choice is None or not self.bound_by or not watch.outside:
            return
        if self.choice.predicted.peak + watch.outside > self.bound_by:
            _log.warning(
                "a step saves %s outside of its graphs, which no plan bounds, and so "
                "more than its budget of %s%s",
                size_text(watch.outside), size_text(self.bound_by),
                breaks_of(g.module for g in self._planned),
            )  # fmt: skip
            watch.outside = 0

    def _begin_again(self, captured: bool) -> None:
        """Has the planned graphs compiled again, with or without CUDA graphs, of which
        the steps so far tell nothing."""
        self.watching, self._steps, self._plans, self._tried = True, 0, 0, []
        for graph in self._planned:
            graph.captured = captured

    def _measured(self, seen: Measured, choice: Choice) -> None:
        """Plans again if the step needed more than the budget, or so much less that a
        new plan may gain time; keeps the fastest that is within."""
        expected = choice.scales
        choice, backward = self._calibrated(seen, choice)
        if seen.peak is None:
            self.choice = choice
            return
        self.measured = seen.peak
        predicted, plain = choice.predicted, choice.plain
        budget = self.bound_by or seen.peak
        self._tried.append(Tried(seen.us, choice, backward))
        self.choice = choice
        spared = (budget - seen.peak) / max(1, plain.peak - seen.peak)
        adds = predicted.us / plain.us - 1 if plain.us else 0.0
        # Copies were planned beside what takes another time.
        wrong = bool(choice.pinned) and choice.scales.apart(expected) > _APART
        gains = (wrong or adds * spared > _GAIN) and self._plans < _PLANS_THAT_GAIN
        if seen.peak > budget or gains:
            if self._plans < _MOST_PLANS:
                self.plan()
                for tried in self._tried:
                    if tried.choice.layouts == self.choice.layouts:
                        self._adopt(tried.choice)  # with what was measured
                        return self._keep_fastest(budget)
                return
            _log.warning(
                "a step takes %s, more than its budget of %s",
                size_text(seen.peak), size_text(budget),
            )  # fmt: skip
        self._keep_fastest(budget)

    def _calibrated(self, seen: Measured, choice: Choice) -> tuple[Choice, Backward]:
        """What was chosen, with the time and peak that were measured."""
        expected = (
            choice.forward_us, choice.plain.us - choice.forward_us, choice.added_us
        )  # fmt: skip
        backward = choice.added_us / choice.scales.again, seen.backward_us
        told = ratios(seen, expected, choice.scales, [t.backward for t in self._tried])
        self._rest_us = max(0.0, seen.us - seen.forward_us - seen.backward_us)
        _log.debug(
            "measured: %s, %s; passes of %s and %s, %.2f and %.2f of the expected",
            time_text(seen.us), size_text(seen.peak or 0), time_text(seen.forward_us),
            time_text(seen.backward_us), told.forward,
            seen.backward_us / max(1e-9, sum(expected[1:])),
        )  # fmt: skip
        scaled = choice.scaled(told)
        self._scales = scaled.scales
        if seen.peak is not None:
            at_peak = scaled.predicted._replace(peak=seen.peak)
            scaled = scaled._replace(predicted=at_peak)
        return scaled, backward

    def _keep_fastest(self, budget: int) -> None:
        fit = [t for t in self._tried if t.choice.predicted.peak <= budget]
        best = min(fit, key=lambda t: t.us, default=None)
        if best is not None and best.us < self._tried[-1].us * (1 - _GAIN):
            self._adopt(best.choice)

    def _adopt(self, choice: Choice) -> None:
        self.choice = choice
        for graph, layout in zip(self._planned, choice.layouts):
            graph.layout = layout

    def warn(self, error: BaseException, what: str = "compiled without a plan") -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "%s: %s: %s", what, type(error).__name__, error,
                exc_info=_log.isEnabledFor(logging.DEBUG),
            )  # fmt: skip


def _bytes(size: Optional[Size]) -> Optional[int]:
    return None if size is None else parse_size(size)


def _allowed(
    allow: Optional[Sequence[str]], host_budget: Optional[int]
) -> frozenset[str]:
    if allow is None:
        return frozenset(_ALLOWED if host_budget else _ALLOWED[:1])
    ways = frozenset([allow] if isinstance(allow, str) else allow)
    for way in sorted(ways, key=repr):
        one_of("compile: allow", way, _ALLOWED)
    if host_budget and "offload" not in ways:
        raise refuse(
            "compile: host_budget",
            host_budget,
            "with 'offload' in allow, it is accepted",
        )
    return ways


def raises(error: Exception) -> Callable[..., Any]:
    def refused(*_: Any) -> Any:
        raise error

    return refused


def _device(inputs: Sequence[Any]) -> torch.device:
    devices = [one.device for one in inputs if isinstance(one, torch.Tensor)]
    gpus = [device for device in devices if device.type == "cuda"]
    return next(iter(gpus + devices), torch.device("cpu"))
