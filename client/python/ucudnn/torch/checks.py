"""How ucudnn.torch refuses what it does not accept."""

from __future__ import annotations

from typing import Any

from ucudnn.errors import InvalidArgument


def refuse(place: str, value: Any, accepted: str) -> InvalidArgument:
    """The error for a value. `accepted` says what would be: "64 is accepted"."""
    return InvalidArgument(f"{place}: {value}; {accepted}")


def whole_number(place: str, value: Any, least: int, accepted: str) -> int:
    """`value` as an int of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise refuse(place, repr(value), f"{accepted} is accepted")
    return value
