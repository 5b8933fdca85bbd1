"""ucudnn.torch.memory: a training step within a budget of device memory."""

from __future__ import annotations

import gc
import statistics
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import torch

from ucudnn.errors import InvalidArgument
from ucudnn.sizes import Size, parse_size
from ucudnn.torch.checks import refuse
from ucudnn.torch.devices import device_of, find_device
from ucudnn.torch.kept import stateful, unchanged
from ucudnn.torch.profiling import StepClock
from ucudnn.torch.replay.inputs import Inputs
from ucudnn.torch.replay.replaying import Replay, refuse_without_gpu
from ucudnn.torch.saved.applying import Applier, Meter
from ucudnn.torch.saved.links import (
    Arena,
    Rates,
    free_host_memory,
    link_of,
    other_rates,
)
from ucudnn.torch.saved.planning import Solved, best_plan
from ucudnn.torch.saved.recording import record
from ucudnn.torch.saved.script import Script, script_of
from ucudnn.torch.saved.storages import tensors_in
from ucudnn.torch.saved.watching import refuse_compiled

_WAYS = ("offload", "recompute")
_CHECK_STEPS = 5


@dataclass(frozen=True)
class MemoryCheck:
    """What a plan predicted, and what steps under it took; peaks are in bytes. On
    the CPU, where nothing counts memory, they are those of saved tensors."""

    predicted_ms: float
    measured_ms: float
    predicted_peak: int
    measured_peak: int

    def __str__(self) -> str:
        return (
            f"step: {self.predicted_ms:.2f} ms predicted, {self.measured_ms:.2f} "
            f"ms measured; peak: {self.predicted_peak / 2**20:.1f} MiB predicted, "
            f"{self.measured_peak / 2**20:.1f} MiB measured"
        )


class MemoryPlan:
    """Runs the step that it was made for: `plan(*arguments)` is `step(*arguments)`
    within the budget. Not for several threads at once; each may have its own. Sizes are in bytes; `moved`,
    `recomputed` and `narrowed` have the numbers of storages. If it is `replayed`, as
    a CUDA graph, the next call overwrites the tensors that this one returned."""

    def __init__(
        self,
        step: Callable[..., Any],
        solved: Solved,
        script: Script,
        applier: Applier,
        device: torch.device,
        budget: int,
        arena: Arena,
        keep: Tuple[List[Any], Tuple[Any, ...], Dict[str, Any]],
    ) -> None:
        self._step = step
        self._applier = applier
        self._device = device
        self._objects, self._arguments, self._keywords = keep
        self._arena = arena  # is page-locked as long as this lives
        self._replay: Optional[Replay] = None
        self.budget = budget
        # For `ucudnn.solve_recorded_step`, as it is or as JSON.
        self.recorded_step = solved.described.step
        self.predicted_ms = solved.answer.time_us / 1e3
        self.plain_ms = sum(solved.described.recording.ms)
        self.lower_bound_ms = solved.answer.lower_bound_us / 1e3
        self.predicted_peak = solved.answer.peak_bytes
        self.plain_peak = solved.described.plain_peak
        self.pinned_bytes = arena.size
        storages = solved.described.recording.storages
        self.moved = sorted(script.slots)
        self.recomputed = sorted(script.recipes)
        self.narrowed = sorted(script.narrow)
        self.moved_bytes = sum(storages[n].bytes for n in self.moved)
        self.recomputed_bytes = sum(storages[n].bytes for n in self.recomputed)
        self.saved_bytes = sum(s.bytes for s in storages if not s.stays)
        self.exact = all(
            again.exact
            for again in (storages[n].again for n in self.recomputed)
            if again is not None
        )

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if self._replay is not None:
            return self._replay(arguments, keywords)
        return self._applier.run(lambda: self._step(*arguments, **keywords))

    @property
    def replayed(self) -> bool:
        return self._replay is not None and self._replay.captured

    def _capture(self, inputs: Inputs) -> None:
        step = partial(self._step, *inputs.arguments, **inputs.keywords)
        replay = Replay(
            self._step, partial(self._applier.run, step), inputs, self._objects,
            self._device,
        )  # fmt: skip
        self._replay = replay if replay.captured else None

    def check(self, *arguments: Any, steps: int = _CHECK_STEPS) -> MemoryCheck:
        """Runs steps under the plan, with these arguments or the example's, and
        compares; afterwards all is as before."""
        given = arguments or self._arguments
        with unchanged(self._objects, self._device):
            for _ in range(2):
                self(*given, **self._keywords)
            peak = self._peak(lambda: self(*given, **self._keywords))
            laps = StepClock(self._device).laps(
                lambda: self(*given, **self._keywords), steps
            )
        return MemoryCheck(
            self.predicted_ms, statistics.median(laps), self.predicted_peak, peak
        )

    def _peak(self, run: Callable[[], Any]) -> int:
        if self._replay is not None and self._replay.captured:
            return self._replay.peak  # while it was captured
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            torch.cuda.reset_peak_memory_stats(self._device)
            run()
            torch.cuda.synchronize(self._device)
            return int(torch.cuda.max_memory_allocated(self._device))
        self._applier.meter = Meter()
        try:
            run()
            return self._applier.meter.peak
        finally:
            self._applier.meter = None

    def __str__(self) -> str:
        def size(count: int) -> str:
            return f"{count / 2**20:.1f} MiB"

        return (
            f"budget {size(self.budget)}: peak {size(self.predicted_peak)} instead "
            f"of {size(self.plain_peak)}; step {self.predicted_ms:.2f} ms instead "
            f"of {self.plain_ms:.2f}, at least {self.lower_bound_ms:.2f}\n"
            f"of {size(self.saved_bytes)} saved, {len(self.moved)} storages, "
            f"{size(self.moved_bytes)}, move ({size(self.pinned_bytes)} of host "
            f"memory), {len(self.recomputed)}, {size(self.recomputed_bytes)}, are "
            f"computed again, {len(self.narrowed)} are kept in fewer bits"
            + ("" if self.exact else ", with the last bits rounded otherwise")
            + ("; replayed as a CUDA graph" if self.replayed else "")
        )

    __repr__ = __str__


def memory(
    step: Callable[..., Any],
    *example: Any,
    budget: Size,
    allow: Sequence[str] = _WAYS,
    host_budget: Optional[Size] = None,
    keep: Iterable[Any] = (),
    graphs: bool = False,
    device: Optional[Any] = None,
    quiet: bool = False,
    **keywords: Any,
) -> MemoryPlan:
    """Plans and applies where a step's saved tensors are, so that it needs no more
    than `budget` of device memory.

    `step(*example, **keywords)` is one whole training step: forward and backward
    pass, and the optimizer's. It runs three times with all saved tensors in host
    memory, to record which it saves, when it needs them, what else is in memory and how
    long each part takes; then libucudnn_solve plans which stay, which move to the
    host and return, and which are computed again (ReLU, sums, pools, convolutions,
    and BatchNorm from its saved statistics; the indices of pools are kept in 16
    bits). A plan that moves some on a GPU is tried for seven steps, and made anew
    with the rates that its copies reached beside what is computed.
    `allow` names the ways: results stay bitwise the same by "offload"; "recompute"
    may round BatchNorm's outputs otherwise. Call the returned plan instead of the
    step. `device` is by default that of the first tensor or model among the
    arguments, or that the step uses.

    `budget` counts all that PyTorch allocates on a GPU at once, weights and
    gradients included; on the CPU, saved tensors alone. `host_budget` bounds the
    page-locked host memory that stays taken while the plan lives. Afterwards all
    is as before, as far as `step` names what it changes, or `keep` does.

    With `graphs` the planned step is captured once, and calls replay it as a CUDA
    graph, which costs the host next to nothing. Calls copy the tensors among their
    arguments into copies of the example's, and return what the captured step did,
    in tensors that the next call overwrites. Whatever the step hands to the next step
    must stay in the same tensors. It is captured again when something has changed
    that it read from Python: an optimizer's option, such as a learning rate, or its
    parameters; modes and numbers of modules, parameters, and numbers and tensors that
    the step names. A step that cannot be captured, because it waits for the GPU, or
    that changes in each call, is enqueued, after a warning.

    Raises NoPlan with a budget that is accepted as `least`; InvalidArgument for what a
    plan cannot do: compiled models, no backward pass, retained graphs, double
    backward, other hooks, in-place changes, shapes that vary, several streams, and a
    host budget that is too small. The plan raises it for a step that computes
    otherwise than recorded what is computed again: by other operators, numbers or
    parameters; and with `graphs` for arguments unlike the example's.
    """
    budget_bytes = parse_size(budget)
    ways = [allow] if isinstance(allow, str) else list(allow)
    for way in ways:
        if way not in _WAYS:
            known = " and ".join(map(repr, _WAYS))
            raise refuse("memory: allow", repr(way), f"{known} are accepted")
    refuse_compiled(step, example)
    with_state = [v for v in example if hasattr(v, "load_state_dict")]
    objects = stateful(step, [*keep, *with_state])
    chosen = find_device(device or device_of((*example, *objects))).device
    inputs = None
    if graphs:
        refuse_without_gpu(chosen)
        inputs = Inputs(example, keywords, chosen)
        example, keywords = inputs.arguments, inputs.keywords

    def run() -> None:
        step(*example, **keywords)

    given = {id(one) for one in tensors_in((example, keywords))}
    with unchanged(objects, chosen):
        recording = record(run, chosen, "recompute" in ways, given)
    link = link_of(chosen)

    def planned(rates: Rates) -> MemoryPlan:
        best = best_plan(recording, chosen, rates, budget_bytes, ways)
        script = script_of(best)
        _refuse_host(script.arena_bytes, host_budget)
        arena = Arena(script.arena_bytes, chosen)
        return MemoryPlan(
            step, best, script, Applier(script, chosen, link, arena), chosen,
            budget_bytes, arena, (objects, example, keywords),
        )  # fmt: skip

    rates = link.rates()
    plan = planned(rates)
    if plan.moved:
        with unchanged(objects, chosen):
            reached = link.reached(lambda: plan(*example, **keywords))
        other = other_rates(rates, reached)
        if other is not None:
            del plan
            gc.collect()  # its host memory
            try:
                plan = planned(other)
            except InvalidArgument:  # it would move more than the host has
                plan = planned(rates)
    if inputs is not None:
        plan._capture(inputs)
    if not quiet:
        print(plan, flush=True)
    return plan


def _refuse_host(size: int, budget: Optional[Size]) -> None:
    limit = free_host_memory() if budget is None else parse_size(budget)
    if limit is not None and size > limit:
        raise refuse(
            "memory: host_budget" if budget is not None else "memory: the host",
            f"{limit} bytes",
            f"the plan moves {size} bytes; no less than that is accepted",
        )
