"""Figures of Oyama et al.: "Accelerating Deep Learning Frameworks with
Micro-batches", CLUSTER 2018, and their IPSJ report of 2017, from measurements on
an H200. Each function returns a matplotlib Figure; `root` is the repository."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ucudnn.figures.data import (
    H200,
    LIMITS_MIB,
    MIB,
    by_layer,
    division_plan,
    profile,
    result,
    reuse_plans,
    short,
)
from ucudnn.files import PathLike
from ucudnn.plans import MicroBatch, WorkspacePlan
from ucudnn.plots import plot_pareto
from ucudnn.profiles import Measurement, Profile, Time, Times
from ucudnn.solve import assign, iteration_times, pareto, solve_wr
from ucudnn.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    bars,
    new_figure,
    plain,
    titled,
)

_ALEXNET = "alexnet_b256_pow2.csv"
_EVERY_BATCH = "alexnet_conv2-5_b256_all_fp32.csv.gz"
_LAYERS = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, YELLOW, GREY)
_ALGORITHMS = {
    "GEMM": GREY,
    "IMPLICIT_GEMM": GREY,
    "IMPLICIT_PRECOMP_GEMM": SKY,
    "FFT": BLUE,
    "FFT_TILING": GREEN,
    "WINOGRAD": ORANGE,
    "WINOGRAD_NONFUSED": VERMILION,
    "DIRECT": YELLOW,
}


def cluster_6(root: PathLike = ".") -> Any:
    """CLUSTER 2018, figure 6: the Pareto front of AlexNet's conv2 forward."""
    measured = profile(root, _EVERY_BATCH)
    every = pareto(measured, 256, 120 * MIB, "conv2", "forward")
    front = pareto(measured, 256, 120 * MIB, "conv2", "forward", "powerOfTwo")
    figure = new_figure(figsize=(8.0, 4.0))
    axes = plot_pareto(front, figure.add_subplot())
    axes.set_title(
        f"AlexNet conv2 forward, batch 256, up to 120 MiB\n{H200}: "
        f"{len(every)} divisions, of which these are in powers of two",
        loc="left", fontsize="medium",
    )  # fmt: skip
    return figure


def cluster_8(root: PathLike = ".") -> Any:
    """CLUSTER 2018, figure 8: DeepBench's forward convolutions at 64 MiB."""
    rows = result(root, "h200-figures-2026-11-22/deepbench.json.gz")
    figure, axes = titled(
        "DeepBench forward, four times the batch, 64 MiB, cuDNN's first interface",
        height=3.6,
    )
    styles = {"FP32": (BLUE, "o"), "PSEUDO_HALF": (VERMILION, "s")}
    for precision, (colour, marker) in styles.items():
        gains = sorted(
            row["undivided_legacy_us"] / row["planned_legacy_us"]
            for row in rows
            if row["precision"] == precision
        )
        mean = sum(gains) / len(gains)
        axes.plot(
            range(1, len(gains) + 1), gains, marker, markersize=3, color=colour,
            label=f"H200, {precision}: mean {mean:.2f}, at most {gains[-1]:.2f}",
        )  # fmt: skip
    for value, text in ((1.60, "mean 1.60"), (4.54, "at most 4.54")):
        axes.axhline(value, color="black", linestyle="--", linewidth=1)
        axes.annotate(
            f"paper, V100, half: {text}", (1, value), xytext=(0, 3),
            textcoords="offset points", fontsize="small",
        )  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylim(0.85, 40)
    axes.set_yticks([1, 2, 4, 8, 16])
    axes.set_yticklabels(["1", "2", "4", "8", "16"])
    axes.minorticks_off()
    axes.set_xlabel("the 94 layers of DeepBench, by speed-up")
    axes.set_ylabel("speed-up over undivided")
    axes.legend(loc="upper left", frameon=False, fontsize="small")
    return figure


def cluster_9(root: PathLike = ".") -> Any:
    """CLUSTER 2018, figure 9 (IPSJ 2017, figure 10): AlexNet under WR."""
    return _breakdown(
        profile(root, _ALEXNET), 256, "AlexNet, batch 256",
        "paper at 64 MiB, all sizes: 2.10x (K80), 1.63x (P100), 1.60x (V100)",
    )  # fmt: skip


def ipsj_11(root: PathLike = ".") -> Any:
    """IPSJ 2017, figure 11: ResNet-18 under WR."""
    return _breakdown(
        profile(root, "resnet18_b128_pow2.csv.gz"), 128, "ResNet-18, batch 128",
        "paper at 64 MiB, all sizes: 1.21x (P100)",
    )  # fmt: skip


def cluster_10(root: PathLike = ".") -> Any:
    """CLUSTER 2018, figure 10 (IPSJ 2017, figure 9): conv2 under 120 MiB."""
    measured = profile(root, _EVERY_BATCH)
    plans = {
        "undivided": _conv2(measured, "undivided"),
        "powerOfTwo": _conv2(measured, "powerOfTwo"),
        "all": _conv2(measured, "all"),
    }
    figure, axes = titled(
        f"AlexNet conv2 forward, batch 256, 120 MiB; {H200}\n"
        "paper: 2.33x by all within 64 MiB (P100, cuDNN 6)",
        height=2.8,
    )
    axes.grid(False, axis="y")
    drawn: Dict[str, str] = {}
    longest = plans["undivided"].total_time_us / 1000
    for row, (policy, plan) in enumerate(plans.items()):
        left = 0.0
        for micro in plan.kernels[0].micro_batches:
            colour = _colour_of(micro, drawn)
            for _ in range(micro.count):
                width = micro.time_us / 1000
                axes.barh(
                    row, width, left=left, color=colour, edgecolor="white",
                    linewidth=0.8,
                )  # fmt: skip
                if width > 0.03 * longest:
                    axes.text(
                        left + width / 2, row, str(micro.batch), ha="center",
                        va="center", fontsize="small",
                        color="black" if colour != BLUE else "white",
                    )  # fmt: skip
                left += width
        gain = longest / left
        axes.text(left, row, f" {gain:.2f}x", va="center", fontsize="small")
    axes.set_yticks(range(3))
    axes.set_yticklabels(list(plans))
    axes.set_ylim(2.6, -0.6)
    axes.set_xlim(0, 1.1 * longest)
    axes.set_xlabel("time (ms); numbers are micro-batch sizes")
    _key(axes, drawn)
    return figure


def cluster_11(root: PathLike = ".") -> Any:
    """CLUSTER 2018, figure 11 (IPSJ 2017, figure 12): WR beside WD."""
    figure = new_figure(figsize=(8.0, 3.8))
    cases = (
        ("AlexNet, batch 256", _ALEXNET, 256, (8, 64, 512),
         "paper (P100): 1.38x by WD in 120 MiB"),
        ("ResNet-50, batch 32", "resnet50_b32_pow2.csv.gz", 32, (8, 16, 32),
         "paper (P100): 1.14x by WD in 2544 MiB"),
    )  # fmt: skip
    for axes, (title, name, batch, limits, said) in zip(
        figure.subplots(1, 2), cases
    ):
        measured = profile(root, name)
        plain(axes)
        kernels = 15 if batch == 256 else 159  # as the paper counts
        times = []
        for limit, whole, split in reuse_plans(measured, batch, limits):
            within = division_plan(measured, batch, limit * kernels)
            times.append([p.total_time_us / 1000 for p in (whole, split, within)])
        labels = ("WR, undivided", "WR, powerOfTwo", "WD, powerOfTwo, the same in total")
        bars(
            axes,
            [f"{m}\n({m * kernels})" for m in limits],
            list(zip(labels, (GREY, BLUE, VERMILION), zip(*times))),
            "",
        )
        axes.set_ylim(top=1.35 * axes.get_ylim()[1])
        axes.set_xlabel("MiB for each kernel (in total)")
        axes.set_ylabel("convolutions of an iteration (ms)")
        axes.set_title(f"{title}\n{said}", loc="left", fontsize="small")
    figure.axes[0].legend(frameon=False, fontsize="x-small", loc="upper right")
    figure.suptitle(H200, fontsize="medium")
    return figure


def cluster_12(root: PathLike = ".") -> Any:
    """CLUSTER 2018, figure 12 (IPSJ 2017, figure 13): who gets the workspace."""
    measured = profile(root, _ALEXNET)
    plan = division_plan(measured, 256, 120)
    sizes = [k.workspace_bytes / MIB for k in plan.kernels]
    largest = sum(
        size for k, size in zip(plan.kernels, sizes) if k.layer in ("conv2", "conv3")
    )
    figure, axes = titled(
        f"AlexNet, batch 256; {H200}\n"
        f"conv2 and conv3 get {100 * largest / sum(sizes):.1f} %; paper (P100): 93.7 %",
        height=3.6,
    )
    kernels = [short(k) for k in plan.kernels]
    bars(axes, kernels, [("WD, 120 MiB in total", BLUE, sizes)], "{:.1f}")
    axes.axhline(8, color=VERMILION, linestyle="--", label="WR, 8 MiB each")
    axes.set_xticklabels(kernels, rotation=60, ha="right", fontsize="small")
    axes.set_ylabel("workspace (MiB)")
    axes.legend(frameon=False, fontsize="small")
    return figure


def cluster_13(root: PathLike = ".") -> Any:
    """CLUSTER 2018, figure 13, with slices of a GPU for unlike GPUs."""
    by_slice = {
        sms: iteration_times(
            profile(root, f"alexnet_b256_pow2_sm{sms}.csv"), 256, 64 * MIB,
            "powerOfTwo", precision="FP32",
        )
        for sms in (64, 32, 16)
    }  # fmt: skip
    groups = ((64,), (64, 64), (64, 32), (64, 64, 32), (64, 32, 16))
    figure, axes = titled(
        "AlexNet, batch 256, 64 MiB, on slices of an H200; numbers are batches\n"
        "paper, ResNet-18, batch 32: 2.12x with K80 + K20Xm, 2.20x with a 750Ti too",
        height=3.8,
    )
    axes.grid(False, axis="x")
    colours = {64: BLUE, 32: ORANGE, 16: GREEN}
    place = 0.0
    ticks: List[Tuple[float, str]] = []
    alone = by_slice[64][256] / 1000
    for group in groups:
        times = Times(
            [
                Time(str(i), batch, time)
                for i, sms in enumerate(group)
                for batch, time in by_slice[sms].items()
            ]
        )
        shares = assign(times, 256)
        first = place
        for share, sms in zip(shares.gpus, group):
            height = share.time_us / 1000
            axes.bar(place, height, width=0.8, color=colours[sms])
            axes.text(
                place, height, str(share.batch), ha="center", va="bottom",
                fontsize="small", zorder=3,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            )  # fmt: skip
            place += 0.9
        slowest = shares.makespan_us / 1000
        axes.plot([first - 0.45, place - 0.45], [slowest] * 2, "k--", linewidth=1)
        even = shares.even_split_us
        text = f"{alone / slowest:.2f}x"
        if even and len(group) > 1:
            text += f"\n(even {alone / even * 1000:.2f}x)"
        ticks.append(((first + place - 0.9) / 2, text))
        place += 0.8
    axes.set_xticks([x for x, _ in ticks])
    axes.set_xticklabels([text for _, text in ticks])
    axes.set_ylabel("convolutions of an iteration (ms)")
    axes.set_ylim(0, 1.12 * alone)
    for sms, colour in colours.items():
        axes.bar(0, 0, color=colour, label=f"{sms} multiprocessors")
    axes.legend(frameon=False, fontsize="small")
    return figure


def ipsj_1(root: PathLike = ".") -> Any:
    """IPSJ 2017, figure 1: what one byte too little costs."""
    rows = profile(root, _ALEXNET).where(
        op="forward", batch=256, precision="FP32"
    ).rows  # fmt: skip
    layers = list(dict.fromkeys(row.layer for row in rows))
    best, less = [], []
    for layer in layers:
        points = _medians([row for row in rows if row.layer == layer])
        fastest = min(points)
        best.append(fastest[0] / 1000)
        smaller = [p for p in points if p[1] < fastest[1]]
        less.append((min(smaller) if smaller else fastest)[0] / 1000)
    figure, axes = titled(f"AlexNet, batch 256; {H200}", height=3.2)
    axes.grid(False, axis="x")
    for offset, times, colour, label in (
        (-0.2, best, BLUE, "Best"),
        (0.2, less, VERMILION, "1 byte less than it needs"),
    ):
        places = [x + offset for x in range(len(layers))]
        axes.bar(places, times, width=0.38, color=colour, label=label)
    for x, (fast, slow) in enumerate(zip(best, less)):
        axes.text(
            x + 0.2, slow, f"{slow / fast:.1f}x", ha="center", va="bottom",
            fontsize="small",
        )  # fmt: skip
    axes.set_xticks(range(len(layers)))
    axes.set_xticklabels(layers)
    axes.set_ylabel("forward, undivided (ms)")
    axes.legend(frameon=False, fontsize="small")
    return figure


def _conv2(measured: Profile, policy: Any) -> WorkspacePlan:
    return solve_wr(measured, 256, 120 * MIB, policy, layer="conv2", op="forward")


def _breakdown(measured: Profile, batch: int, name: str, said: str) -> Any:
    """Stacked bars of layers, undivided and in powers of two, by limit."""
    figure, axes = titled(f"{name}; {H200}\n{said}", height=4.2)
    axes.grid(False, axis="x")
    ticks: List[Tuple[float, str]] = []
    for place, (limit, whole, split) in enumerate(reuse_plans(measured, batch)):
        for offset, mark, plan in ((-0.22, "u", whole), (0.22, "p", split)):
            below = 0.0
            for index, (layer, time) in enumerate(_grouped(plan).items()):
                axes.bar(
                    place + offset, time, bottom=below, width=0.4,
                    color=_LAYERS[index % len(_LAYERS)], edgecolor="white",
                    linewidth=0.4, hatch="//" if index >= len(_LAYERS) else None,
                    label=layer if not ticks else None,
                )  # fmt: skip
                below += time
            ticks.append((place + offset, mark))
        gain = whole.total_time_us / split.total_time_us
        axes.text(
            place + 0.22, below, f"{gain:.2f}x", ha="center", va="bottom",
            fontsize="small",
        )  # fmt: skip
    axes.set_xticks([x for x, _ in ticks])
    axes.set_xticklabels([mark for _, mark in ticks])
    for place, limit in enumerate(LIMITS_MIB):
        axes.annotate(
            f"{limit} MiB", (place, 0), xycoords=("data", "axes fraction"),
            xytext=(0, -22), textcoords="offset points", ha="center", va="top",
        )  # fmt: skip
    axes.set_xlabel("u: undivided, p: powerOfTwo", labelpad=22)
    axes.set_ylabel("convolutions of an iteration (ms)")
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(
        handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1, 0.5),
        frameon=False, fontsize="small",
    )  # fmt: skip
    return figure


def _grouped(plan: WorkspacePlan) -> Dict[str, float]:
    """By layer; of more than ten, by stage: "res2.0.conv1" is of "res2"."""
    layers = by_layer(plan)
    if len(layers) <= 10:
        return layers
    stages: Dict[str, float] = {}
    for layer, time in layers.items():
        stage = layer.split(".")[0]
        stages[stage] = stages.get(stage, 0) + time
    return stages


def _colour_of(micro: MicroBatch, drawn: Dict[str, str]) -> str:
    colour = _ALGORITHMS.get(micro.algorithm, PURPLE)
    drawn[micro.algorithm] = colour
    return colour


def _key(axes: Any, drawn: Dict[str, str]) -> None:
    for name, colour in drawn.items():
        axes.bar(0, 0, color=colour, label=name)
    axes.legend(frameon=False, fontsize="small", loc="lower right")


def _medians(rows: List[Measurement]) -> List[Tuple[float, int]]:
    """Time and workspace of each algorithm."""
    times: Dict[Tuple[str, str, int], List[float]] = {}
    for row in rows:
        key = (row.algorithm, row.math, row.workspace_bytes)
        times.setdefault(key, []).append(row.time_us)
    return [(sorted(t)[len(t) // 2], key[2]) for key, t in times.items()]
