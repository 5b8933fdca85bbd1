"""Sizes such as "64MiB", whole numbers of any library, and both for people."""

from __future__ import annotations

import operator
import re
from fractions import Fraction
from typing import SupportsIndex, Union

from ucudnn.errors import InvalidArgument

Size = Union[SupportsIndex, str]

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS[f"{_letter}I"] = _UNITS[f"{_letter}IB"] = 1024**_power
    _UNITS[f"{_letter}B"] = 1000**_power


def parse_size(size: Size) -> int:
    """The bytes of 67108864, "67108864", "64MiB", "1.5 GiB" or "8MB", in any
    case and rounded down; numpy's integers are accepted too. Raises InvalidArgument
    for anything else, also a fraction of plain bytes."""
    if hasattr(size, "__index__") and not isinstance(size, bool):
        count = operator.index(size)
        if count >= 0:
            return count
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)", str(size))
    if found and found[2].upper() in _UNITS:
        unit = _UNITS[found[2].upper()]
        value = Fraction(found[1]) * unit
        if unit > 1 or value.denominator == 1:
            return int(value)
    raise InvalidArgument(
        f"{size!r} is not a size; a whole number of bytes is accepted, or text such "
        "as 64MiB"
    )


def as_int(number: SupportsIndex) -> int:
    """Python's own integer of any library's, such as numpy's."""
    return operator.index(number)


def size_text(size: int) -> str:
    """For people: "64 MiB", "1.46 GiB"."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{_short(size / unit)} {name}"
    return f"{size} B"


def time_text(time_us: float) -> str:
    """For people: "20.5 ms", "731 us"."""
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if time_us >= unit:
            return f"{_short(time_us / unit)} {name}"
    return f"{_short(time_us)} us"


def _short(value: float) -> str:
    """Three digits, without zeros that say nothing."""
    if value >= 99.95:
        return f"{value:.0f}"
    text = f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".")
