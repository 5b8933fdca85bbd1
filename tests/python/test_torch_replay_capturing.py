"""In which order CUDA is called; no GPU is needed."""

import contextlib

import pytest
import torch
from ucudnn.torch.replay.capturing import Capturing

GPU = torch.device("cuda", 1)


class Cuda:
    """In place of torch.cuda: notes calls."""

    def __init__(self):
        self.calls, self.current, self.fails = [], "main", set()
        self.modes = set()

    def note(self, name):
        self.calls.append(f"{name} in {self.current}")
        if name in self.fails:
            self.fails.discard(name)
            raise RuntimeError(f"{name} failed")

    def graph(self):
        cuda = self

        class Graph:
            def capture_begin(self, pool=None, *, capture_error_mode):
                cuda.modes.add(capture_error_mode)
                cuda.note(f"begin {pool}" if pool else "begin")

            def capture_end(self):
                cuda.note("end")

        return Graph()

    @contextlib.contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream.name
        try:
            yield
        finally:
            self.current = before


class Stream:
    def __init__(self, device):
        self.name = "side" if device == GPU else "other"

    def wait_stream(self, other):
        pass


@pytest.fixture
def cuda(monkeypatch):
    cuda = Cuda()
    zeros = torch.zeros

    def made(size, device):
        assert device == GPU
        cuda.note("zeros")
        return zeros(size)

    for name, value in {
        "Stream": Stream,
        "CUDAGraph": cuda.graph,
        "stream": cuda.stream,
        "device": lambda device: contextlib.nullcontext(),
        "current_stream": lambda device: Stream("main"),
        "graph_pool_handle": lambda: "pool",
        "synchronize": lambda device: cuda.note("synchronize"),
        "empty_cache": lambda: cuda.note("empty"),
        "reset_peak_memory_stats": lambda device: cuda.note("reset"),
        "max_memory_allocated": lambda device: len(cuda.calls),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch, "zeros", made)
    monkeypatch.setattr(
        torch._C, "_cuda_clearCublasWorkspaces", lambda: None, raising=False
    )
    for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
        monkeypatch.setattr(
            torch._C, name,
            lambda index, pool, name=name: cuda.note(f"{name} {index} {pool}"),
            raising=False)  # fmt: skip
    return cuda


GIVEN_BACK = ["synchronize in main", "empty in main", "reset in main"]


def test_captures_in_a_stream_of_its_own(cuda):
    capturing = Capturing(GPU)
    captured = capturing.capture(lambda: cuda.note("step") or 3)
    assert cuda.calls == [
        *GIVEN_BACK, "begin pool in side", "step in side", "end in side",
    ]  # fmt: skip
    assert captured.result == 3 and cuda.current == "main"
    assert capturing.peak == len(cuda.calls)


def test_warms_up_in_the_same_stream(cuda):
    Capturing(GPU).warm_up(lambda: cuda.note("step"))
    assert cuda.calls == ["step in side"] and cuda.current == "main"


def test_ends_the_capture_of_a_step_that_fails(cuda):
    cuda.fails = {"step"}
    with pytest.raises(RuntimeError, match="step failed"):
        Capturing(GPU).capture(lambda: cuda.note("step"))
    assert cuda.calls[-1] == "end in side" and cuda.current == "main"


@pytest.mark.parametrize("fails", [{"end"}, {"step", "end"}])
def test_leaves_nothing_of_a_capture_that_cannot_end(cuda, fails):
    cuda.fails = set(fails)
    with pytest.raises(RuntimeError, match=f"{max(fails)} failed"):
        Capturing(GPU).capture(lambda: cuda.note("step"))
    assert cuda.calls[4:] == [
        "step in side", "end in side",
        "_cuda_endAllocateToPool 1 pool in side",
        "_cuda_releasePool 1 pool in side",
        "begin in side", "zeros in side", "end in side",
    ]  # fmt: skip
    assert cuda.current == "main" and cuda.modes == {"thread_local"}


def test_leaves_other_threads_alone_while_it_captures(cuda):
    """One of a DataLoader pins memory: by default that would end the capture, and
    that thread with it."""
    Capturing(GPU).capture(lambda: None)
    assert cuda.modes == {"thread_local"}


def test_releases_no_memory_that_the_allocator_has_left(cuda):
    """The graph then does so."""
    cuda.fails = {"end", "_cuda_endAllocateToPool 1 pool"}
    with pytest.raises(RuntimeError, match="end failed"):
        Capturing(GPU).capture(lambda: None)
    assert not any("releasePool" in call for call in cuda.calls)


def test_notices_waiting_for_the_gpu_for_a_while(cuda, monkeypatch):
    modes = [1]
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: modes[-1])
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    with pytest.raises(ValueError):
        with Capturing(GPU).without_waiting():
            assert modes == [1, "error"]
            raise ValueError
    assert modes == [1, "error", 1]
