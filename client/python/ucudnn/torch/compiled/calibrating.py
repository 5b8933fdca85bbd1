"""Times of nodes, which were measured one by one, scaled to what whole passes take."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

# Two plans tell what computing again takes if their backward passes differ by more than
# this part, and if it is not further from the forward pass's scale than this factor.
_LEAST_APART = 0.02
_MOST_OFF = 4.0


class Scales(NamedTuple):
    """What is measured of what the nodes' times add up to."""

    forward: float = 1.0
    backward: float = 1.0
    again: float = 1.0  # what is computed again

    def times(self, others: Scales) -> Scales:
        return Scales(*(a * b for a, b in zip(self, others)))

    def apart(self, others: Scales) -> float:
        return max(abs(a / b - 1) for a, b in zip(self, others))


class Measured(NamedTuple):
    """Of steps under one plan: medians, and the most bytes."""

    us: float  # of the whole step
    forward_us: float  # of the graphs
    backward_us: float
    peak: Optional[int]  # None: not known


# What a plan computes again in a step, by its nodes' times, and what the backward
# passes took.
Backward = tuple[float, float]


def ratios(
    seen: Measured,
    expected: tuple[float, float, float],
    scales: Scales,
    others: Sequence[Backward],
) -> Scales:
    """By what to multiply `scales`, under which forward pass, plain backward pass and
    what is computed again in it were expected to take so long. `others` are plans
    measured before.

    What is computed again is a part of the forward pass, and takes its scale, unless
    two plans tell it. The rest of the backward pass's time is its own.
    """
    forward_us, backward_us, again_us = expected
    forward = seen.forward_us / forward_us if forward_us else 1.0
    told = scales.forward * forward
    slope = _slope((again_us / scales.again, seen.backward_us), others)
    if slope is not None and told / _MOST_OFF < slope < told * _MOST_OFF:
        told = slope
    again = told / scales.again
    own = max(seen.backward_us - again_us * again, seen.backward_us / _MOST_OFF)
    if again_us:
        again = (seen.backward_us - own) / again_us
    return Scales(forward, own / backward_us if backward_us else 1.0, again)


def _slope(last: Backward, others: Sequence[Backward]) -> Optional[float]:
    """Measured time of what is computed again for each microsecond of its nodes."""
    if not others:
        return None
    other = max(others, key=lambda one: abs(one[0] - last[0]))
    added = last[0] - other[0]
    if abs(added) <= _LEAST_APART * last[1]:
        return None
    return (last[1] - other[1]) / added
