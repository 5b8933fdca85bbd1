"""The text form of a convolution problem, its key everywhere
(base/conv_problem.h)."""

from __future__ import annotations

from typing import Sequence


def problem_text(
    operation: str,
    channels: int,
    input: Sequence[int],
    filters: int,
    filter: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    precision: str,
    layout: str,
    images: int = 1,
) -> str:
    """Sequences have height and width, or depth, height and width; `images` are
    convolved for one image of the batch."""

    def extents(names: str, values: Sequence[int]) -> str:
        return "".join(f"{n}{v}" for n, v in zip(names[-len(values) :], values))

    def joined(values: Sequence[int]) -> str:
        return "x".join(map(str, values))

    return (
        f"{operation}{f'-n{images}' if images != 1 else ''}-c{channels}-{extents('dhw', input)}"
        f"-k{filters}-{extents('trs', filter)}"
        f"-pad{joined(padding)}-str{joined(stride)}-dil{joined(dilation)}"
        f"-g{groups}-{precision}-{layout}"
    )
