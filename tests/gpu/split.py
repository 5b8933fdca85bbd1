#!/usr/bin/env python3
"""The largest batches within 8 GiB, executed: everything kept, HMMS, and HMMS on
the network split into parts (Split-CNN, section 6.3).

    tests/gpu/split.py -o DIR [--seconds N]

Each way begins with the batch that `ucudnn solve memory` finds the largest on a
model of an H200, and takes a sixteenth less as long as measured algorithms need
more. By ucudnn-train, TF32, eight steps. Writes DIR/split.json after each way, and
DIR/split.md; nothing begins after N seconds (240).

Exit status: 0 done; 1 something failed; 3 the time was up.
"""

import argparse
import json
import os
import subprocess
import sys
import time

from torch_common import exit_status, report, write

PROGRAM = ".carry/bin/ucudnn-train"
NETWORKS = {"resnet50": "tests/data/onnx/resnet50.onnx",
            "vgg19": "tests/data/networks/vgg19.csv"}
# Network, policy, split, and the batch to begin with.
WAYS = (("resnet50", "baseline", "", 99), ("resnet50", "hmms", "", 112),
        ("resnet50", "hmms", "0.5,2,2", 114), ("vgg19", "baseline", "", 124),
        ("vgg19", "hmms", "", 140), ("vgg19", "hmms", "0.75,3,2", 200))
TOO_SMALL = 3  # the exit status of a budget that is


def train(network, policy, split, batch, ends):
    while True:
        command = [PROGRAM, "--network", NETWORKS[network], "--precision", "TF32",
                   "--batch", str(batch), "--images", str(batch), "--steps", "8",
                   "--memory-budget", "8GiB", "--memory-policy", policy,
                   "--rate", "0.001", "-o", "json"]
        if split:
            command += ["--split", split]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode == 0:
            return json.loads(run.stdout)
        print(f"{network} {policy} {split} {batch}: {run.stderr[-2000:]}")
        if run.returncode != TOO_SMALL or time.monotonic() > ends:
            return {"failed": f"exit status {run.returncode} at {batch} images"}
        batch -= batch // 16


def table(told):
    lines = ["| network | way | largest batch | images/s | of the first | peak, GiB |"
             " predicted, ms | measured, ms |", "|---|---|---|---|---|---|---|---|"]
    first = {}
    for name, way in told.items():
        if not isinstance(way, dict):
            continue
        network, _, how = name.partition(" ")
        if "failed" in way:
            lines.append(f"| {network} | {how} | {way['failed']} | | | | | |")
            continue
        rank, rate = way["ranks"][0], way["batch"] / way["step_us"] * 1e6
        of_first = rate / first.setdefault(network, rate)
        lines.append(
            f"| {network} | {how} | {way['batch']} | {rate:,.1f} | {of_first:.3f} |"
            f" {rank['peak_bytes'] / 2**30:.2f} | {way['predicted_us'] / 1e3:.1f} |"
            f" {way['step_us'] / 1e3:.1f} |")
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", dest="folder", required=True)
    parser.add_argument("--seconds", type=float, default=240)
    args = parser.parse_args()
    ends = time.monotonic() + args.seconds
    told = {}
    for network, policy, split, batch in WAYS:
        if time.monotonic() > ends:
            told["unfinished"] = True
            break
        name = f"{network} {policy}{' ' if split else ''}{split}"
        told[name] = train(network, policy, split, batch, ends)
        write(told, os.path.join(args.folder, "split.json"))
    report(told, args.folder, "split", table)
    failed = any("failed" in way for way in told.values() if isinstance(way, dict))
    sys.exit(exit_status(failed, [], "unfinished" in told))


if __name__ == "__main__":
    main()
