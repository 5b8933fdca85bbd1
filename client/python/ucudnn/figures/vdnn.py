"""Figures of vDNN and vDNNExt (Rhu et al.; Shriram), from plans that the solver makes with the
device models of docs/memory.md: predicted, not measured. Each function returns a
matplotlib Figure; `root` is the repository."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ucudnn.figures.data import MIB, memory_plan
from ucudnn.files import PathLike
from ucudnn.memory_plans import MemoryEvent
from ucudnn.style import (
    BLUE,
    GREY,
    ORANGE,
    SKY,
    VERMILION,
    bars,
    new_figure,
    plain,
    titled,
)

# The policies of the report's figures 9 and 10, as it names them.
_POLICIES = (
    ("all (m)", "vdnn-all-m", "vdnn-ext-all-m"),
    ("all (p)", "vdnn-all-p", "vdnn-ext-all-p"),
    ("conv (m)", "vdnn-conv-m", "vdnn-ext-conv-m"),
    ("conv (p)", "vdnn-conv-p", "vdnn-ext-conv-p"),
    ("dyn", "vdnn-dyn", "vdnn-ext"),
)
_CASES = (
    ("AlexNet, batch 128", "alexnet.onnx", 128),
    ("VGG-16, batch 16", "vgg16.onnx", 16),
)


def vdnn_4(root: PathLike = ".") -> Any:
    """vDNN, figure 4: VGG-16's time by layer and how long inputs are idle."""
    plan = memory_plan(root, "vgg16.onnx", 64, "TITANX", "baseline", budget="64GB")
    assert plan is not None
    layers: List[Tuple[str, float, float, float]] = []
    forward: Dict[str, List[Tuple[str, MemoryEvent]]] = {}
    for event in plan.events:
        if event.op != "compute" or "conv" not in (event.task or "").lower():
            continue
        name, _, kind = (event.task or "").rpartition(".")
        forward.setdefault(name, []).append((kind, event))
    for name, events in forward.items():
        start = events[0][1]
        backward = [event for _, event in events[1:]]
        if not backward:
            continue
        end = start.start_us + (start.dur_us or 0)
        layers.append(
            (
                name,
                (start.dur_us or 0) / 1000,
                sum(e.dur_us or 0 for e in backward) / 1000,
                (backward[0].start_us - end) / 1000,
            )
        )
    figure, axes = titled(
        "VGG-16, batch 64; device model TITANX (predicted)",
        height=3.8,
    )
    axes.grid(False, axis="x")
    places = range(len(layers))
    axes.bar(places, [f for _, f, _, _ in layers], color=BLUE, label="forward")
    axes.bar(
        places, [b for _, _, b, _ in layers], bottom=[f for _, f, _, _ in layers],
        color=ORANGE, label="backward",
    )  # fmt: skip
    axes.set_ylabel("computation (ms)")
    axes.set_ylim(top=1.3 * axes.get_ylim()[1])
    right = axes.twinx()
    right.plot(
        places, [r for _, _, _, r in layers], "D-", color=VERMILION, markersize=4,
        label="until the input is needed again",
    )  # fmt: skip
    right.set_ylabel("reuse distance (ms)")
    right.set_ylim(0, 1.3 * right.get_ylim()[1])
    right.spines["top"].set_visible(False)
    axes.set_xticks(places)
    axes.set_xticklabels([f"conv {i + 1}" for i in places], rotation=60, ha="right")
    axes.legend(loc="upper center", frameon=False, fontsize="small")
    right.legend(loc="upper right", frameon=False, fontsize="small")
    return figure


def vdnn_7(root: PathLike = ".") -> Any:
    """vDNN, figure 7: vDNN-all with the fastest algorithms against no limit."""
    cases = (
        ("AlexNet, 128", "alexnet.onnx", 128, 0.79),
        ("VGG-16, 64", "vgg16.onnx", 64, None),
        ("VGG-16, 128", "vgg16.onnx", 128, 0.81),
    )
    policies = ("vdnn-all-p", "vdnn-conv-p", "vdnn-dyn")
    heights: List[List[Optional[float]]] = [[] for _ in policies]
    for _, model, batch, _ in cases:
        for speeds, policy in zip(heights, policies):
            speeds.append(_speed(root, model, batch, "TITANX", policy))
    figure, axes = titled("vDNN on a Titan X (device model, predicted)")
    bars(
        axes,
        [name for name, *_ in cases],
        [
            ("all (p)", BLUE, heights[0]),
            ("conv (p)", SKY, heights[1]),
            ("dyn", ORANGE, heights[2]),
            ("paper, all (p)", GREY, [said for *_, said in cases]),
        ],
        "{:.2f}",
    )
    axes.set_ylabel("speed / speed without a limit")
    axes.set_ylim(0, 1.35)
    axes.legend(frameon=False, fontsize="small", ncol=4, loc="upper right")
    return figure


def vdnn_8(root: PathLike = ".") -> Any:
    """vDNN, figures 5 and 8: who waits for transfers, and who does not."""
    shown_us = 150_000
    figure = new_figure(figsize=(8.0, 3.8))
    rows = figure.subplots(2, 1, sharex=True)
    policies = (("vdnn-all-p", "vDNN"), ("vdnn-ext-all-p", "vDNNExt"))
    for axes, (policy, name) in zip(rows, policies):
        plan = memory_plan(root, "vgg16.onnx", 64, "TITANX", policy)
        assert plan is not None
        lanes = {"compute": 1, "d2h": 0, "copy": 0}
        colours = {"compute": BLUE, "offload": VERMILION}
        for event in plan.rounds[0].events:
            colour = colours.get(event.op)
            if colour is None or event.stream not in lanes or not event.dur_us:
                continue
            if event.start_us > shown_us:
                break
            axes.barh(
                lanes[event.stream], event.dur_us / 1000, height=0.7,
                left=event.start_us / 1000, color=colour, edgecolor="white",
                linewidth=0.4,
            )  # fmt: skip
        axes.set_yticks([0, 1])
        axes.set_yticklabels(["offload", "compute"])
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(
            f"{name}: {plan.time_us / 1000:.0f} ms an iteration, of which "
            f"{plan.stall_us / 1000:.0f} ms waiting",
            loc="left", fontsize="medium",
        )  # fmt: skip
        axes.set_xlim(0, shown_us / 1000)
    rows[1].set_xlabel(
        "time (ms); the first layers of VGG-16, batch 64, on a Titan X (predicted)"
    )
    return figure


def vdnn_9(root: PathLike = ".") -> Any:
    """vDNN, figure 9: device memory by policy."""
    said = (  # of tables 4 and 5, "expected"
        {"all (m)": 667, "all (p)": 1113, "conv (m)": 710, "conv (p)": 1188,
         "dyn": 1188},
        {"all (m)": 1323, "all (p)": 1414, "conv (m)": 1323, "conv (p)": 1610,
         "dyn": 1853},
    )  # fmt: skip
    figure = new_figure(figsize=(9.6, 3.4))
    for axes, (title, model, batch), report in zip(
        figure.subplots(1, 2), _CASES, said
    ):
        plain(axes)
        loads: List[Optional[float]] = []
        for _, policy, _ in _POLICIES:
            plan = memory_plan(
                root, model, batch, "GTX970", policy, budget="64GB"
            )
            loads.append(plan.load_bytes / MIB if plan else None)
        whole = memory_plan(
            root, model, batch, "GTX970", "baseline", budget="64GB"
        )
        assert whole is not None
        axes.axhline(
            whole.load_bytes / MIB, color=BLUE, linestyle="--", linewidth=1.2,
            label="nothing leaves",
        )  # fmt: skip
        bars(
            axes,
            [name for name, *_ in _POLICIES],
            [
                ("ours", BLUE, loads),
                ("report", GREY, [report[name] for name, *_ in _POLICIES]),
            ],
            "{:.0f}",
        )
        axes.set_ylim(top=1.25 * max(whole.load_bytes / MIB, *report.values()))
        axes.set_ylabel("most that is live at once (MiB)")
        axes.set_title(title, loc="left", fontsize="medium")
    figure.axes[0].legend(frameon=False, fontsize="small", ncol=3, loc="upper left")
    figure.suptitle("one GTX 970 (device model, predicted)", fontsize="medium")
    return figure


def vdnn_10(root: PathLike = ".") -> Any:
    """vDNN, figure 10: the speed of vDNN and vDNNExt by policy."""
    figure = new_figure(figsize=(8.0, 3.4))
    for axes, (title, model, batch) in zip(figure.subplots(1, 2), _CASES):
        plain(axes)
        speeds = [
            [_speed(root, model, batch, "GTX970", policy) for policy in policies]
            for policies in zip(*[names[1:] for names in _POLICIES])
        ]
        bars(
            axes,
            [name for name, *_ in _POLICIES],
            [("vDNN", BLUE, speeds[0]), ("vDNNExt", ORANGE, speeds[1])],
            "{:.2f}",
        )
        axes.set_ylim(0, 1.3)
        axes.set_ylabel("speed / speed of baseline (p)")
        axes.set_title(title, loc="left", fontsize="medium")
    axes = figure.axes[0]
    axes.plot([0.8], [0.87], "kx", label="report, vDNN all (p): 0.87")
    axes.plot([1.2], [0.95], "k+", label="report, vDNNExt all (p): 0.95")
    axes.legend(frameon=False, fontsize="x-small", ncol=2, loc="upper left")
    figure.suptitle("one GTX 970 (device model, predicted)", fontsize="medium")
    return figure


def _speed(
    root: PathLike, model: str, batch: int, device: str, policy: str
) -> Optional[float]:
    """Relative to an iteration without a limit; None if there is no plan."""
    plan = memory_plan(root, model, batch, device, policy, budget="64GB")
    if plan is None or not plan.ideal_time_us:
        return None
    return plan.ideal_time_us / plan.time_us
