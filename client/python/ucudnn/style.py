"""What this package's plots share; they need matplotlib."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

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
        raise Error(
            "plots need matplotlib (Debian: python3-matplotlib)", 12
        ) from error
    return Figure(layout="constrained", **size)


def titled(title: str, *, height: float = 3.4) -> Tuple[Any, Any]:
    """A figure of one plain plot under its title, and the plot's axes."""
    figure = new_figure(figsize=(8.0, height))
    axes = plain(figure.add_subplot())
    axes.set_title(title, loc="left", fontsize="medium")
    return figure, axes


def axes_or_new(axes: Optional[Any], **size: Any) -> Any:
    return new_figure(**size).add_subplot() if axes is None else axes


def plain(axes: Any) -> Any:
    """Axes without a frame, with a light grid behind what they show."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    return axes


def bars(
    axes: Any,
    groups: Sequence[str],
    series: Sequence[Tuple[str, str, Sequence[Optional[float]]]],
    form: str,
) -> None:
    """Groups of bars, one for each series (label, colour, heights), with their
    heights above them as `form` writes them, "" not at all; None has no bar."""
    axes.grid(False, axis="x")
    width = 0.8 / len(series)
    for index, (label, colour, heights) in enumerate(series):
        left = width * (index - (len(series) - 1) / 2)
        shown = [(x, height) for x, height in enumerate(heights) if height is not None]
        axes.bar(
            [x + left for x, _ in shown], [height for _, height in shown],
            width=0.92 * width, color=colour, label=label,
            hatch="//" if colour == GREY else None, edgecolor="white",
        )  # fmt: skip
        for x, height in shown:
            axes.annotate(
                form.format(height), (x + left, height), (0, 1),
                textcoords="offset points", ha="center", va="bottom",
                fontsize="x-small",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            )  # fmt: skip
    axes.set_xticks(range(len(groups)))
    axes.set_xticklabels(groups)


def apart(
    axes: Any, points: Sequence[Tuple[float, float]], least: float
) -> List[int]:
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
