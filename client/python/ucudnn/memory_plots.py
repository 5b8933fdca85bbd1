"""Plots of memory plans; they need matplotlib."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Optional, Sequence

from ucudnn import style
from ucudnn.memory_plans import BlockLife, MemoryEvent, MemoryPlan
from ucudnn.sizes import size_text, time_text

_KINDS = {
    "weight": ("weights", style.BLUE),
    "weight_gradient": ("gradients of weights", style.SKY),
    "momentum": ("momentum", style.BLUE),
    "input": ("inputs", style.PURPLE),
    "activation": ("activations", style.GREEN),
    "gradient": ("gradients of activations", style.ORANGE),
    "statistics": ("statistics", style.VERMILION),
    "mask": ("dropout masks", style.YELLOW),
    "workspace": ("workspaces", style.GREY),
    "": ("blocks", style.YELLOW),  # in plans without kinds
}
_ROWS = {
    "compute": ("tasks", style.GREEN),
    "host": ("tasks on the host", style.GREY),
    "offload": ("to the host", style.VERMILION),
    "prefetch": ("from the host", style.BLUE),
}
_FONT = 6.0  # points, of the blocks' names


def plot_arena(plan: MemoryPlan, axes: Optional[Any] = None) -> Any:
    """Plots offset over time (ms): a rectangle for each of plan.lives(), coloured
    by its kind and named where there is room. The budget is a line, unless it is
    more than twice the pool. Returns the axes; unless given, of a new figure.
    Raises Error if matplotlib is missing.
    """
    axes = style.axes_or_new(axes, figsize=(10.0, 6.0))
    from matplotlib.collections import PolyCollection

    unit, unit_name = _unit(plan)
    by_kind: dict[str, list[BlockLife]] = defaultdict(list)
    for life in plan.lives():
        by_kind[life.kind].append(life)
    for kind, (label, colour) in _KINDS.items():
        if kind in by_kind:
            rectangles = PolyCollection(
                [_corners(life, unit) for life in by_kind[kind]],
                facecolor=colour,
                edgecolor="white",
                linewidth=0.2,
                label=label,
            )
            axes.add_collection(rectangles)
    _frame(axes, plan, unit)
    for kind, lives in by_kind.items():
        _name_blocks(axes, lives, unit, "white" if kind == "weight" else "black")
    axes.set_ylabel(f"offset ({unit_name})")
    axes.set_xlabel("time (ms)")
    _legend(axes, below=0.12)
    return axes


def plot_memory(
    plan: MemoryPlan, axes: Optional[Sequence[Any]] = None
) -> tuple[Any, Any]:
    """Plots live bytes over time (ms), stacked by kind, with the budget as in
    plot_arena; below, when tasks and transfers run. Returns both axes; unless
    given, of a new figure: plot_memory(p)[0].figure.savefig(...). Raises Error
    if matplotlib is missing.
    """
    if axes is None:
        figure = style.new_figure(figsize=(10.0, 6.0))
        axes = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [4, 1]})
    memory, transfers = axes
    unit, unit_name = _unit(plan)
    times, live = live_bytes(plan)
    below = [0.0] * len(times)
    for kind, (label, colour) in _KINDS.items():
        if kind in live:
            above = [b + v / unit for b, v in zip(below, live[kind])]
            memory.fill_between(
                times, below, above,
                step="post", facecolor=colour, linewidth=0, label=label,
            )  # fmt: skip
            below = above
    _frame(memory, plan, unit)
    memory.set_ylabel(f"live bytes ({unit_name})")
    _draw_rows(transfers, plan.events)
    transfers.set_xlabel("time (ms)")
    _legend(memory, below=0.02)
    return memory, transfers


def _unit(plan: MemoryPlan) -> tuple[int, str]:
    return (1 << 30, "GiB") if plan.peak_bytes >= 1 << 30 else (1 << 20, "MiB")


def _corners(life: BlockLife, unit: int) -> list[tuple[float, float]]:
    left, right = life.start_us / 1000, life.end_us / 1000
    low, high = life.offset / unit, (life.offset + life.bytes) / unit
    return [(left, low), (right, low), (right, high), (left, high)]


def live_bytes(plan: MemoryPlan) -> tuple[list[float], dict[str, list[int]]]:
    """By kind, how much is live from each time (ms) on."""
    changes: dict[float, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for life in plan.lives():
        changes[life.start_us][life.kind] += life.bytes
        changes[life.end_us][life.kind] -= life.bytes
    times = sorted(changes)
    live = {}
    for kind in {kind for change in changes.values() for kind in change}:
        total = 0
        live[kind] = [total := total + changes[t][kind] for t in times]
    return [time / 1000 for time in times], live


def _frame(axes: Any, plan: MemoryPlan, unit: int) -> None:
    axes.set_xlim(0, plan.time_us / 1000)
    top = plan.peak_bytes
    if plan.budget_bytes <= 2 * plan.peak_bytes:
        top = max(top, plan.budget_bytes)
        axes.axhline(
            plan.budget_bytes / unit,
            color="black", linestyle="--", linewidth=1, label="budget",
        )  # fmt: skip
    axes.set_ylim(0, 1.05 * top / unit)
    axes.set_title(
        f"{plan.network}, batch {plan.batches_text()}, {plan.policy}: "
        f"{time_text(plan.time_us)}, of which {time_text(plan.stall_us)} stalls; "
        f"{size_text(plan.peak_bytes)} of {size_text(plan.budget_bytes)}",
        loc="left", fontsize="medium",
    )  # fmt: skip


def _name_blocks(axes: Any, lives: list[BlockLife], unit: int, colour: str) -> None:
    points = 72 / axes.figure.dpi
    across = axes.bbox.width * points / axes.get_xlim()[1]
    up = axes.bbox.height * points / axes.get_ylim()[1]
    for life in lives:
        (left, low), _, (right, high), _ = _corners(life, unit)
        wide = 0.6 * _FONT * len(life.block) < (right - left) * across
        if wide and 1.2 * _FONT < (high - low) * up:
            axes.text(
                (left + right) / 2, (low + high) / 2, life.block,
                color=colour, fontsize=_FONT, ha="center", va="center",
            )  # fmt: skip


def _draw_rows(axes: Any, events: list[MemoryEvent]) -> None:
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for event in events:
        if event.dur_us is not None:
            row = "host" if event.stream == "host" else event.op
            rows[row].append((event.start_us / 1000, event.dur_us / 1000))
    shown = [row for row in _ROWS if row in rows]
    for place, row in enumerate(shown):
        axes.broken_barh(
            rows[row], (place - 0.4, 0.8), facecolor=_ROWS[row][1], linewidth=0
        )
    axes.set_yticks(range(len(shown)))
    axes.set_yticklabels([_ROWS[row][0] for row in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)


def _legend(axes: Any, below: float) -> None:
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -below),
        ncol=5, frameon=False, fontsize="small",
    )  # fmt: skip
