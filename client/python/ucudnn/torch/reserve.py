"""What steps need besides what was predicted of them."""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator

from ucudnn.errors import NoPlan

# What a step on a GPU may need more the next time: one in so many of its bytes, and a
# MiB. Steps of ViT-B and of a 3-D U-Net needed up to 1 %.
_BETWEEN = 50
_SLACK = 1 << 20
BLOCK = 512  # what a GPU's allocator rounds sizes up to


def with_slack(size: int) -> int:
    return size + size // _BETWEEN + _SLACK


def without_slack(budget: int) -> int:
    """The bytes that may be predicted of steps that are within a budget."""
    return -(-max(0, budget - _SLACK) * _BETWEEN // (_BETWEEN + 1))


def rounded(size: int, gpu: bool) -> int:
    return -(-size // BLOCK) * BLOCK if gpu else size


@contextlib.contextmanager
def naming_least(
    what: str, budget: int, needed: Callable[[int], int]
) -> Iterator[None]:
    """Has NoPlan name the least budget: what is `needed` for the solver's."""
    try:
        yield
    except NoPlan as error:
        if error.least is None:
            raise
        least = needed(error.least)
        raise NoPlan(
            f"{what}: budget: {budget} bytes; the least that is accepted is {least}",
            least,
        ) from error
