"""Times of alternatives on one device, measured in turns."""

from __future__ import annotations

import statistics
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple

import torch

from ucudnn.torch.devices import current

_ROUNDS = 5
_GROUP_MS = 3.0
_MOST_RUNS = 30
# Cycles in which the host enqueues one run, generously.
_HEAD_START = 200_000


class Time(NamedTuple):
    """A median, with half the interquartile range."""

    ms: float
    spread: float


def time_of(values: List[float]) -> Time:
    middle = statistics.median(values)
    if len(values) < 2:
        return Time(middle, 0.0)
    low, _, high = statistics.quantiles(values, n=4)
    return Time(middle, (high - low) / 2)


def times_of(
    runs: Mapping[str, Callable[[], Any]],
    device: torch.device,
    rounds: int = _ROUNDS,
    head_start: int = _HEAD_START,
) -> Dict[str, Time]:
    """The device's time of each run, in turns, in groups of about 3 ms after a
    warm-up. On a GPU each group is enqueued before the device begins with it, if
    the host enqueues a run in `head_start` cycles of the GPU's clock.
    """
    counts = {}
    for name, run in runs.items():
        run()
        _once(run, device, 1, head_start)
        once = _once(run, device, 1, head_start)
        counts[name] = int(_GROUP_MS / max(once, 1e-4))
        counts[name] = max(1, min(_MOST_RUNS, counts[name]))
    told: Dict[str, List[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            told[name].append(_once(run, device, counts[name], head_start))
    return {name: time_of(values) for name, values in told.items()}


def _once(
    run: Callable[[], Any], device: torch.device, count: int, head_start: int
) -> float:
    """Milliseconds of one run, the mean of `count`."""
    if device.type != "cuda":
        begun = time.perf_counter()
        for _ in range(count):
            run()
        return (time.perf_counter() - begun) * 1e3 / count
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    with current(device):
        torch.cuda._sleep(head_start * count)
        start.record()
        for _ in range(count):
            run()
        end.record()
    end.synchronize()
    return start.elapsed_time(end) / count
