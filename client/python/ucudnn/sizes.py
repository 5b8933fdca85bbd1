"""Parses sizes such as "64MiB"."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Union

from ucudnn.errors import InvalidArgument

Size = Union[int, str]

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS[f"{_letter}iB"] = 1024**_power
    _UNITS[f"{_letter}B"] = 1000**_power


def parse_size(size: Size) -> int:
    """The bytes of 67108864, "67108864", "64MiB", "1.5 GiB" or "8MB". Raises
    InvalidArgument for anything else, or a fraction of a byte."""
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)", str(size))
    if found and found[2] in _UNITS:
        value = Fraction(found[1]) * _UNITS[found[2]]
        if value.denominator == 1:
            return int(value)
    raise InvalidArgument(
        f"{size!r} is not a size; a whole number of bytes is accepted, or text such "
        "as 64MiB",
        3,
    )
