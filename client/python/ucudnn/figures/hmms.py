"""Figures of Split-CNN and HMMS (Jin and Hong, ASPLOS 2019), from plans that the
solver makes with the device models of docs/memory.md: predicted, not measured. Each
function returns a matplotlib Figure; `root` is the repository."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from ucudnn.figures.data import GB, memory_plan
from ucudnn.files import PathLike
from ucudnn.memory_plots import live_bytes
from ucudnn.style import BLUE, GREEN, GREY, ORANGE, VERMILION, bars, titled


def hmms_plans(root: PathLike = ".") -> Any:
    """Split-CNN and HMMS, section 6.2: three plans at batch 64."""
    cases = (
        ("baseline", "nothing leaves", GREY, "-"),
        ("vdnn-all-p", "layer by layer", VERMILION, "--"),
        ("hmms", "HMMS", BLUE, "-"),
    )
    figure, axes = titled(
        "ResNet-50, batch 64; device model P100-NVLINK (predicted)",
        height=3.6,
    )
    for policy, label, colour, line in cases:
        plan = memory_plan(
            root, "resnet50.onnx", 64, "P100-NVLINK", policy, budget="16GB"
        )
        assert plan is not None
        times, by_kind = live_bytes(plan)
        live = [sum(sizes) / GB for sizes in zip(*by_kind.values())]
        axes.step(
            times, live, line, where="post", color=colour, linewidth=1.2,
            label=f"{label}: {plan.time_us / 1000:.0f} ms, pool "
            f"{plan.peak_bytes / GB:.2f} GB",
        )  # fmt: skip
    axes.set_xlabel("time (ms)")
    axes.set_ylabel("live bytes (GB)")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.legend(frameon=False, fontsize="small")
    return figure


def hmms_batches(root: PathLike = ".") -> Any:
    """Split-CNN and HMMS, section 6.3: the largest batch within 16 GB."""
    cases = (("VGG-19", "vgg19.csv", 6.0), ("ResNet-50", "resnet50.onnx", 2.0))
    ways = (
        ("hmms", "", "HMMS", BLUE),
        ("hmms", "0.5,2,2", "HMMS, half of it in 2 x 2 parts", GREEN),
        ("hmms", "1,2,2", "HMMS, all in 2 x 2 parts", ORANGE),
    )
    wholes = [_largest(root, model, "baseline", "") for _, model, _ in cases]
    series: List[Tuple[str, str, List[Optional[float]]]] = []
    for policy, split, label, colour in ways:
        series.append(
            (
                label,
                colour,
                [
                    _largest(root, model, policy, split) / whole
                    for (_, model, _), whole in zip(cases, wholes)
                ],
            )
        )
    series.append(("paper, HMMS and Split-CNN", GREY, [said for *_, said in cases]))
    figure, axes = titled("16 GB; device model P100-NVLINK (predicted)")
    bars(axes, [name for name, *_ in cases], series, "{:.1f}")
    axes.set_ylabel("largest batch / largest without offloading")
    axes.set_ylim(0, 9)
    axes.legend(frameon=False, fontsize="small", ncol=2)
    return figure


def _largest(root: PathLike, model: str, policy: Any, split: str) -> int:
    """The largest batch with a plan within 16 GB, by halving the steps."""

    def fits(batch: int) -> bool:
        return (
            memory_plan(
                root, model, batch, "P100-NVLINK", policy, budget="16GB", split=split
            )
            is not None
        )

    most = 64
    while fits(2 * most):
        most *= 2
    step = most
    while step > 1:
        step //= 2
        if fits(most + step):
            most += step
    return most
