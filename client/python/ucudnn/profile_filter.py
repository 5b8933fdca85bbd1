"""Which rows of a profile count, as functions take them by name."""

from __future__ import annotations

from typing import Any, Mapping, Optional, TypedDict, get_type_hints

from ucudnn.literals import Layout, Operation, Precision


class ProfileFilter(TypedDict, total=False):
    """Values of columns; each is required where the profile has several."""

    device: str
    network: str
    precision: Optional[Precision]
    layout: Optional[Layout]
    # Of algorithms, as far as the profile has errors.
    max_error: Optional[float]


class KernelFilter(ProfileFilter, total=False):
    """Besides, those of one kernel."""

    layer: str
    op: Optional[Operation]


def named(options: Mapping[str, Any], known: type = KernelFilter) -> dict[str, Any]:
    """The same, for a request. Raises TypeError for names that the class of options
    does not have, as a function does that lists its arguments."""
    names = sorted(get_type_hints(known))
    for name in options:
        if name not in names:
            raise TypeError(
                f"unexpected keyword argument {name!r}; accepted: " + ", ".join(names)
            )
    return dict(options)
