"""Captures steps as CUDA graphs."""

from __future__ import annotations

import contextlib
import gc
import warnings
from typing import Any, Callable, Iterator, NamedTuple

import torch

# What other threads do meanwhile, such as a DataLoader's that pins memory, neither
# fails nor ends the capture.
_MODE = "thread_local"


class Captured(NamedTuple):
    """A step as a CUDA graph, and what the step returned: its tensors are where
    each replay writes them."""

    graph: torch.cuda.CUDAGraph
    result: Any


class Capturing:
    """Captures steps on one GPU. Their graphs share memory: they are replayed one
    at a time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()
        self.peak = 0  # bytes allocated at once while a step was captured

    def warm_up(self, run: Callable[[], Any]) -> None:
        """Runs a step as it will be captured: in another stream."""
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        try:
            with torch.cuda.stream(self._stream):
                run()
        finally:
            current.wait_stream(self._stream)

    @contextlib.contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Within it most of what waits for the GPU raises RuntimeError: while a step
        is captured it would do harm."""
        mode = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it does not notice everything
            torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(mode)

    def give_back(self) -> None:
        """Memory that nothing uses: a graph takes no cached memory."""
        gc.collect()
        torch.cuda.synchronize(self._device)
        _drop_workspaces()
        with torch.cuda.device(self._device):
            torch.cuda.empty_cache()

    def capture(self, run: Callable[[], Any]) -> Captured:
        """Nothing is computed. What the step raises goes on."""
        self.give_back()
        torch.cuda.reset_peak_memory_stats(self._device)
        # Autocast, entered outside, would not cast again in replays.
        torch.clear_autocast_cache()
        graph = torch.cuda.CUDAGraph()
        try:
            # Not torch.cuda.graph, which stays in its stream if a capture fails.
            with torch.cuda.stream(self._stream):
                graph.capture_begin(self._pool, capture_error_mode=_MODE)
                try:
                    result = run()
                except BaseException:
                    with contextlib.suppress(RuntimeError):
                        self._end(graph)
                    raise
                self._end(graph)
        finally:
            torch.clear_autocast_cache()
            _drop_workspaces()
        peak = int(torch.cuda.max_memory_allocated(self._device))
        self.peak = max(self.peak, peak)
        return Captured(graph, result)

    def _end(self, graph: torch.cuda.CUDAGraph) -> None:
        try:
            graph.capture_end()
        except RuntimeError:
            self._mend()
            raise

    def _mend(self) -> None:
        """A capture that became invalid cannot be ended. PyTorch then leaves its
        allocator in it, with the memory taken, and its random numbers too, which
        leave it with the next capture."""
        with contextlib.suppress(RuntimeError):  # the first: the allocator has left
            torch._C._cuda_endAllocateToPool(self._device.index, self._pool)
            torch._C._cuda_releasePool(self._device.index, self._pool)
        graph = torch.cuda.CUDAGraph()
        with contextlib.suppress(RuntimeError):
            graph.capture_begin(capture_error_mode=_MODE)
            torch.zeros(1, device=self._device)
            graph.capture_end()


def _drop_workspaces() -> None:
    """Those that cuBLAS keeps for each stream: the graph's is in the graph's memory,
    and stays there, and the others are not taken beside it."""
    torch._C._cuda_clearCublasWorkspaces()
