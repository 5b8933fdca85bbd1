"""Figures of moDNN (Chen et al., TPDS 2019), from plans that the solver makes with the
device models of docs/memory.md: predicted, not measured. Each function returns a
matplotlib Figure; `root` is the repository."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ucudnn.figures.data import GB, memory_plan
from ucudnn.files import PathLike
from ucudnn.memory_plans import MemoryPlan
from ucudnn.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VERMILION,
    bars,
    new_figure,
    plain,
    titled,
)

_CASES = (
    ("VGG-16, 256", "vgg16.onnx"),
    ("ResNet-50, 256", "resnet50.onnx"),
    ("ResNet-152, 256", "resnet152.onnx"),
)


def modnn_9(root: PathLike = ".") -> Any:
    """moDNN, figure 9: all at once beside the least that a plan needs."""
    plans = [_k40(root, model, "baseline") for _, model in _CASES]
    least = [_k40(root, model, "modnn", sub_batch=1) for _, model in _CASES]
    ratios = [
        (whole.ideal_bytes or 0) / small.lower_bound_bytes
        for whole, small in zip(plans, least)
    ]
    figure, axes = titled(
        f"on average {sum(ratios) / len(ratios):.0f} times less "
        "(paper: 59 times, mean of six other networks)"
    )
    axes.set_yscale("log")
    bars(
        axes,
        [name for name, _ in _CASES],
        [
            ("all at once", GREY, [(p.ideal_bytes or 0) / GB for p in plans]),
            ("least of any plan", BLUE, [p.lower_bound_bytes / GB for p in least]),
        ],
        "{:.2g}",
    )
    axes.axhline(
        12, color=VERMILION, linestyle="--", linewidth=1, label="a K40's 12 GB"
    )
    axes.set_ylabel("device memory (GB)")
    axes.set_ylim(top=500)
    axes.legend(frameon=False, fontsize="small", ncol=3, loc="upper right")
    return figure


def modnn_11(root: PathLike = ".") -> Any:
    """moDNN, figure 11: bytes that are moved within 12 GB."""
    cases = (
        ("VGG-16, 128", "vgg16.onnx", 128),
        ("ResNet-50, 256", "resnet50.onnx", 256),
        ("ResNet-152, 256", "resnet152.onnx", 256),
    )
    policies = (
        ("vdnn-all", VERMILION, "vDNN, all"),
        ("vdnn-dyn", ORANGE, "vDNN, dyn"),
        ("modnn", BLUE, "moDNN"),
    )
    figure, axes = titled(
        "one K40, 12 GB (device model, predicted); paper: 378 times less by moDNN",
    )
    series = []
    for policy, colour, label in policies:
        moved: List[Optional[float]] = []
        for _, model, batch in cases:
            plan = memory_plan(
                root, model, batch, "K40", policy, budget="12GB", fuse="paper"
            )
            moved.append(
                (plan.offloaded_bytes + plan.prefetched_bytes) / GB if plan else None
            )
        series.append((label, colour, moved))
    bars(axes, [name for name, *_ in cases], series, "{:.2g}")
    axes.set_ylabel("moved to the host and back (GB)")
    axes.set_ylim(top=1.3 * axes.get_ylim()[1])
    axes.legend(frameon=False, fontsize="small", ncol=3, loc="upper right")
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
                plan = memory_plan(
                    root, model, 256, "K40", policy, budget=budget * GB,
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


def modnn_13(root: PathLike = ".") -> Any:
    """moDNN, figure 13: the memory that each technique alone needs."""
    techniques: Tuple[Tuple[str, str, str, Dict[str, int], float], ...] = (
        ("sub-batches of one image", BLUE, "modnn", {"sub_batch": 1}, 1 / 42),
        ("offloading", ORANGE, "vdnn-all-m", {}, 1 / 4.1),
    )
    wholes = [_k40(root, model, "baseline").ideal_bytes for _, model in _CASES]
    figure, axes = titled("each technique alone, on a K40 (device model, predicted)")
    axes.set_yscale("log")
    series = []
    for label, colour, policy, more, said in techniques:
        needs: List[Optional[float]] = []
        for (_, model), whole in zip(_CASES, wholes):
            needs.append(_k40(root, model, policy, **more).load_bytes / (whole or 1))
        series.append((label, colour, [*needs, None]))
        series.append((f"paper, {label}", GREY, [None] * len(needs) + [said]))
    bars(axes, [name for name, _ in _CASES] + ["paper, mean of six"], series, "{:.3f}")
    axes.set_ylabel("memory / all at once")
    axes.set_ylim(top=3)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::2], labels[::2], frameon=False, fontsize="small", ncol=2)
    return figure


def modnn_14(root: PathLike = ".") -> Any:
    """moDNN, figure 14: what smaller and smaller sub-batches cost, by what was
    measured on an H200."""
    cases = (
        ("VGG-16, batch 64", "vgg16.onnx", 64, "vgg16_b64_pow2.csv.gz", BLUE, "o"),
        ("ResNet-50, batch 32", "resnet50.onnx", 32, "resnet50_b32_pow2.csv.gz", ORANGE, "s"),
        ("ResNet-18, batch 128", "resnet18.onnx", 128, "resnet18_b128_pow2.csv.gz", GREEN, "^"),
    )  # fmt: skip
    figure, axes = titled(
        "convolutions as measured on an H200, FP32; the rest by its device model",
    )
    for name, model, batch, measured, colour, marker in cases:
        points: List[Tuple[int, float]] = []
        whole: Optional[MemoryPlan] = None
        size = batch
        while size >= 1:
            plan = memory_plan(
                root, model, batch, "H200", "modnn", sub_batch=size,
                budget="1000GB", profile=f"{root}/tests/data/h200/{measured}",
            )  # fmt: skip
            assert plan is not None
            whole = whole or plan
            points.append((size, plan.time_us / whole.time_us))
            size //= 2
        axes.plot(
            [x for x, _ in points], [y for _, y in points], marker + "-",
            color=colour, markersize=4, label=name,
        )  # fmt: skip
    axes.plot([1], [3.74], "kx", label="paper, K40, mean of six: 3.74")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("images in a sub-batch")
    axes.set_ylabel("time / time of the whole batch")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize="small")
    return figure


def modnn_17(root: PathLike = ".") -> Any:
    """moDNN, figures 17 and 18: four GPUs that share a mini-batch."""
    figure, axes = titled("moDNN on four K40s, batch 256 (device model, predicted)")
    budgets = (12, 6, 3)
    cases = (
        ("VGG-16", "vgg16.onnx", BLUE),
        ("ResNet-152", "resnet152.onnx", ORANGE),
    )
    series: List[Tuple[str, str, List[Optional[float]]]] = []
    for name, model, colour in cases:
        heights: List[Optional[float]] = []
        for budget in budgets:
            plan = memory_plan(
                root, model, 256, "K40", "modnn", budget=budget * GB, gpus=4,
                fuse="paper",
            )  # fmt: skip
            alone = memory_plan(
                root, model, 256, "K40", "baseline", budget="1000GB", fuse="paper"
            )
            assert plan and alone
            heights.append(alone.time_us / plan.time_us)
        series.append((name, colour, heights))
    series.append(("paper, mean of six networks", GREY, [3.7, 3.4, 3.1]))
    bars(axes, [f"{b} GB each" for b in budgets], series, "{:.2f}")
    axes.set_ylabel("speed-up over one GPU\nwithout a limit")
    axes.set_ylim(0, 5)
    axes.legend(frameon=False, fontsize="small", ncol=3, loc="upper right")
    return figure


def _k40(root: PathLike, model: str, policy: Any, **more: Any) -> MemoryPlan:
    """A plan of 256 images without a limit."""
    plan = memory_plan(
        root, model, 256, "K40", policy, budget="1000GB", fuse="paper", **more
    )
    assert plan is not None
    return plan
