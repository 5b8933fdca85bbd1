"""Plots of plans; they need matplotlib."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from ucudnn.errors import Error
from ucudnn.plans import FrontPoint, MicroBatch, WorkspacePlan

_MIB = 1 << 20


def new_figure(**size: Any) -> Any:
    """An empty figure. Raises Error if matplotlib is missing."""
    try:
        from matplotlib.figure import Figure  # type: ignore[import]
    except ImportError as error:
        raise Error(
            "plots need matplotlib (Debian: python3-matplotlib)", 12
        ) from error
    return Figure(layout="constrained", **size)


def _axes(axes: Optional[Any], **size: Any) -> Any:
    return new_figure(**size).add_subplot() if axes is None else axes


def _division(micro_batches: Sequence[MicroBatch]) -> str:
    return " + ".join(
        f"{m.count} of {m.batch} images" for m in micro_batches
    )


def plot_pareto(front: Sequence[FrontPoint], axes: Optional[Any] = None) -> Any:
    """Plots time (ms) over workspace (MiB), each point with its division. Returns
    the axes; unless given, of a new figure: plot_pareto(f).figure.savefig(...).
    Raises Error if matplotlib is missing.
    """
    axes = _axes(axes)
    workspaces = [point.workspace_bytes / _MIB for point in front]
    times = [point.time_us / 1000 for point in front]
    axes.step(workspaces, times, where="post", marker="o")
    for point, x, y in zip(front, workspaces, times):
        axes.annotate(
            _division(point.micro_batches),
            (x, y),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize="small",
        )
    axes.set_xlabel("workspace (MiB)")
    axes.set_ylabel("time (ms)")
    axes.set_ylim(bottom=0)
    return axes


def plot_plan(plan: WorkspacePlan, axes: Optional[Any] = None) -> Any:
    """Plots each kernel's planned and undivided time (ms) with its division.
    Returns the axes; unless given, of a new figure. Raises Error if matplotlib
    is missing."""
    height = max(3.0, 0.35 * len(plan.kernels))
    axes = _axes(axes, figsize=(8.0, height))
    rows = range(len(plan.kernels))
    axes.barh(
        [row - 0.2 for row in rows],
        [(k.undivided_time_us or 0) / 1000 for k in plan.kernels],
        height=0.4,
        color="lightgray",
        label="undivided",
    )
    axes.barh(
        [row + 0.2 for row in rows],
        [k.time_us / 1000 for k in plan.kernels],
        height=0.4,
        label="planned",
    )
    for row, kernel in zip(rows, plan.kernels):
        axes.annotate(
            _division(kernel.micro_batches),
            (kernel.time_us / 1000, row + 0.2),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize="x-small",
        )
    axes.set_yticks(list(rows))
    axes.set_yticklabels([f"{k.layer} {k.op}" for k in plan.kernels])
    axes.invert_yaxis()
    axes.set_xlabel("time (ms)")
    axes.set_title(
        f"batch {plan.batch}, {plan.total_time_us / 1000:.1f} ms, "
        f"{plan.total_workspace_bytes / _MIB:.0f} MiB"
    )
    axes.legend()
    return axes
