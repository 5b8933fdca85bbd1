"""A device's clock, and times of alternatives on it, measured in turns."""

from __future__ import annotations

import statistics
import time
from typing import Any, Callable, Mapping, NamedTuple

import torch

from ucudnn.torch.devices import current

_ROUNDS = 5
_GROUP_MS = 3.0
_MOST_RUNS = 30
# Cycles in which the host enqueues one run, generously.
_HEAD_START = 200_000


def mark(device: torch.device) -> Any:
    """A point in time on the device's current stream; on a CPU, now."""
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    with current(device):
        event.record()
    return event


def ms_between(begin: Any, end: Any) -> float:
    """Of two marks, whose device has reached both."""
    if isinstance(begin, float):
        return float(end - begin) * 1e3
    return float(begin.elapsed_time(end))


def laps(device: torch.device, run: Callable[[], Any], count: int) -> list[float]:
    """The milliseconds of each of `count` runs that follow one another; waits for the
    last."""
    marks = [mark(device)]
    for _ in range(count):
        run()
        marks.append(mark(device))
    if device.type == "cuda":
        marks[-1].synchronize()
    return [ms_between(a, b) for a, b in zip(marks, marks[1:])]


def besides(device: torch.device, run: Callable[[], Any]) -> int:
    """The bytes that a run takes of a GPU's memory at once, besides operands and what
    it returns."""
    run()  # chooses its algorithm
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    result = run()
    most = torch.cuda.max_memory_allocated(device)
    taken = most - torch.cuda.memory_allocated(device)
    del result
    return int(taken)


class Time(NamedTuple):
    """A median, with half the interquartile range."""

    ms: float
    spread: float


def time_of(values: list[float]) -> Time:
    middle = statistics.median(values)
    if len(values) < 2:
        return Time(middle, 0.0)
    low, _, high = statistics.quantiles(values, n=4)
    return Time(middle, (high - low) / 2)


def times_of(
    runs: Mapping[str, Callable[[], Any]], device: torch.device, rounds: int = _ROUNDS
) -> dict[str, Time]:
    """The device's time of each run, in turns, in groups of about 3 ms after a
    warm-up. On a GPU each group is enqueued before the device begins with it, if
    the host enqueues a run in _HEAD_START cycles of the GPU's clock.
    """
    counts = {}
    for name, run in runs.items():
        run()
        _once(run, device, 1)
        once = _once(run, device, 1)
        counts[name] = int(_GROUP_MS / max(once, 1e-4))
        counts[name] = max(1, min(_MOST_RUNS, counts[name]))
    told: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            told[name].append(_once(run, device, counts[name]))
    return {name: time_of(values) for name, values in told.items()}


def _once(run: Callable[[], Any], device: torch.device, count: int) -> float:
    """Milliseconds of one run, the mean of `count`."""
    gpu = device.type == "cuda"
    with current(device):
        if gpu:
            torch.cuda._sleep(_HEAD_START * count)
        begin = mark(device)
        for _ in range(count):
            run()
        end = mark(device)
    if gpu:
        end.synchronize()
    return ms_between(begin, end) / count
