"""Figures of papers on memory plans, from plans that the solver makes with the
device models of docs/memory.md: predicted, not measured. Each function returns a
matplotlib Figure; `root` is the repository."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ucudnn.errors import NoPlan
from ucudnn.figures.data import PathLike, network
from ucudnn.memory import solve_memory
from ucudnn.memory_plans import MemoryEvent, MemoryPlan
from ucudnn.style import BLUE, GREEN, GREY, ORANGE, VERMILION, new_figure, plain

_GB = 1_000_000_000


def _plan(
    root: PathLike, model: str, batch: int, device: str, policy: Any, **more: Any
) -> Optional[MemoryPlan]:
    """None if there is none."""
    try:
        return solve_memory(
            network(root, model), batch, device, policy=policy, **more
        )
    except NoPlan:
        return None


def vdnn_4(root: PathLike = ".") -> Any:
    """vDNN, figure 4: VGG-16's time by layer and how long inputs are idle."""
    plan = _plan(root, "vgg16.onnx", 64, "TITANX", "baseline", budget="64GB")
    assert plan is not None
    layers: List[Tuple[str, float, float, float]] = []
    forward: Dict[str, List[Tuple[str, MemoryEvent]]] = {}
    for event in plan.events:
        if event.op != "compute" or "conv" not in (event.task or "").lower():
            continue
        name, _, kind = (event.task or "").rpartition(".")
        forward.setdefault(name, []).append((kind, event))
    for name, told in forward.items():
        start = told[0][1]
        backward = [event for _, event in told[1:]]
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
    figure = new_figure(figsize=(8.0, 3.8))
    axes = plain(figure.add_subplot())
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
    axes.set_title(
        "VGG-16, batch 64; device model TITANX (predicted)",
        loc="left", fontsize="medium",
    )  # fmt: skip
    axes.legend(loc="upper center", frameon=False, fontsize="small")
    right.legend(loc="upper right", frameon=False, fontsize="small")
    return figure


def modnn_12(root: PathLike = ".") -> Any:
    """moDNN, figure 12: time under smaller and smaller budgets."""
    cases = (("VGG-16, batch 256", "vgg16.onnx"), ("ResNet-152, batch 256", "resnet152.onnx"))
    figure = new_figure(figsize=(8.0, 3.6))
    policies = (
        ("modnn", BLUE, "o", "moDNN"),
        ("vdnn-dyn", VERMILION, "s", "vDNN"),
        ("hmms", GREEN, "^", "HMMS"),
    )
    for axes, (title, model) in zip(figure.subplots(1, 2), cases):
        plain(axes)
        for policy, colour, marker, label in policies:
            points = []
            for budget in (2, 3, 4, 5, 6, 8, 10, 12):
                plan = _plan(
                    root, model, 256, "K40", policy, budget=budget * _GB,
                    fuse="paper",
                )  # fmt: skip
                if plan is not None and plan.ideal_time_us:
                    points.append((budget, plan.time_us / plan.ideal_time_us))
            axes.plot(
                [x for x, _ in points], [y for _, y in points], marker + "-",
                color=colour, markersize=4,
                label=label if points else f"{label}: no plan",
            )  # fmt: skip
        axes.plot([12], [1.03], "kx", label="paper, moDNN: 3 % (mean of six)")
        axes.plot([12], [1.31], "k+", label="paper, vDNN: 31 %")
        axes.set_xlabel("budget (GB)")
        axes.set_ylabel("time / time without a limit")
        axes.set_ylim(0.95, 1.5)
        axes.set_title(title, loc="left", fontsize="medium")
    figure.axes[0].legend(frameon=False, fontsize="x-small")
    figure.suptitle("one K40 (device model, predicted)", fontsize="medium")
    return figure


def modnn_17(root: PathLike = ".") -> Any:
    """moDNN, figures 17 and 18: four GPUs that share a mini-batch."""
    figure = new_figure(figsize=(8.0, 3.4))
    axes = plain(figure.add_subplot())
    axes.grid(False, axis="x")
    budgets = (12, 6, 3)
    said = (3.7, 3.4, 3.1)
    cases = (
        ("VGG-16", "vgg16.onnx", BLUE),
        ("ResNet-152", "resnet152.onnx", ORANGE),
    )
    for index, (name, model, colour) in enumerate(cases):
        heights = []
        for budget in budgets:
            plan = _plan(
                root, model, 256, "K40", "modnn", budget=budget * _GB, gpus=4,
                fuse="paper",
            )  # fmt: skip
            alone = _plan(
                root, model, 256, "K40", "baseline", budget="1000GB", fuse="paper"
            )
            assert plan and alone
            heights.append(alone.time_us / plan.time_us)
        places = [x + 0.27 * (index - 1) for x in range(3)]
        axes.bar(places, heights, width=0.25, color=colour, label=name)
        for x, height in zip(places, heights):
            axes.text(
                x, height, f"{height:.2f}", ha="center", va="bottom",
                fontsize="small",
            )  # fmt: skip
    axes.bar(
        [x + 0.27 for x in range(3)], said, width=0.25, color=GREY, hatch="//",
        edgecolor="white", label="paper, mean of six networks",
    )  # fmt: skip
    for x, height in enumerate(said):
        axes.text(x + 0.27, height, f"{height}", ha="center", va="bottom", fontsize="small")
    axes.set_xticks(range(3))
    axes.set_xticklabels([f"{b} GB each" for b in budgets])
    axes.set_ylabel("speed-up over one GPU\nwithout a limit")
    axes.set_ylim(0, 5)
    axes.legend(frameon=False, fontsize="small", ncol=3, loc="upper right")
    axes.set_title(
        "moDNN on four K40s, batch 256 (device model, predicted)",
        loc="left", fontsize="medium",
    )  # fmt: skip
    return figure


def hmms_plans(root: PathLike = ".") -> Any:
    """Split-CNN and HMMS, section 6.2: three plans at batch 64."""
    cases = (
        ("baseline", "nothing leaves", GREY, "-"),
        ("vdnn-all-p", "layer by layer", VERMILION, "--"),
        ("hmms", "HMMS", BLUE, "-"),
    )
    figure = new_figure(figsize=(8.0, 3.6))
    axes = plain(figure.add_subplot())
    for policy, label, colour, line in cases:
        plan = _plan(
            root, "resnet50.onnx", 64, "P100-NVLINK", policy, budget="16GB"
        )
        assert plan is not None
        times, live = _live_of(plan)
        axes.step(
            times, live, line, where="post", color=colour, linewidth=1.2,
            label=f"{label}: {plan.time_us / 1000:.0f} ms, pool "
            f"{plan.peak_bytes / _GB:.2f} GB",
        )  # fmt: skip
    axes.set_xlabel("time (ms)")
    axes.set_ylabel("live bytes (GB)")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_title(
        "ResNet-50, batch 64; device model P100-NVLINK (predicted)",
        loc="left", fontsize="medium",
    )  # fmt: skip
    axes.legend(frameon=False, fontsize="small")
    return figure


def _live_of(plan: MemoryPlan) -> Tuple[List[float], List[float]]:
    changes: List[Tuple[float, int]] = []
    for life in plan.lives():
        changes += [(life.start_us, life.bytes), (life.end_us, -life.bytes)]
    times: List[float] = []
    live: List[float] = []
    total = 0
    for time, change in sorted(changes):
        total += change
        if times and times[-1] == time / 1000:
            live[-1] = total / _GB
        else:
            times.append(time / 1000)
            live.append(total / _GB)
    return times, live
