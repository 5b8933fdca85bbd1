"""What can be checked of a memory plan without its training graph."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from ucudnn.errors import InvalidArgument

if TYPE_CHECKING:
    from ucudnn.memory_plans import BlockLife, MemoryPlan, MemoryRound


def whole_ns(time_us: float) -> float:
    """A sum of times, rounded so that equal ones compare equal."""
    return round(time_us, 3)


def check_memory_plan(plan: MemoryPlan) -> None:
    """As MemoryPlan.check."""
    for number, round_ in enumerate(plan.rounds):
        _check_order(f"rounds[{number}]", round_)
    lives = plan.lives()
    _check_addresses(lives, plan.budget_bytes)
    _check_sums(plan, lives)


def _expect(place: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise InvalidArgument(f"{place}: {found}; it should be {expected}", 3)


def _check_order(place: str, round_: MemoryRound) -> None:
    ends: List[float] = []
    ready: Dict[str, float] = {}  # when each stream can run its next event
    for number, event in enumerate(round_.events):
        here = f"{place}.events[{number}]"
        if not all(0 <= other < number for other in event.after):
            raise InvalidArgument(
                f"{here}.after: {event.after}; earlier events are accepted", 3
            )
        waits = [ready.get(event.stream, 0.0), *(ends[i] for i in event.after)]
        _expect(f"{here}.start_us", event.start_us, max(waits))
        ends.append(whole_ns(event.start_us + (event.dur_us or 0)))
        ready[event.stream] = ends[-1]
    _expect(f"{place}.time_us", round_.time_us, max(ends, default=0.0))


def _check_addresses(lives: List[BlockLife], budget: int) -> None:
    # Ranges by offset; only neighbours can overlap while no two others do.
    live: List[Tuple[int, int, int]] = []  # offset, end, index into lives
    ends: List[Tuple[float, int]] = []
    for index, life in enumerate(lives):
        if not 0 <= life.offset <= life.offset + life.bytes <= budget:
            raise InvalidArgument(
                f"{life.block}: {life.bytes} bytes at {life.offset}; a range "
                f"within the budget of {budget} is accepted",
                3,
            )
        while ends and ends[0][0] <= life.start_us:
            _, ended = ends.pop(0)
            offset = lives[ended].offset
            live.remove((offset, offset + lives[ended].bytes, ended))
        if life.bytes == 0 or life.start_us == life.end_us:
            continue
        mine = (life.offset, life.offset + life.bytes, index)
        place = bisect_left(live, mine)
        for low, high, other in live[max(place - 1, 0) : place + 1]:
            if low < mine[1] and mine[0] < high:
                raise InvalidArgument(
                    f"{life.block}: {life.bytes} bytes at {life.offset} from "
                    f"{life.start_us} us; {lives[other].block} is there until "
                    f"{lives[other].end_us} us",
                    3,
                )
        insort(live, mine)
        insort(ends, (life.end_us, index))


def _check_sums(plan: MemoryPlan, lives: List[BlockLife]) -> None:
    time = whole_ns(sum(r.count * r.time_us for r in plan.rounds))
    _expect("time_us", plan.time_us, time)
    busy = 0.0
    moved = {"offload": 0, "prefetch": 0}
    for event in plan.events:
        if event.stream == "compute":
            busy += event.dur_us or 0
        if event.op in moved:
            moved[event.op] += event.bytes or 0
    _expect("stall_us", plan.stall_us, whole_ns(time - busy))
    _expect("offloaded_bytes", plan.offloaded_bytes, moved["offload"])
    _expect("prefetched_bytes", plan.prefetched_bytes, moved["prefetch"])
    peak = max((life.offset + life.bytes for life in lives), default=0)
    _expect("peak_bytes", plan.peak_bytes, peak)
    batch = sum(r.count * r.batch for r in plan.rounds)
    _expect("batch", plan.batch, batch)
