"""Where tensors are cut along one axis, as solver/memory/split/window_split.h derives
it."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

Range = tuple[int, int]


class Window(NamedTuple):
    """How an operator reads an axis of its input."""

    extent: int = 1
    stride: int = 1
    before: int = 0  # padding
    after: int = 0

    def cuts_for(self, output: int) -> Range:
        """Where the input may be cut for the output to be cut before an element."""
        low = output * self.stride - self.before
        return low, low + max(0, self.extent - self.stride)

    def outputs_for(self, cuts: Range) -> Range:
        """The other way round."""
        reach = max(self.extent, self.stride) - self.before - cuts[0]
        return 1 - reach // self.stride, (cuts[1] + self.before) // self.stride

    def pads(self, part: Range, output: Range, outputs: int) -> Range:
        """The padding of a part of the input for a part of all outputs."""
        inner_before = part[0] - self.cuts_for(output[0])[0]
        inner_after = self.cuts_for(output[1])[1] - part[1]
        return (
            inner_before if output[0] > 0 else self.before,
            inner_after if output[1] < outputs else self.after,
        )


class Step(NamedTuple):
    """An operator of several that follow each other."""

    input: Any
    output: Any
    window: Window


class NoCut(Exception):
    """At an operator whose input cannot be cut as others need it."""


def find_cuts(
    steps: Sequence[Step], sizes: Mapping[Any, int], last: Any, place: int
) -> dict[Any, int]:
    """Cuts all tensors so that `last` is cut before element `place`: each as near to
    the middle of what is open as there is a solution. Raises NoCut."""
    ranges = {tensor: (1, size - 1) for tensor, size in sizes.items()}
    ranges = _narrowed(steps, {**ranges, last: (place, place)})
    backwards = [step.output for step in reversed(steps)]
    for tensor in dict.fromkeys(backwards + [step.input for step in steps]):
        low, high = ranges[tensor]
        middle = (low + high) // 2
        for at in sorted(range(low, high + 1), key=lambda at: (abs(at - middle), at)):
            try:
                ranges = _narrowed(steps, {**ranges, tensor: (at, at)})
                break
            except NoCut:
                continue
    return {tensor: low for tensor, (low, _) in ranges.items()}


def _narrowed(steps: Sequence[Step], ranges: dict[Any, Range]) -> dict[Any, Range]:
    """Until every step agrees with its input's and output's."""

    def both(a: Range, b: Range) -> Range:
        low, high = max(a[0], b[0]), min(a[1], b[1])
        if low > high:
            raise NoCut(step.output)
        return low, high

    before = None
    while before != ranges:
        before = dict(ranges)
        for step in reversed(steps):
            low, high = ranges[step.output]
            needed = step.window.cuts_for(low)[0], step.window.cuts_for(high)[1]
            ranges[step.input] = both(ranges[step.input], needed)
            made = step.window.outputs_for(ranges[step.input])
            ranges[step.output] = both(ranges[step.output], made)
    return ranges
