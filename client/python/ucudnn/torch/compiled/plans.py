"""What ucudnn.torch.compile planned, for people and tests."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

import torch

from ucudnn.sizes import size_text, time_text
from ucudnn.torch.compiled.memory import kept_by_graphs
from ucudnn.torch.compiled.offloading import seen_on_host
from ucudnn.torch.timing import laps

# A GPU that computes in less than this part of a step waits for the host.
_BUSY = 0.9


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
    """What steps took beside what was predicted; on the CPU the peak is of the bytes
    saved between the passes."""

    ms: float
    peak_bytes: int
    predicted_ms: float
    predicted_peak_bytes: int
    kernels_ms: Optional[float] = None  # of a GPU, in a step; None: not known
    # Of a GPU's memory, reserved for CUDA graphs while no tensor has it.
    graphs_bytes: int = 0

    @property
    def waits_for_host(self) -> bool:
        """Whether the GPU has nothing to do in a tenth of the step: then no plan and
        no prediction of its time helps, but mode="reduce-overhead" may."""
        return self.kernels_ms is not None and self.kernels_ms < _BUSY * self.ms

    def __str__(self) -> str:
        told = (
            f"{time_text(self.ms * 1e3)}, predicted {time_text(self.predicted_ms * 1e3)}; "
            f"{size_text(self.peak_bytes)}, predicted "
            f"{size_text(self.predicted_peak_bytes)}"
        )
        if self.kernels_ms is None or not self.waits_for_host:
            return told
        return (
            f"{told}; the host enqueues it in {time_text(self.ms * 1e3)}, kernels take "
            f"{time_text(self.kernels_ms * 1e3)}"
        )


@dataclass(frozen=True)
class CompiledPlan:
    """Of one step: a shape and mode of the model."""

    budget_bytes: Optional[int]
    kept: list[PlannedValue]
    recomputed: list[PlannedValue]
    moved: list[PlannedValue]  # to the host and back
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
    pinned_bytes: int = 0  # on the host, for what is moved
    # Whether convolutions were planned, and none was slower; and how each compared.
    convolutions: bool = False
    convolution_lines: list[str] = field(default_factory=list, repr=False)
    # In the last steps that were measured, on a GPU.
    measured_peak_bytes: Optional[int] = None
    # No step is measured any more, and the plan stays.
    settled: bool = False
    arguments: set[int] = field(default_factory=set, repr=False, compare=False)

    def __str__(self) -> str:
        limit = (
            "" if self.budget_bytes is None else f" of {size_text(self.budget_bytes)}"
        )
        if not self.recomputed and not self.moved:
            return (
                f"as PyTorch chooses: {size_text(self.plain_peak_bytes)}{limit}, "
                f"{len(self.kept)} values kept"
            )
        return (
            f"{size_text(self.predicted_peak_bytes)}{limit} instead of "
            f"{size_text(self.plain_peak_bytes)}: {len(self.kept)} values kept, "
            f"{len(self.recomputed)} computed again, {len(self.moved)} moved, which adds "
            f"{time_text((self.predicted_ms - self.plain_ms) * 1e3)} to "
            f"{time_text(self.plain_ms * 1e3)}"
        )

    def check(self, step: Callable[[], Any], steps: int = 5) -> CompiledCheck:
        """Runs `step`, a whole training step, so often and measures it. On a GPU the
        peak is that of torch.cuda.max_memory_allocated, which begins anew."""
        step()
        kernels_ms, kept, predicted = None, 0, self.predicted_peak_bytes
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            times = laps(self.device, step, steps)
            peak = torch.cuda.max_memory_allocated(self.device)
            kept = kept_by_graphs(self.device)
            kernels_ms = _kernels_ms(step, self.device)
        else:
            times = laps(self.device, step, steps)
            peak, predicted = self._saved(step), self.saved_bytes
        return CompiledCheck(
            statistics.median(times), peak, self.predicted_ms, predicted, kernels_ms, kept,
        )  # fmt: skip

    def _saved(self, step: Callable[[], Any]) -> int:
        """The bytes of the storages that a step saves, but for what the graphs were
        called with."""
        sizes = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
            return tensor

        self.arguments.clear()
        seen_on_host.clear()
        self.arguments.add(0)  # somebody looks
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            step()
        gone = self.arguments | seen_on_host
        saved = sum(n for at, n in sizes.items() if at not in gone)
        self.arguments.clear()
        return saved


def _kernels_ms(step: Callable[[], Any], device: torch.device) -> Optional[float]:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        step()
        torch.cuda.synchronize(device)
    us = sum(one.self_device_time_total for one in seen.key_averages())
    return float(us) / 1e3 if us else None
