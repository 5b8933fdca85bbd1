"""What ucudnn.torch.compile planned, for people and tests."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any, Callable, List, Optional, Set

import torch

from ucudnn.sizes import size_text, time_text
from ucudnn.torch.profiling import StepClock


@dataclass(frozen=True)
class PlannedValue:
    """A result of the forward pass that the backward pass needs."""

    module: str  # "layer1.0.bn2"; empty: not in one
    operator: str  # "aten.convolution"
    bytes: int

    def __str__(self) -> str:
        return f"{self.module or 'the model'}: {self.operator}, {size_text(self.bytes)}"


@dataclass(frozen=True)
class CompiledCheck:
    """What steps took; on the CPU `peak_bytes` are those saved between the passes."""

    ms: float
    peak_bytes: int


@dataclass(frozen=True)
class CompiledPlan:
    """Of one step: a shape and mode of the model."""

    budget_bytes: Optional[int]
    kept: List[PlannedValue]
    recomputed: List[PlannedValue]
    saved_bytes: int  # between the passes, inputs and parameters apart
    plain_saved_bytes: int  # the same as PyTorch chooses
    predicted_peak_bytes: int
    plain_peak_bytes: int
    # Of the graphs and, once a step on a GPU was measured, of what else it took.
    predicted_ms: float
    plain_ms: float
    bound_ms: float  # no plan within the budget takes less
    graphs: int
    device: torch.device
    # The solver's time was up: another plan may be faster.
    cut_off: bool = False
    # In the last step that was measured, on a GPU.
    measured_peak_bytes: Optional[int] = None
    arguments: Set[int] = field(default_factory=set, repr=False, compare=False)

    def __str__(self) -> str:
        limit = "" if self.budget_bytes is None else f" of {size_text(self.budget_bytes)}"
        if not self.recomputed:
            return (
                f"as PyTorch chooses: {size_text(self.plain_peak_bytes)}{limit}, "
                f"{len(self.kept)} values kept"
            )
        return (
            f"{size_text(self.predicted_peak_bytes)}{limit} instead of "
            f"{size_text(self.plain_peak_bytes)}: {len(self.kept)} values kept, "
            f"{len(self.recomputed)} computed again, which adds "
            f"{time_text((self.predicted_ms - self.plain_ms) * 1e3)} to "
            f"{time_text(self.plain_ms * 1e3)}"
        )

    def check(self, step: Callable[[], Any], steps: int = 5) -> CompiledCheck:
        """Runs `step`, a whole training step, so often and measures it. On a GPU the
        peak is that of torch.cuda.max_memory_allocated, which begins anew."""
        step()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            laps = StepClock(self.device).laps(step, steps)
            peak = torch.cuda.max_memory_allocated(self.device)
        else:
            laps = StepClock(self.device).laps(step, steps)
            peak = self._saved(step)
        return CompiledCheck(statistics.median(laps), peak)

    def _saved(self, step: Callable[[], Any]) -> int:
        """The bytes of the storages that a step saves, but for what the graphs were
        called with."""
        sizes = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
            return tensor

        self.arguments.clear()
        self.arguments.add(0)  # somebody looks
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            step()
        saved = sum(n for at, n in sizes.items() if at not in self.arguments)
        self.arguments.clear()
        return saved
