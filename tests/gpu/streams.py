#!/usr/bin/env python3
"""Trains with one and with more streams: whole steps of networks with branches.

    tests/gpu/streams.py -o DIR [--program FILE] [--device D] [--seconds N] [ROW...]

Rows are NETWORK:BATCH, of models in tests/data/onnx; by default GoogLeNet,
DenseNet-121 and ResNet-18 at batches 8, 32 and 128, each with 1 to 4 streams by
ucudnn-train in TF32, 30 steps. All runs of a row have the same measurements, and so
the same algorithms, some of which add up in another order each time: one stream runs
twice, to tell how far apart losses are by themselves. Writes DIR/streams.json after
each run, and DIR/streams.md. What the JSON has already is not run again; nothing
begins after N seconds (200).

Exit status: 0 done; 1 something failed, or early losses are FARTHER times as far from
those of one stream as those are from themselves; 3 the time was up.
"""

import argparse
import json
import os
import subprocess
import sys
import time

from torch_common import exit_status, report

ROWS = [f"{network}:{batch}" for batch in (8, 128, 32)
        for network in ("googlenet", "densenet121", "resnet18")]
RUNS = ("1", "1 again", "2", "3", "4")  # streams
EARLY = 5  # steps, after which rounding has grown
FARTHER = 8
KEPT = ("step_us", "steps_us", "predicted_us", "peak_bytes", "graphs", "graph_bytes",
        "graph_problem", "enqueue_us", "streams")


def train(row, streams, arguments):
    """What ucudnn-train told, or why it failed."""
    network, batch = row.split(":")
    command = [arguments.program, "--network", f"tests/data/onnx/{network}.onnx",
               "--batch", batch, "--precision", arguments.precision, "--steps",
               str(arguments.steps), "--rate", "0.001", "--device", arguments.device,
               "--streams", streams, "--measurements",
               os.path.join(arguments.output, f"{network}-{batch}.measured.json"),
               "-o", "json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return {"failed": run.stderr[-500:]}
    told = json.loads(run.stdout)
    rank = told["ranks"][0]
    return {"device": rank["device_kind"], "losses": told["losses"],
            **{key: rank[key] for key in KEPT if key in rank}}


def farthest(runs, name):
    """The largest difference of early losses to those of one stream."""
    return max((abs(a - b) for a, b in zip(runs["1"]["losses"][:EARLY],
                                           runs[name]["losses"][:EARLY])), default=0)


def strays(runs, name):
    trained = all("losses" in runs.get(run, {}) for run in ("1", "1 again", name))
    return trained and farthest(runs, name) > FARTHER * farthest(runs, "1 again") + 1e-6


def lines_of(told):
    yield "| network | batch | streams | kept | step | alone | together | predicted |" \
          " peak | early losses of one stream |"
    yield "|---|---|---|---|---|---|---|---|---|---|"

    def ms(us):
        return "-" if us is None else f"{us / 1e3:.3f} ms"
    for row, runs in told.items():
        network, batch = row.split(":")
        for streams, run in runs.items():
            if "failed" in run:
                yield f"| {network} | {batch} | {streams} | failed |" + " |" * 6
                continue
            use = run.get("streams", {"kept": 1, "alone_us": None, "together_us": None})
            off = f"within {farthest(runs, streams):.1e}" if "losses" in runs["1"] else "-"
            yield (f"| {network} | {batch} | {streams} | {use['kept']} "
                   f"| {ms(run['step_us'])} | {ms(use['alone_us'])} "
                   f"| {ms(use['together_us'])} | {ms(run['predicted_us'])} "
                   f"| {run['peak_bytes'] / 2**20:.0f} MiB "
                   f"| {'NOT ' if strays(runs, streams) else ''}{off} |")
    yield ""
    yield "Failures, and why fewer streams were kept:"
    yield ""
    for row, runs in told.items():
        for streams, run in runs.items():
            why = run.get("failed") or run.get("streams", {}).get("why") or \
                run.get("graph_problem")
            if why:
                yield f"- {row}, {streams} streams: {why.strip()}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--program", default=".carry/bin/ucudnn-train")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="TF32")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("rows", nargs="*", default=ROWS, metavar="ROW")
    arguments = parser.parse_args()
    os.makedirs(arguments.output, exist_ok=True)
    path = os.path.join(arguments.output, "streams.json")
    told = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
    begun = time.monotonic()
    unfinished = False
    for row in arguments.rows:
        for name in RUNS:
            runs = told.setdefault(row, {})
            if "losses" in runs.get(name, {}):
                continue
            if time.monotonic() - begun > arguments.seconds:
                unfinished = True
                break
            runs[name] = train(row, name.split()[0], arguments)
            report(told, arguments.output, "streams", lines_of)
    failed = any("failed" in run or strays(runs, name)
                 for runs in told.values() for name, run in runs.items())
    return exit_status(failed, False, unfinished)


if __name__ == "__main__":
    sys.exit(main())
