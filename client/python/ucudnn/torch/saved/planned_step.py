"""A step as a function, within a budget of memory; replayed as a CUDA graph if that is
wanted."""

from __future__ import annotations

import statistics
from typing import Any, Callable, Iterable, Optional

from ucudnn.torch.checks import refuse
from ucudnn.torch.kept import stateful
from ucudnn.torch.replay.inputs import Inputs
from ucudnn.torch.replay.replaying import Replay, refuse_without_gpu
from ucudnn.torch.saved.step_memory import StepMemory
from ucudnn.torch.saved.plans import MemoryCheck
from ucudnn.torch.timing import laps


class PlannedStep:
    """Called in place of a step, runs it within a StepMemory, which tells the plan.

    With `graphs` the step is captured once its plan is settled, and calls replay it as
    a CUDA graph, which costs the host next to nothing. Calls copy the tensors among
    their arguments into copies of the first call's, and return what the captured step
    did, in tensors that the next call overwrites. Whatever the step hands to the next
    step must stay in the same tensors. It is captured again when something has changed
    that it read from Python: an optimizer's option, such as a learning rate, or its
    parameters; modes and numbers of modules, parameters, and numbers and tensors that
    the step names. A step that cannot be captured, because it waits for the GPU, or that
    changes in each call, is enqueued, after a warning. Capturing runs three steps, after
    which all is as before, as far as `step` names what it changes, or `keep` does.
    Raises InvalidArgument for arguments unlike the first.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        within: StepMemory,
        graphs: bool,
        example: tuple[Any, ...],
        keywords: dict[str, Any],
        keep: Iterable[Any],
    ) -> None:
        self._step = step
        self._within = within
        self._graphs = graphs
        self._replay: Optional[Replay] = None
        self._inputs: Optional[Inputs] = None
        if graphs:
            refuse_without_gpu(within.device)
            with_state = [v for v in example if hasattr(v, "load_state_dict")]
            self._objects = stateful(step, [*keep, *with_state])
        self._example = example, keywords

    def _capture(self) -> None:
        assert self._inputs is not None
        self._replay = Replay(
            self._step, self._as_planned, self._inputs, self._objects,
            self._within.device,
        )  # fmt: skip

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if not self._graphs:
            return self._run(arguments, keywords)
        if self._inputs is None:
            self._inputs = Inputs(arguments, keywords, self._within.device)
        if self._replay is not None:
            return self._replay(arguments, keywords)
        self._inputs.take(arguments, keywords)
        result = self._run(self._inputs.arguments, self._inputs.keywords)
        if self._within.settled:
            self._capture()
        return result

    def _run(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        with self._within:
            return self._step(*arguments, **keywords)

    def _as_planned(self) -> Any:
        """Captured, a step's plan stays with it."""
        assert self._inputs is not None
        result = self._run(self._inputs.arguments, self._inputs.keywords)
        if not self._within.followed:
            raise refuse(
                "memory: the step",
                self._within.unlike or "it saves other tensors than were recorded",
                "a step as it was recorded is accepted",
            )
        return result

    @property
    def replayed(self) -> bool:
        return self._replay is not None and self._replay.captured

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._within, name)

    def __str__(self) -> str:
        return f"{self._within}" + (
            "; replayed as a CUDA graph" if self.replayed else ""
        )

    __repr__ = __str__

    def check(self, *arguments: Any, steps: int = 5, **keywords: Any) -> MemoryCheck:
        """Trains by so many steps, and some more, with these arguments or the example's,
        and compares with the plan."""
        if not (arguments or keywords):
            arguments, keywords = self._example
        if self._replay is None or not self._replay.captured:
            return self._within.check(lambda: self._step(*arguments, **keywords), steps)
        times = laps(self._within.device, lambda: self(*arguments, **keywords), steps)
        plan = self._within.plan
        assert plan is not None
        return MemoryCheck(
            plan.predicted_ms, statistics.median(times), plan.predicted_peak,
            self._replay.peak,
        )  # fmt: skip
