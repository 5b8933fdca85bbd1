"""What ucudnn.torch.memory planned, and what steps took."""

from __future__ import annotations

from dataclasses import dataclass

from ucudnn.torch.saved.links import Arena
from ucudnn.torch.saved.planning import Solved
from ucudnn.torch.saved.script import Script


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
    """Of steps of one shape. Sizes are in bytes; `moved`, `recomputed` and `narrowed`
    have the numbers of storages."""

    def __init__(
        self, solved: Solved, script: Script, budget: int, arena: Arena
    ) -> None:
        self._arena = arena  # is page-locked as long as this lives
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
        )

    __repr__ = __str__
