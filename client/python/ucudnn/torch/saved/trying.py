"""Tries how a saved storage can be computed again, or kept in fewer bytes."""

from __future__ import annotations

import time
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import torch

from ucudnn.torch.devices import current
from ucudnn.torch.saved.fused import AnyRecipe, FusedRecipe, fused
from ucudnn.torch.saved.host_copies import HostCopies
from ucudnn.torch.saved.recipes import Recipe
from ucudnn.torch.saved.recorded import Again
from ucudnn.torch.saved.storages import bytes_of

# Of the time that results with other bits may take.
_EXACTNESS = 0.9
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
    ) -> Optional[Tuple[torch.dtype, float]]:
        """The first type that holds all elements, and the milliseconds of a
        conversion; none if no type does."""
        for dtype in types:
            ms, result = self._ms_of(lambda: elements.to(dtype).to(elements.dtype))
            if torch.equal(result, elements):
                return dtype, ms / 2
        return None

    def best(
        self,
        recipe: Recipe,
        elements: torch.Tensor,
        like: Optional[Again] = None,
    ) -> Optional[Again]:
        """The way whose result is right that takes the least time; for the same
        bits it may take a little longer. `like`: the storage's shallow way."""
        try:
            sources = {other: self._copies.fetched(other) for other in recipe.reads}
        except RuntimeError:
            return None  # no memory for all at once
        ways: List[AnyRecipe] = [recipe]
        if self._gpu:
            ways += _kernels(recipe, like)
        best: Optional[Again] = None
        for way in ways:
            one = self._tried(way, sources, elements)
            if one is not None and (best is None or _costs(one) < _costs(best)):
                best = one
        return best

    def _tried(
        self,
        recipe: AnyRecipe,
        sources: Dict[int, torch.Tensor],
        elements: torch.Tensor,
    ) -> Optional[Again]:
        """None if the result is not what was saved."""
        try:
            ms, size, result = self._timed(recipe, sources)
        except (RuntimeError, TypeError, AttributeError, OSError):
            return None  # an operator that does not run so, or no compiler
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
        self, recipe: AnyRecipe, sources: Dict[int, torch.Tensor]
    ) -> Tuple[float, int, torch.Tensor]:
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

    def _ms_of(
        self, run: Callable[[], torch.Tensor]
    ) -> Tuple[float, torch.Tensor]:
        """Milliseconds of the second run, and the result."""
        run()
        if not self._gpu:
            begun = time.perf_counter()
            result = run()
            return (time.perf_counter() - begun) * 1e3, result
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with current(self._device):
            torch.cuda._sleep(_HEAD_START)
            begin.record()
            result = run()
            end.record()
        end.synchronize()
        return begin.elapsed_time(end), result


def _costs(again: Again) -> float:
    return again.ms / (1 if again.exact else _EXACTNESS)


def _kernels(recipe: Recipe, like: Optional[Again]) -> List[FusedRecipe]:
    """Those of a recipe; if `like` is a kernel, those that round as it does, since
    compiling takes tenths of a second."""
    kernel = like.recipe if like is not None else None
    normal = kernel.normal if isinstance(kernel, FusedRecipe) else None
    return [one for one in fused(recipe) if normal in (None, one.normal)]
