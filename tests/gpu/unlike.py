#!/usr/bin/env python3
"""Trains on unlike GPUs with little memory: slices of multiprocessors, each of
another GPU, and each with 10 GiB.

    tests/gpu/unlike.py -o DIR [--seconds N] [ROW...]

Rows are NETWORK:SMS, such as resnet50:64,16 (the default rows are in ROWS). The
mini-batch is such that the fastest rank's share by speed needs about twice its
memory. Ways of a row, each by ucudnn-train, TF32, 12 steps:
    planned   shares and memory plans from one solution
    even      even shares, each planned within its memory
    clipped   the fastest rank gets what it holds without a plan, the others the rest
              by their speed, planned within their memory
    moved     one to three thirty-seconds of the mini-batch moved from the fastest rank
              to the others, and back: the sweep
    alone     each rank alone with its planned share
A row NETWORK:half is of whole GPUs of one kind, each with as many images as HALF says,
beside moDNN's speedups (TPDS 2019, section 7.4) over one GPU that keeps everything:
    one, four             GPUs without a budget
    one half, four half   each within half of the memory that this takes
Rows whose slices are other GPUs run at once. Writes DIR/unlike.json after each way, with
what ucudnn-train printed, and DIR/unlike.md; keeps measurements in DIR/*.measured.json.
What the JSON has already is not run again, so the same command resumes; nothing begins
after N seconds (480).

Exit status: 0 done; 1 something failed; 3 the time was up; 4 a goal was missed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time

from torch_common import exit_status, report, write

PROGRAM = ".carry/bin/ucudnn-train"
ROWS = ("resnet50:64,16", "vgg16:64,16", "resnet50:132,64,32,16",
        "vgg16:132,64,32,16", "resnet50:half", "vgg16:half")
MEMORY = 10 << 30  # bytes
# Without a plan, by ucudnn solve memory --policy baseline: all images and one.
PLAIN = {"resnet50": (102e6, 84.9e6), "vgg16": (963e6, 61.15e6)}
HALF = {"resnet50": 128, "vgg16": 64}
STEPS = 12
WAY_SECONDS = 300


def holds(network):
    """The images that fit without a plan."""
    fixed, each = PLAIN[network]
    return int((MEMORY - fixed) / each)


def mini_batch(network, sms):
    """Of which the fastest rank's share by speed takes twice its memory; a multiple
    of 32."""
    fixed, each = PLAIN[network]
    share = (2 * MEMORY - fixed) / each
    return round(share * sum(sms) / max(sms) / 32) * 32


def moved(shares, images, step):
    """Shares with so many images of the first rank divided among the others by
    theirs, in multiples of the step."""
    all_steps = (sum(shares[1:]) + images) // step
    rest = [all_steps * n // sum(shares[1:]) * step for n in shares[1:]]
    rest[0] += all_steps * step - sum(rest)
    return [shares[0] - images, *rest]


class Row:
    def __init__(self, text, gpus, folder, told, lock):
        self.text, self.gpus, self.folder = text, gpus, folder
        self.network, slices = text.split(":")
        self.halves = slices == "half"
        self.sms = [] if self.halves else [int(n) for n in slices.split(",")]
        self.batch = 0 if self.halves else mini_batch(self.network, self.sms)
        self.told, self.lock = told, lock

    def train(self, way, ranks, *options, memory=MEMORY):
        """Runs ucudnn-train on these ranks, unless that was done."""
        with self.lock:
            of_row = self.told.setdefault(self.text, {})
            if way in of_row and "failed" not in of_row[way]:
                return of_row[way]
        measured = f"{self.text}{'-alone' if len(ranks) == 1 else ''}.measured.json"
        command = ["timeout", str(WAY_SECONDS), "mpirun", "--allow-run-as-root",
                   "--bind-to", "none"]
        visible = ",".join(self.gpus[rank] for rank in ranks)
        for rank in ranks:
            if rank != ranks[0]:
                command.append(":")
            command += ["-np", "1", "-x", f"CUDA_VISIBLE_DEVICES={visible}"]
            if self.sms:
                command += ["-x", f"UCUDNN_SLICE=sm={self.sms[rank]}"]
            command += [
                PROGRAM, "--network", f"tests/data/onnx/{self.network}.onnx",
                "--precision", "TF32", "--images", "2048", "--rate", "0.001",
                "--steps", str(STEPS), "--memory-budget", str(memory), "--recompute",
                "--measurements",
                os.path.join(self.folder, re.sub("[:,]", "-", measured)),
                "-o", "json", *options,
            ]
        begun = time.monotonic()
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        answer = {}
        if run.returncode == 0:
            answer = json.loads(run.stdout)
        else:
            answer["failed"] = f"exit status {run.returncode}"
            print(f"{self.text} {way}: {run.stdout[-1500:]}{run.stderr[-3000:]}")
        answer["seconds"] = time.monotonic() - begun
        with self.lock:
            of_row[way] = answer
            write(self.told, os.path.join(self.folder, "unlike.json"))
        return answer

    def ways(self):
        """Names of ways with what runs them; those after the first need its shares."""
        if self.halves:
            images = HALF[self.network]
            fixed, each = PLAIN[self.network]
            half = int((fixed + each * images) / 2)
            for memory, told in ((0, ""), (half, " half")):
                for name, ranks in (("one", [0]), ("four", range(4))):
                    yield name + told, lambda ranks=ranks, memory=memory, way=name + told: (
                        self.train(way, ranks, "--even", "--batch",
                                   str(images * len(ranks)), memory=memory))
            return
        every = range(len(self.sms))
        batch = ("--batch", str(self.batch))
        yield "planned", lambda: self.train("planned", every, *batch)
        shares = [rank["batch"] for rank in self.told[self.text]["planned"]["ranks"]]
        yield "even", lambda: self.train("even", every, *batch, "--even")
        step = self.batch // 32
        clipped = holds(self.network) // step * step
        splits = {f"moved {n * step}": moved(shares, n * step, step)
                  for n in (1, -1, 2, -2, 3)}
        splits["clipped"] = moved(shares, max(0, shares[0] - clipped), step)
        for way, split in splits.items():
            if min(split) < 1:
                continue
            yield way, lambda way=way, split=split: self.train(
                way, every, *batch, "--shares", ",".join(map(str, split)))
        for rank in every:
            yield f"alone {rank}", lambda rank=rank: self.train(
                f"alone {rank}", [rank], "--batch", str(shares[rank]))


def run(row, ends):
    try:
        for _, way in row.ways():
            if time.monotonic() > ends:
                row.told.setdefault("unfinished", []).append(row.text)
                return
            way()
    except Exception as error:  # of a thread: said, and the row has no goal
        print(f"{row.text}: {type(error).__name__}: {error}")


def goals(text, of_row):
    """What the row reaches, as (name, value, least)."""
    if text.endswith(":half"):
        for way, paper in (("four", 3.7), ("four half", 3.1)):
            if all("step_us" in of_row.get(name, {}) for name in ("one", way)):
                one, four = of_row["one"], of_row[way]
                yield (f"{way}, images a second, times one's",
                       four["batch"] / four["step_us"] / (one["batch"] / one["step_us"]),
                       paper)
        return
    planned = of_row["planned"]
    step = planned["step_us"]
    sweep = [way["step_us"] for name, way in of_row.items()
             if name.startswith("moved") and "failed" not in way]
    if sweep:
        yield "best of the sweep / planned", min(sweep) / step, 1 / 1.02
    alone = [of_row.get(f"alone {r}", {}) for r in range(len(planned["ranks"]))]
    if all("step_us" in one for one in alone):
        together = sum(rank["batch"] / one["step_us"]
                       for rank, one in zip(planned["ranks"], alone))
        yield "planned / sum of the ranks alone", planned["batch"] / step / together, 0.95
    yield "1 - |measured / predicted - 1|", 1 - abs(step / planned["predicted_us"] - 1), 0.95


def table(told):
    lines, missed = [], []
    for text, of_row in told.items():
        if not isinstance(of_row, dict):
            continue
        first = of_row.get("one" if text.endswith(":half") else "planned", {})
        if "step_us" not in first:
            continue
        planned = first["step_us"]
        lines += [f"## {text}, mini-batch {first['batch']}", "",
                  "| way | images | step, ms | predicted, ms | images/s | planned is faster |"
                  " peaks, GiB |", "|---|---|---|---|---|---|---|"]
        for name, way in of_row.items():
            if "failed" in way:
                lines.append(f"| {name} | {way['failed']} | | | | | |")
                continue
            images = [rank["batch"] for rank in way["ranks"]]
            peaks = ", ".join(f"{rank.get('peak_bytes', 0) / 2**30:.2f}"
                              for rank in way["ranks"])
            faster = ("" if name.startswith(("alone", "one", "four")) else
                      f"{way['step_us'] / planned:.3f}")
            lines.append(
                f"| {name} | {' + '.join(map(str, images))} | {way['step_us'] / 1e3:.1f} |"
                f" {way['predicted_us'] / 1e3:.1f} |"
                f" {sum(images) / way['step_us'] * 1e6:,.0f} | {faster} | {peaks} |")
        lines.append("")
        for name, value, least in goals(text, of_row):
            reached = value >= least
            lines.append(f"- {name}: **{value:.3f}** (goal {least:.3f}"
                         f"{'' if reached else ', missed'})")
            if not reached:
                missed.append(f"{text}: {name}")
        lines.append("")
    return lines, missed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", dest="folder", required=True)
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("rows", nargs="*", default=ROWS)
    args = parser.parse_args()
    ends = time.monotonic() + args.seconds
    path = os.path.join(args.folder, "unlike.json")
    told = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
    told.pop("unfinished", None)
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True,
                            check=True).stdout
    free = [str(n) for n in range(len(listed.splitlines()))]
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        free = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
    all_gpus, lock, running = list(free), threading.Lock(), []
    for text in args.rows:
        needed = 4 if text.endswith(":half") else text.count(",") + 1
        if needed > len(free):
            for thread in running:
                thread.join()
            free, running = list(all_gpus), []
        row = Row(text, free[:needed], args.folder, told, lock)
        free = free[needed:]
        running.append(threading.Thread(target=run, args=(row, ends)))
        running[-1].start()
    for thread in running:
        thread.join()
    missed = []

    def lines_of(told):
        lines, below = table(told)
        missed.extend(below)
        return lines

    report(told, args.folder, "unlike", lines_of)
    failed = any("failed" in way for row in told.values() if isinstance(row, dict)
                 for way in row.values())
    sys.exit(exit_status(failed, missed, "unfinished" in told))


if __name__ == "__main__":
    main()
