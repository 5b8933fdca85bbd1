"""Training steps within a budget of device memory, recorded and planned while they
run."""

from __future__ import annotations

import contextlib
import gc
import statistics
from typing import Any, Callable, Optional, Sequence

import torch

from ucudnn.errors import InvalidArgument, NoPlan
from ucudnn.sizes import Size, parse_size
from ucudnn.torch.checks import refuse, warn
from ucudnn.torch.devices import find_device
from ucudnn.torch.saved.applying import Applier, Meter
from ucudnn.torch.saved.links import (
    Arena,
    CudaLink,
    HostLink,
    Rates,
    free_host_memory,
    link_of,
    other_rates,
)
from ucudnn.torch.saved.plans import MemoryCheck, MemoryPlan
from ucudnn.torch.saved.planning import best_plan
from ucudnn.torch.saved.recorded import Kind, Recording
from ucudnn.torch.saved.recording import Pass, Recorder
from ucudnn.torch.saved.script import script_of
from ucudnn.torch.saved.watching import Failed, hooked
from ucudnn.torch.timing import laps

# Steps under a first plan before its copies are timed, and with those that are.
_WARM_UP, _TRIED_STEPS = 2, 7
# Steps that were recorded for nothing, after which no more are.
_MOST_IN_VAIN = 8


class _Shape:
    """Steps that save the same kinds of tensors."""

    def __init__(self, recorder: Recorder, budget: int) -> None:
        self.budget = budget
        self.recorder: Optional[Recorder] = recorder
        self.kinds: Sequence[Kind] = ()
        self.recording: Optional[Recording] = None
        self.plan: Optional[MemoryPlan] = None
        self.applier: Optional[Applier] = None
        self.rates: Optional[Rates] = None  # none: they are settled
        self.steps = 0  # under the plan

    def begins_with(self, tensor: torch.Tensor) -> bool:
        first = self.kinds[0]
        return first.layout.size == tensor.shape and first.dtype == tensor.dtype


class StepMemory:
    """`with` it each step of a training runs within the budget. The first three of
    each shape are recorded, with all their saved tensors in host memory; then they
    are planned. Not for several threads at once. What a MemoryPlan tells, this tells of
    the last step that ran under one."""

    def __init__(
        self,
        budget: int,
        ways: Sequence[str],
        host_budget: Optional[Size],
        device: Optional[torch.device],
        quiet: bool,
    ) -> None:
        self.budget = budget
        self._ways = ways
        self._host_budget = host_budget
        self._named = device is not None
        self._device = device or find_device().device
        self._quiet = quiet
        self._link: Optional["HostLink | CudaLink"] = None
        self._shapes: list[_Shape] = []
        self._last: Optional[_Shape] = None
        self._record = True  # the next step, whatever it is like
        self._in_vain = 0
        self._trains = False  # has had a plan: no later shape ends it
        self._stack: Optional[contextlib.ExitStack] = None  # while a step runs
        self._runner: Optional["Pass | Applier"] = None
        self._shape: Optional[_Shape] = None  # the running step's, as it began
        self._step = 0
        self.followed = False  # the last step had a plan, and followed it
        self.unlike = ""  # how it did not

    @property
    def plan(self) -> Optional[MemoryPlan]:
        """Of the last step that ran under one, or was the last to be recorded."""
        return None if self._last is None else self._last.plan

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def settled(self) -> bool:
        """Whether the last step has a plan that stays."""
        last = self._last
        return last is not None and last.plan is not None and last.rates is None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self.plan is None:
            raise AttributeError(f"{name}: there is no plan before the third step")
        return getattr(self.plan, name)

    def __str__(self) -> str:
        return (
            f"budget {self.budget}: no plan yet"
            if self.plan is None
            else str(self.plan)
        )

    __repr__ = __str__

    # --- A step.

    def __enter__(self) -> StepMemory:
        if self._stack is not None:
            raise refuse(
                "memory", "a step within a step", "one after the other is accepted"
            )
        failed, stack = Failed(), contextlib.ExitStack()
        stack.enter_context(hooked(failed, self._pack, self._unpack))
        self._stack, self._failed = stack, failed
        self._runner, self._shape, self._step = None, None, self._step + 1
        self.unlike, self.followed = "", False
        if self._record:
            self._begin(None)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Optional[bool]:
        stack, runner, self._stack = self._stack, self._runner, None
        assert stack is not None
        if error is not None:
            if runner is not None:
                runner.leave()
            return stack.__exit__(kind, error, trace)
        stack.close()
        if isinstance(runner, Pass):
            runner.end()
            self._recorded(runner)
        elif runner is not None:
            runner.end()
            self._applied(runner)
        return None

    def _begin(self, shape: Optional[_Shape]) -> None:
        """None: a shape that is not known."""
        shape = shape or _Shape(
            Recorder(self._device, "recompute" in self._ways), self.budget
        )
        runner: "Pass | Applier"
        if shape.applier is not None:
            runner = shape.applier
            if shape.rates is not None and shape.steps == _WARM_UP:
                self._linked().time_copies()
        else:
            assert shape.recorder is not None
            runner = shape.recorder.next_pass()
        runner.begin()
        self._shape, self._runner = shape, runner

    def _begin_with(self, tensor: torch.Tensor) -> None:
        """The first saved tensor tells which shape it is."""
        if not self._named and tensor.device != self._device:
            if isinstance(self._runner, Pass):
                self._runner.leave()
                self._runner = None
            self._device, self._link = tensor.device, None
        self._named = True
        if self._runner is None:
            known = [s for s in self._shapes if s.begins_with(tensor)]
            self._begin(self._last if self._last in known else next(iter(known), None))

    # Handles say which step they are of.

    def _pack(self, tensor: torch.Tensor) -> Any:
        try:
            if self._runner is None or not self._named:
                self._begin_with(tensor)
            assert self._runner is not None
            return self._step, self._runner.pack(tensor)
        except BaseException as error:
            raise self._failed.note(error)

    def _unpack(self, handle: Any) -> torch.Tensor:
        try:
            step, handle = handle
            if step != self._step or self._stack is None or self._runner is None:
                raise refuse(
                    "memory: the step",
                    "its backward pass runs after it has ended",
                    "a whole training step, with its forward and backward pass, is "
                    "accepted",
                )
            return self._runner.unpack(handle)
        except BaseException as error:
            raise self._failed.note(error)

    # --- After a step.

    def _recorded(self, one: Pass) -> None:
        if not one.kinds or all(kind.saves for kind in one.kinds):
            return  # an evaluation
        shape = self._shape
        assert shape is not None and shape.recorder is not None
        known = next((s for s in self._shapes if s.kinds == one.kinds), None)
        if known is not None and known is not shape:  # it was not expected
            self._in_vain += 1
            self._last, self._record = known, False
            return
        if shape.kinds and shape.kinds != one.kinds:
            self._tell_of_others()
            return
        if known is None:
            shape.kinds = one.kinds
            self._shapes.append(shape)
        self._last, self._record = shape, False
        shape.recording = shape.recorder.add(one)
        if shape.recording is not None:
            shape.recorder = None
            self._plan_first(shape)

    def _tell_of_others(self) -> None:
        """A step that begins as another does, and is another."""
        self._in_vain += 1
        self._record = self._in_vain < _MOST_IN_VAIN
        if self._in_vain == _MOST_IN_VAIN:
            warn(
                "memory: steps differ too often to be recorded; those that are not as "
                "recorded keep what they save"
            )

    def _applied(self, applier: Applier) -> None:
        shape = self._shape
        assert shape is not None
        self.unlike = applier.unlike
        if applier.unlike:
            if applier.outdated:
                self._shapes.remove(shape)
            self._tell_of_others()
            return
        self._last, self.followed = shape, True
        shape.steps += 1
        if shape.rates is not None and shape.steps == _TRIED_STEPS:
            self._plan_again(shape, shape.rates)

    # --- Plans.

    def _linked(self) -> "HostLink | CudaLink":
        if self._link is None:
            self._link = link_of(self._device)
        return self._link

    def _plan_first(self, shape: _Shape) -> None:
        rates = self._linked().rates()
        try:
            try:
                self._plan(shape, rates)
            except NoPlan as error:
                if error.least is None or not self._trains:
                    raise
                warn(f"{error}, which is taken")
                self._plan(shape, rates, error.least)
        except BaseException:
            self._shapes.remove(shape)
            self._last, self._record = None, True
            raise
        self._trains = True
        assert shape.plan is not None
        if shape.plan.moved:
            shape.rates = rates
        if not self._quiet:
            print(shape.plan, flush=True)

    def _plan_again(self, shape: _Shape, rates: Rates) -> None:
        """With the rates that copies reached beside what is computed."""
        shape.rates = None
        other = other_rates(rates, self._linked().reached())
        if other is None:
            return
        shape.plan = shape.applier = None
        gc.collect()  # its host memory
        try:
            self._plan(shape, other)
        except InvalidArgument:  # it would move more than the host has
            self._plan(shape, rates)

    def _plan(self, shape: _Shape, rates: Rates, budget: Optional[int] = None) -> None:
        assert shape.recording is not None
        shape.budget = budget or shape.budget
        best = best_plan(shape.recording, self._device, rates, shape.budget, self._ways)
        script = script_of(best)
        _refuse_host(script.arena_bytes, self._host_budget)
        arena = Arena(script.arena_bytes, self._device)
        shape.applier = Applier(script, self._device, self._linked(), arena)
        shape.plan = MemoryPlan(best, script, shape.budget, arena)

    # --- Measuring.

    def check(self, step: Callable[[], Any], steps: int = 5) -> MemoryCheck:
        """Trains by so many whole steps, and some more, each within this; `step` runs one
        without. Compares with the plan."""

        def run() -> None:
            with self:
                step()

        run()
        while not self.settled:
            run()
        peak = self._peak(run)
        times = laps(self._device, run, steps)
        assert self.plan is not None
        return MemoryCheck(
            self.plan.predicted_ms,
            statistics.median(times),
            self.plan.predicted_peak,
            peak,
        )

    def _peak(self, run: Callable[[], Any]) -> int:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            torch.cuda.reset_peak_memory_stats(self._device)
            run()
            torch.cuda.synchronize(self._device)
            return int(torch.cuda.max_memory_allocated(self._device))
        assert self._last is not None and self._last.applier is not None
        applier = self._last.applier
        applier.meter = meter = Meter()
        try:
            run()
            return meter.peak
        finally:
            applier.meter = None


def _refuse_host(size: int, budget: Optional[Size]) -> None:
    limit = free_host_memory() if budget is None else parse_size(budget)
    if limit is not None and size > limit:
        raise refuse(
            "memory: host_budget" if budget is not None else "memory: the host",
            f"{limit} bytes",
            f"the plan moves {size} bytes; no less than that is accepted",
        )
