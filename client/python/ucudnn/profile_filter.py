"""Which rows of a profile count, as functions take them by name."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, TypedDict

from ucudnn.literals import Layout, Operation, Precision


class ProfileFilter(TypedDict, total=False):
    """Values of columns; each is required where the profile has several."""

    device: str
    network: str
    precision: Optional[Precision]
    layout: Optional[Layout]
    max_error: float  # of algorithms, as far as the profile has errors


class KernelFilter(ProfileFilter, total=False):
    """Besides, those of one kernel."""

    layer: str
    op: Optional[Operation]


def named(rows: Mapping[str, Any]) -> Dict[str, Any]:
    """The same, for a request. Raises TypeError for other names, as a function
    does that lists its arguments."""
    known = sorted(KernelFilter.__annotations__)
    for name in rows:
        if name not in known:
            raise TypeError(
                f"unexpected keyword argument {name!r}; rows are selected by "
                + ", ".join(known)
            )
    return dict(rows)
