"""How long a step takes on this rank's device, and where its memory ends."""

from __future__ import annotations

import contextlib
import gc
import statistics
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterable, Iterator, Optional

import torch

from ucudnn.torch.checks import refuse, whole_number
from ucudnn.torch.devices import find_device
from ucudnn.torch.kept import gradient_bytes, stateful, unchanged
from ucudnn.torch.timing import laps

Step = Callable[[int], Any]

_WARM_UP_S = 0.3  # before the first measurement: clocks rise
_LEAST, _MOST = 5, 40  # repeats
_ENOUGH_S = 1.0  # for the repeats of one batch
_ERROR = 0.005  # of the median, at which repeating ends
# Of the images that fit, one in so many is left to where the allocator places things
# in training.
_SPARED = 64


@dataclass(frozen=True)
class StepProfile:
    """Times of one step on one kind of device."""

    kind: str
    ms: dict[int, float] = field(default_factory=dict)  # by batch
    largest: Optional[int] = None  # batch that fits; None: memory did not end
    least: int = 1  # batch that can be computed
    # Of plans within a budget: that, in bytes, and what no plan of the batch beats.
    budget: Optional[int] = None
    bound_ms: dict[int, float] = field(default_factory=dict)
    peak: dict[int, int] = field(default_factory=dict)  # bytes

    @property
    def times(self) -> dict[int, float]:
        """Of the batches that memory holds, by rising batch."""
        most = self.largest
        return {b: self.ms[b] for b in sorted(self.ms) if most is None or b <= most}

    @property
    def most(self) -> int:
        """The largest batch of one pass; 0 if there is none."""
        return max(self.times, default=0)

    @property
    def smallest(self) -> int:
        return min(self.times, default=1)

    @property
    def ends(self) -> bool:
        """Whether memory ends at `most`, rather than the measurements."""
        return self.largest is not None

    def scaled(self, factor: float) -> StepProfile:
        """The same, with all times longer by a factor."""
        times = {b: ms * factor for b, ms in self.ms.items()}
        bounds = {b: ms * factor for b, ms in self.bound_ms.items()}
        return replace(self, ms=times, bound_ms=bounds)


def profile(
    step: Step,
    batches: Iterable[int],
    *,
    keep: Iterable[Any] = (),
    device: Optional[Any] = None,
    kind: Optional[str] = None,
) -> StepProfile:
    """Measures `step(b)`, one whole iteration on b images, for each of `batches`.

    Each time is the median of repeats, after warming up, until the median is
    known to half a percent or a second has passed; on a GPU by events on the
    current stream. Where memory ends, the largest batch that fits is found by
    bisection, and one a 64th smaller is taken and measured; as in training, DDP's copy
    of the gradients and those of an earlier pass take their part of a GPU's memory.

    Afterwards everything is as before that `step` uses and that has state:
    weights, gradients, BatchNorm's statistics, optimizers, scalers, schedulers
    (found as `kept.reachable` says; `keep` names more of them), and random
    numbers. `device` is by default the current GPU, else the CPU. Not
    collective: `step` must not wait for other ranks, so it uses the bare module
    instead of a DistributedDataParallel. Raises InvalidArgument; and whatever
    `step` raises, unless it is out of memory.
    """
    wanted = sorted({whole_number("profile: batches", b, 1) for b in batches})
    if not callable(step):
        raise refuse(
            "profile: step", repr(step), "a function of a batch size is accepted"
        )
    found = find_device(device, kind)
    objects = stateful(step, keep)
    with unchanged(objects, found.device):
        with occupied(found.device, 2 * gradient_bytes(objects)):
            return _measured(step, wanted, found.device, found.kind)


@contextlib.contextmanager
def occupied(device: torch.device, size: int) -> Iterator[None]:
    """Within it so many bytes of a GPU's memory are taken. Afterwards training gets
    memory that is not cut up."""
    if device.type != "cuda":
        yield
        return
    taken = torch.empty(size, dtype=torch.uint8, device=device)
    try:
        yield
    finally:
        del taken
        torch.cuda.empty_cache()


def _measured(
    step: Step, batches: list[int], device: torch.device, kind: str
) -> StepProfile:
    times: dict[int, float] = {}
    fits, ends = 0, None
    for batch in batches:
        if not _fits(step, batch, device):
            ends = batch
            break
        if not times:
            _warm_up(step, batch, device)
        times[batch] = median_ms(step, batch, device)
        fits = batch
    if ends is None:
        return StepProfile(kind, times)
    fits = bisected(fits, ends, lambda middle: _fits(step, middle, device))
    if fits > 1:
        fits -= -(-fits // _SPARED)
    times = {b: ms for b, ms in times.items() if b <= fits}
    if fits > 0 and fits not in times:
        times[fits] = median_ms(step, fits, device)
    return StepProfile(kind, times, fits)


def bisected(fits: int, ends: int, holds: Callable[[int], bool]) -> int:
    """The largest batch that holds: `fits` does, and `ends` does not."""
    while ends - fits > 1:
        middle = (fits + ends) // 2
        if holds(middle):
            fits = middle
        else:
            ends = middle
    return fits


def _fits(step: Step, batch: int, device: torch.device) -> bool:
    """Runs the step once, which also lets cuDNN choose its algorithms."""
    try:
        step(batch)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return True
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
    # The exception held the frames that hold the step's tensors.
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return False


def out_of_memory(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    told = ("out of memory", "can't allocate memory", "ALLOC_FAILED")
    return any(text in str(error) for text in told)


def _warm_up(step: Step, batch: int, device: torch.device) -> None:
    begun = time.monotonic()
    while time.monotonic() - begun < _WARM_UP_S:
        laps(device, lambda: step(batch), 2)


def median_ms(step: Step, batch: int, device: torch.device) -> float:
    """Of repeats until it is known to half a percent or a second has passed."""
    laps(device, lambda: step(batch), 1)
    times: list[float] = []
    begun = time.monotonic()
    while len(times) < _MOST:
        times += laps(device, lambda: step(batch), _LEAST)
        low, middle, high = statistics.quantiles(times, n=4)
        error = (high - low) / 2 / len(times) ** 0.5
        if error < _ERROR * middle or time.monotonic() - begun > _ENOUGH_S:
            break
    return statistics.median(times)
