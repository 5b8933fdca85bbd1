"""Tries how a saved storage can be computed again, or kept in fewer bytes."""

from __future__ import annotations

from typing import Callable, Optional, Sequence

import torch

from ucudnn.torch.devices import current
from ucudnn.torch.saved.host_copies import HostCopies
from ucudnn.torch.saved.recipes import Recipe
from ucudnn.torch.saved.recorded import Again
from ucudnn.torch.saved.storages import bytes_of
from ucudnn.torch.timing import mark, ms_between

# Cycles in which the host enqueues what is timed, generously.
_HEAD_START = 1_000_000
# The most that a recipe's result may be off, relative to its largest element.
_MOST_OFF = {
    torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}  # fmt: skip


class Trials:
    """Runs on a device what may give a storage's elements, and compares."""

    def __init__(self, device: torch.device, copies: HostCopies) -> None:
        self._device = device
        self._gpu = device.type == "cuda"
        self._copies = copies

    def narrow(
        self, elements: torch.Tensor, types: Sequence[torch.dtype]
    ) -> Optional[tuple[torch.dtype, float]]:
        """The first type that holds all elements, and the milliseconds of a
        conversion; none if no type does."""
        for dtype in types:
            ms, result = self._ms_of(lambda: elements.to(dtype).to(elements.dtype))
            if torch.equal(result, elements):
                return dtype, ms / 2
        return None

    def tried(self, recipe: Recipe, elements: torch.Tensor) -> Optional[Again]:
        """What the recipe takes; none if its result is not what was saved."""
        try:
            sources = {other: self._copies.fetched(other) for other in recipe.reads}
        except RuntimeError:
            return None  # no memory for all at once
        try:
            ms, size, result = self._timed(recipe, sources)
        except (RuntimeError, TypeError, AttributeError):
            return None  # an operator that does not run so
        if result.shape != elements.shape or result.dtype != elements.dtype:
            return None
        exact = torch.equal(result, elements)
        if not exact:
            most = _MOST_OFF.get(result.dtype, 0.0)
            apart = float((result - elements).abs().max())
            if not apart <= most * float(elements.abs().max()):
                return None
        return Again(recipe, ms, size, exact)

    def _timed(
        self, recipe: Recipe, sources: dict[int, torch.Tensor]
    ) -> tuple[float, int, torch.Tensor]:
        """Milliseconds, temporary bytes, and the result."""
        floor = 0
        if self._gpu:
            torch.cuda.synchronize(self._device)
            floor = torch.cuda.memory_allocated(self._device)
            torch.cuda.reset_peak_memory_stats(self._device)
        ms, result = self._ms_of(lambda: recipe.run(sources.__getitem__))
        if not self._gpu:
            return ms, 0, result
        peak = torch.cuda.max_memory_allocated(self._device)
        return ms, max(0, peak - floor - bytes_of(result)), result

    def _ms_of(self, run: Callable[[], torch.Tensor]) -> tuple[float, torch.Tensor]:
        """Milliseconds of the second run, and the result."""
        run()
        with current(self._device):
            if self._gpu:
                torch.cuda._sleep(_HEAD_START)
            begin = mark(self._device)
            result = run()
            end = mark(self._device)
        if self._gpu:
            end.synchronize()
        return ms_between(begin, end), result
