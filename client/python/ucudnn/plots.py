"""Plots of plans; they need matplotlib."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from ucudnn.plans import FrontPoint, Front, KernelPlan, WorkspacePlan, division_text
from ucudnn.sizes import size_text, time_text
from ucudnn.style import BLUE, GREY, VERMILION, apart, axes_or_new, plain

_MIB = 1 << 20
_MOST_KERNELS = 48  # beyond, a page has no room
_MOST_NAMED = 20


def plot_pareto(front: Sequence[FrontPoint], axes: Optional[Any] = None) -> Any:
    """Plots time (ms) over workspace (MiB), with the limit as a line. Points far
    enough from each other have numbers, under which a key beside the axes tells
    their divisions. Returns the axes; unless given, of a new figure:
    plot_pareto(f).figure.savefig(...). Raises Error if matplotlib is missing.
    """
    axes = plain(axes_or_new(axes, figsize=(8.0, 4.0)))
    workspaces = [point.workspace_bytes / _MIB for point in front]
    times = [point.time_us / 1000 for point in front]
    axes.step(workspaces, times, where="post", color=BLUE, linewidth=1.5)
    axes.plot(workspaces, times, "o", color=BLUE, markersize=5, clip_on=False)
    limit = getattr(front, "workspace_limit_bytes", 0) / _MIB
    if limit:
        axes.axvline(limit, color=VERMILION, linestyle="--", linewidth=1.2)
        axes.annotate(
            "limit", (limit, 1), xycoords=("data", "axes fraction"),
            xytext=(-3, -3), textcoords="offset points", ha="right", va="top",
            color=VERMILION, fontsize="small",
        )  # fmt: skip
    axes.set_xlabel("workspace (MiB)")
    axes.set_ylabel("time (ms)")
    axes.set_xlim(0, 1.04 * max([limit, *workspaces], default=1) or 1)
    axes.set_ylim(0, 1.15 * max(times, default=1))
    axes.set_title(
        front.title if isinstance(front, Front) and front.title else "Pareto front",
        loc="left",
    )
    _number(axes, list(zip(workspaces, times)), front)
    return axes


def _number(axes: Any, points: list[Any], front: Sequence[FrontPoint]) -> None:
    """Numbers points, and lists their divisions to the right of the axes."""
    axes.figure.canvas.draw()
    chosen = apart(axes, points, least=12)
    every = -(-len(chosen) // _MOST_NAMED)
    lines = []
    for number, index in enumerate(chosen[:: every or 1], start=1):
        axes.annotate(
            str(number), points[index], xytext=(3, 3),
            textcoords="offset points", fontsize="small",
        )  # fmt: skip
        lines.append(f"{number}  {division_text(front[index].micro_batches)}")
    axes.annotate(
        "\n".join(lines), (1, 1), xycoords="axes fraction", xytext=(8, 0),
        textcoords="offset points", va="top", fontsize="small",
        linespacing=1.4,
    )  # fmt: skip


def plot_plan(plan: WorkspacePlan, axes: Optional[Any] = None) -> Any:
    """Plots each kernel's planned and undivided time (ms) with its division; of
    more kernels than a page has room for, those of most time. Returns the axes;
    unless given, of a new figure. Raises Error if matplotlib is missing."""
    kernels = plan.kernels
    if len(kernels) > _MOST_KERNELS:
        places = sorted(range(len(kernels)), key=lambda i: _longest(kernels[i]))
        kernels = [plan.kernels[i] for i in sorted(places[-_MOST_KERNELS:])]
    height = 1.2 + 0.3 * max(len(kernels), 2)
    axes = plain(axes_or_new(axes, figsize=(8.0, height)))
    rows = range(len(kernels))
    axes.barh(
        [row - 0.2 for row in rows],
        [(k.undivided_time_us or 0) / 1000 for k in kernels],
        height=0.4, color=GREY, label="undivided",
    )  # fmt: skip
    axes.barh(
        [row + 0.2 for row in rows],
        [k.time_us / 1000 for k in kernels],
        height=0.4, color=BLUE, label="planned",
    )  # fmt: skip
    for row, kernel in zip(rows, kernels):
        axes.annotate(
            _shortened(division_text(kernel.micro_batches)),
            (_longest(kernel) / 1000, row),
            xytext=(4, 0), textcoords="offset points", va="center",
            fontsize="x-small",
        )  # fmt: skip
    longest = max(map(_longest, kernels), default=0) / 1000
    axes.set_xlim(0, 1.5 * longest or 1)  # room for the longest bar's division
    axes.set_yticks(list(rows))
    axes.set_yticklabels([f"{k.layer} {k.op}" for k in kernels], fontsize="small")
    axes.set_ylim(len(kernels) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.set_xlabel("time (ms)")
    axes.set_title(_title(plan, len(kernels)), loc="left", fontsize="medium")
    axes.legend(loc="lower right", frameon=False)
    return axes


def _longest(kernel: KernelPlan) -> float:
    return max(kernel.time_us, kernel.undivided_time_us or 0)


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _title(plan: WorkspacePlan, shown: int) -> str:
    title = f"batch {plan.batch}, limit {size_text(plan.workspace_limit_bytes)}: "
    title += time_text(plan.total_time_us)
    if plan.undivided_time_us:
        title += f", undivided {time_text(plan.undivided_time_us)}"
    if shown < len(plan.kernels):
        title += f" (the longest {shown} of {len(plan.kernels)} kernels)"
    return title
