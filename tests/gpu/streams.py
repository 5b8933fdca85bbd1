#!/usr/bin/env python3
"""Trains with one and with more streams: whole steps of networks with branches.

    tests/gpu/streams.py -o DIR [--program FILE] [--device D] [--seconds N] [ROW...]

Rows are NETWORK:BATCH, of models in tests/data/onnx; by default GoogLeNet,
DenseNet-121 and ResNet-18 at batches 8, 32 and 128, each with 1 to 4 streams by
ucudnn-train in TF32, 30 steps. All runs of a row have the same measurements, and so
the same algorithms. Writes DIR/streams.json after each run, and DIR/streams.md. What
the JSON has already is not run again; nothing begins after N seconds (200).

Exit status: 0 done; 1 something failed, or losses are not those of one stream; 3 the
time was up.
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
STREAMS = (1, 2, 3, 4)
KEPT = ("step_us", "steps_us", "predicted_us", "peak_bytes", "graphs", "graph_bytes",
        "graph_problem", "enqueue_us", "streams")


def train(row, streams, arguments):
    """What ucudnn-train told, or why it failed."""
    network, batch = row.split(":")
    command = [arguments.program, "--network", f"tests/data/onnx/{network}.onnx",
               "--batch", batch, "--precision", arguments.precision, "--steps",
               str(arguments.steps), "--rate", "0.001", "--device", arguments.device,
               "--streams", str(streams), "--measurements",
               os.path.join(arguments.output, f"{network}-{batch}.measured.json"),
               "-o", "json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return {"failed": run.stderr[-500:]}
    told = json.loads(run.stdout)
    rank = told["ranks"][0]
    return {"device": rank["device_kind"], "losses": told["losses"],
            **{key: rank[key] for key in KEPT if key in rank}}


def lines_of(told):
    yield "| network | batch | streams | kept | step | alone | together | predicted |" \
          " peak | losses of one stream |"
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
            equal = run["losses"] == runs.get("1", {}).get("losses")
            yield (f"| {network} | {batch} | {streams} | {use['kept']} "
                   f"| {ms(run['step_us'])} | {ms(use['alone_us'])} "
                   f"| {ms(use['together_us'])} | {ms(run['predicted_us'])} "
                   f"| {run['peak_bytes'] / 2**20:.0f} MiB "
                   f"| {'yes' if equal else 'NO'} |")
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
        for streams in STREAMS:
            runs = told.setdefault(row, {})
            if "losses" in runs.get(str(streams), {}):
                continue
            if time.monotonic() - begun > arguments.seconds:
                unfinished = True
                break
            runs[str(streams)] = train(row, streams, arguments)
            report(told, arguments.output, "streams", lines_of)
    failed = any("failed" in run or run["losses"] != runs.get("1", run)["losses"]
                 for runs in told.values() for run in runs.values())
    return exit_status(failed, False, unfinished)


if __name__ == "__main__":
    sys.exit(main())
