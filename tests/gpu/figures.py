#!/usr/bin/env python3
"""Prints the table of tests/gpu's figures from the output of ucudnn_gpu_figures.

    tests/gpu/figures.py DIR > DIR/figures.md
    tests/gpu/figures.py --kernels DIR [ROW...]

DIR holds figures.json and deepbench.json; either may be missing. --kernels
prints the time of each kernel beside PyTorch's; a ROW is
NETWORK:BATCH:PRECISION:LAYOUT; default: all.
"""

import gzip
import json
import os
import statistics
import string
import sys

MIB = 2 ** 20
NETWORKS = ("alexnet_torchvision", "resnet18", "vgg16")
# The least gain over undivided legacy at 64 MiB, by network; and PyTorch's time
# over ours that is admitted. From the project's targets.
GAINS = {
    "FP32 NCHW": {"alexnet_torchvision": 1.8, "resnet18": 1.2, "vgg16": 1.25},
    "TF32 NCHW": {"alexnet_torchvision": 2.8, "resnet18": 1.5, "vgg16": 3.0},
    "PSEUDO_HALF NCHW": {"alexnet_torchvision": 2.8, "resnet18": 1.5,
                         "vgg16": 3.0},
}
MOST = {"FP32 NCHW": 1.0, "TF32 NCHW": 1.05, "PSEUDO_HALF NCHW": 1.05,
        "TF32 NHWC": 1.0, "PSEUDO_HALF NHWC": 1.0}


def load(folder, name):
    """The list in a file, plain or gzip; none if it is not there."""
    path = os.path.join(folder, name)
    for path, opened in ((path, open), (path + ".gz", gzip.open)):
        if os.path.exists(path):
            with opened(path, "rt", encoding="utf-8") as file:
                return json.load(file)
    return []


def ms(us):
    return "-" if us is None else f"{us / 1e3:.2f}"


def ratio(a, b):
    return None if not a or not b else a / b


def times(value):
    return "-" if value is None else f"{value:.2f}"


def mib(size):
    return f"{size / MIB:.0f}"


def at(figure, limit):
    return next(l for l in figure["limits"] if l["limit_bytes"] == limit)


def verdict(reached):
    return {True: "yes", False: "no", None: "-"}[reached]


def row_of(figure):
    return ":".join(str(figure[k])
                    for k in ("network", "batch", "precision", "layout"))


def in_order(figures):
    """By layout, precision and network, as the targets are stated."""
    def place(figure):
        config = f"{figure['precision']} {figure['layout']}"
        return (list(MOST).index(config) if config in MOST else len(MOST),
                NETWORKS.index(figure["network"])
                if figure["network"] in NETWORKS else len(NETWORKS))
    return sorted(figures, key=place)


def runs_of(results):
    """The runs that results are from, each with a letter."""
    runs = []
    for result in results:
        run = result.get("run")
        if run not in runs:
            runs.append(run)
    return runs


def letter(runs, result):
    return string.ascii_lowercase[runs.index(result.get("run"))]


def legend(runs):
    for i, run in enumerate(runs):
        what = (f"{run['begun']}, {run['versions']}" if run
                else "not noted by its run")
        yield f"Run {string.ascii_lowercase[i]}: {what}."


def targets(figures):
    runs = runs_of(figures)
    yield ("| network, batch | precision, layout | PyTorch | its workspace | "
           "limit | planned | measured | over PyTorch | reached | at 64 MiB | "
           "undivided legacy | gain | of | reached | run |")
    yield "|" + "---|" * 15
    for f in figures:
        config = f"{f['precision']} {f['layout']}"
        peer = f["peer"]
        # The target is an eighth of PyTorch's workspace for NCHW, the same for NHWC.
        part = 8 if f["layout"] == "NCHW" else 1
        limit = at(f, peer["workspace_bytes"] // part)
        time = limit["measured_us"] or limit["planned_us"]
        over = ratio(time, peer["time_us"])
        most = MOST.get(config)
        small = at(f, 64 * MIB)
        gain = ratio(small["undivided_legacy_us"],
                     small["measured_us"] or small["planned_us"])
        wanted = GAINS.get(config, {}).get(f["network"])
        yield (f"| {f['network']}, {f['batch']} | {config} "
               f"| {ms(peer['time_us'])} ms | {mib(peer['workspace_bytes'])} "
               f"MiB | {mib(limit['limit_bytes'])} MiB "
               f"| {ms(limit['planned_us'])} | {ms(limit['measured_us'])} "
               f"| {times(over)} "
               f"| {verdict(over <= most if over and most else None)} "
               f"| {ms(small['planned_us'])} "
               f"| {ms(small['undivided_legacy_us'])} | {times(gain)} "
               f"| {times(wanted)} "
               f"| {verdict(gain >= wanted if gain and wanted else None)} "
               f"| {letter(runs, f)} |")
    yield ""
    yield from legend(runs)


def curve(figures):
    limits = [n * MIB for n in (8, 16, 32, 64, 128, 256, 512, 1024)]
    yield ("| network | precision, layout | 0 | " +
           " | ".join(mib(l) + " MiB" for l in limits) + " | benchmark |")
    yield "|" + "---|" * (len(limits) + 4)
    for f in figures:
        cells = []
        for limit in [0] + limits:
            entry = at(f, limit)
            cells.append(f"{ms(entry['planned_us'])} / "
                         f"{ms(entry['undivided_us'])} / "
                         f"{ms(entry['undivided_legacy_us'])}")
        yield (f"| {f['network']}, {f['batch']} | {f['precision']} "
               f"{f['layout']} | " + " | ".join(cells) +
               f" | {f['benchmark_seconds']:.1f} s |")


def truth(figures):
    yield ("| network | precision, layout | limit | predicted | measured | "
           "deviation | enqueueing | device alone | error |")
    yield "|" + "---|" * 9
    worst = 0.0
    for f in figures:
        for entry in f["limits"]:
            if not entry["measured_us"]:
                continue
            off = entry["measured_us"] / entry["planned_us"] - 1
            worst = max(worst, abs(off))
            yield (f"| {f['network']}, {f['batch']} | {f['precision']} "
                   f"{f['layout']} | {mib(entry['limit_bytes'])} MiB "
                   f"| {ms(entry['planned_us'])} | {ms(entry['measured_us'])} "
                   f"| {off:+.1%} | {ms(entry['enqueued_us'])} "
                   f"| {ms(entry['device_alone_us'])} "
                   f"| {times(entry.get('error'))} |")
    yield ""
    yield f"Largest deviation: {worst:.1%}."


def under_load(figures):
    yield ("| network | precision, layout | limit | predicted | measured | "
           "predicted under load | under load | deviation | clocks |")
    yield "|" + "---|" * 9
    for f in figures:
        for entry in f["limits"]:
            if not entry.get("under_load_us"):
                continue
            off = entry["under_load_us"] / entry["planned_under_load_us"] - 1
            yield (f"| {f['network']}, {f['batch']} | {f['precision']} "
                   f"{f['layout']} | {mib(entry['limit_bytes'])} MiB "
                   f"| {ms(entry['planned_us'])} | {ms(entry['measured_us'])} "
                   f"| {ms(entry['planned_under_load_us'])} "
                   f"| {ms(entry['under_load_us'])} | {off:+.1%} "
                   f"| {entry['clocks_under_load']} |")


def kernels(figure):
    """Each kernel against PyTorch's, where its parts of the plans are known."""
    peer = figure["peer"]
    part = 8 if figure["layout"] == "NCHW" else 1
    limits = [l for l in figure["limits"] if "kernels" in l]
    small = next((l for l in limits
                  if l["limit_bytes"] == peer["workspace_bytes"] // part), None)
    whole = next((l for l in limits
                  if l["limit_bytes"] == peer["workspace_bytes"]), None)
    if small is None or whole is None:
        yield f"{row_of(figure)}: the run did not note its kernels."
        return
    yield (f"### {row_of(figure)}: {mib(small['limit_bytes'])} MiB against "
           f"PyTorch's {mib(peer['workspace_bytes'])} MiB")
    yield ""
    yield ("| layer, operation | PyTorch | its workspace | planned | over | "
           "measured | bound | with all of PyTorch's workspace | "
           "micro-batches |")
    yield "|" + "---|" * 9
    rows = []
    for theirs, ours, most in zip(peer["kernels"], small["kernels"],
                                  whole["kernels"]):
        rows.append((ours["planned_us"] - theirs["time_us"], theirs, ours,
                     most))
    for off, theirs, ours, most in sorted(rows, key=lambda r: -r[0]):
        yield (f"| {ours['layer']} {ours['op']} | {ms(theirs['time_us'])} "
               f"| {mib(theirs['workspace_bytes'])} MiB "
               f"| {ms(ours['planned_us'])} | {off / 1e3:+.2f} "
               f"| {ms(ours.get('measured_us'))} "
               f"| {ms(ours['bound_us'])} | {ms(most['planned_us'])} "
               f"| {', '.join(ours['micro_batches'])} |")

    def total(entries, key):
        return sum(e[key] for e in entries)

    theirs = peer["time_us"]
    planned = total(small["kernels"], "planned_us")
    bound = total(small["kernels"], "bound_us")
    all_of_it = total(whole["kernels"], "planned_us")
    yield (f"| all | {ms(theirs)} | {mib(peer['workspace_bytes'])} MiB "
           f"| {ms(planned)} | {(planned - theirs) / 1e3:+.2f} "
           f"| {ms(small['measured_us'])} | {ms(bound)} "
           f"| {ms(all_of_it)} | |")
    yield ""
    yield (f"No division of measured points takes less than "
           f"{bound / theirs:.2f} of PyTorch's time in this limit; the plan "
           f"takes {planned / theirs:.2f}, with all of PyTorch's workspace "
           f"{all_of_it / theirs:.2f}.")


def deepbench(layers):
    runs = runs_of(layers)
    yield ("| precision | layers | baseline | mean speed-up | median | "
           "maximum | minimum | layers faster by 5 % |")
    yield "|" + "---|" * 8
    comparisons = [
        ("everything, undivided", "undivided_us", "planned_us"),
        ("legacy, undivided", "undivided_legacy_us", "planned_us"),
        ("legacy, undivided; divided with legacy alone",
         "undivided_legacy_us", "planned_legacy_us")]
    for precision in sorted({l["precision"] for l in layers}):
        for text, base, ours in comparisons:
            gains = [r for l in layers if l["precision"] == precision
                     for r in [ratio(l[base], l[ours])] if r]
            if not gains:
                continue
            yield (f"| {precision} | {len(gains)} | {text} "
                   f"| {statistics.mean(gains):.2f} "
                   f"| {statistics.median(gains):.2f} | {max(gains):.2f} "
                   f"| {min(gains):.2f} "
                   f"| {sum(g >= 1.05 for g in gains)} |")
    yield ""
    yield from legend(runs)


def main():
    args = sys.argv[1:]
    by_kernel = args[:1] == ["--kernels"]
    if by_kernel:
        args = args[1:]
    folder, rows = args[0], args[1:]
    figures = in_order(load(folder, "figures.json"))
    if by_kernel:
        for figure in figures:
            if not rows or row_of(figure) in rows:
                print("\n".join(kernels(figure)) + "\n")
        return
    layers = load(folder, "deepbench.json")
    out = []
    if figures:
        out += ["## Against the targets", "",
                "Times in ms. All kernels share one arena of the limit.", ""]
        out += list(targets(figures))
        out += ["", "## What less workspace costs", "",
                "Planned / undivided, everything / undivided, legacy; in ms.",
                ""]
        out += list(curve(figures))
        out += ["", "## Prediction and run", "",
                "Times in ms; the planned convolutions back to back. The error "
                "is in units of what the precision explains.", ""]
        out += list(truth(figures))
        loaded = list(under_load(figures))
        if len(loaded) > 2:
            out += ["", "## Under load", "", "Times in ms.", ""] + loaded
    if layers:
        out += ["", "## DeepBench", "",
                "Forward, four times the batch, 64 MiB for each layer.", ""]
        out += list(deepbench(layers))
    print("\n".join(out))


if __name__ == "__main__":
    main()
