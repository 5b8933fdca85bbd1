"""What this package's plots share; they need matplotlib."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from ucudnn.errors import Error

# The colours of Okabe and Ito, which colour-blind people can tell apart.
BLUE = "#0072B2"
SKY = "#56B4E9"
GREEN = "#009E73"
ORANGE = "#E69F00"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"
YELLOW = "#F0E442"
GREY = "#999999"


def new_figure(**size: Any) -> Any:
    """An empty figure. Raises Error if matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Error("plots need matplotlib (Debian: python3-matplotlib)", 12) from error
    return Figure(layout="constrained", **size)


def axes_or_new(axes: Optional[Any], **size: Any) -> Any:
    return new_figure(**size).add_subplot() if axes is None else axes


def plain(axes: Any) -> Any:
    """Axes without a frame, with a light grid behind what they show."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    return axes


def apart(axes: Any, points: Sequence[tuple[float, float]], least: float) -> list[int]:
    """The indices of points that are at least so many typographic points away
    from those chosen before; the first and the last always are. Axes must have
    their final limits."""
    pixels = least * axes.figure.dpi / 72
    places = [tuple(axes.transData.transform(point)) for point in points]
    ends = {0, len(points) - 1} if points else set()
    chosen = sorted(ends)
    for index in range(len(points)):
        x, y = places[index]
        near = any(
            (x - places[c][0]) ** 2 + (y - places[c][1]) ** 2 < pixels**2
            for c in chosen
        )
        if not near:
            chosen.append(index)
    return sorted(chosen)
