"""Step times of a job, and when they call for other shares."""

from __future__ import annotations

import collections
import statistics
from typing import Deque, List, NamedTuple, Optional

_FIRST, _LAST = 16, 112  # as the coordinator keeps of a job's steps
_WARM_UP = 4  # of the first ones, that do not count


class StepTimes(NamedTuple):
    """What one rank tells the others."""

    first_ms: float  # median of the first steps under these shares
    last_ms: float  # median of the last ones


class StepLog:
    """One rank's step times under the current shares."""

    def __init__(self) -> None:
        self._first: List[float] = []
        self._last: Deque[float] = collections.deque(maxlen=_LAST)
        self._count = 0

    def add(self, ms: float) -> None:
        self._count += 1
        if self._count <= _WARM_UP:
            return
        if len(self._first) < _FIRST:
            self._first.append(ms)
        else:
            self._last.append(ms)

    def clear(self) -> None:
        self._first.clear()
        self._last.clear()
        self._count = 0

    def times(self) -> Optional[StepTimes]:
        """None until there are enough steps of both."""
        if len(self._last) < _FIRST:
            return None
        recent = list(self._last)[-_FIRST:]
        return StepTimes(
            statistics.median(self._first), statistics.median(recent)
        )


def drifts(times: List[Optional[StepTimes]], tolerance: float) -> List[float]:
    """By what factor each rank's steps became longer or shorter than its first
    ones; 1 within the tolerance. All 1 until every rank has enough steps."""
    if any(t is None or t.first_ms <= 0 for t in times):
        return [1.0] * len(times)
    factors = [t.last_ms / t.first_ms for t in times if t is not None]
    return [f if abs(f - 1) > tolerance else 1.0 for f in factors]
