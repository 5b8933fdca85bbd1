#!/usr/bin/env python3
"""Measures ucudnn.torch.convert: whole training steps against PyTorch's with
cudnn.benchmark.

    tests/gpu/torch_convert.py -o DIR [--seconds N] [SECTION or ROW...]

A ROW is NETWORK:BATCH:PRECISION, torchvision's network on random images; FP32
and TF32 are NCHW, HALF is autocast and channels last. The rows are spread over
all visible GPUs. For each, in turns in one process:
    plain    PyTorch with cudnn.benchmark
    full     converted within the largest workspace that plain takes for any
             convolution
    eighth   in FP32, within an eighth of that
each enqueued step by step and replayed as a CUDA graph of the whole step; and
    compiled plain through torch.compile, enqueued, in laps of its own
Sections:
    rows     all of them
    checks   results under torch.compile, in CUDA graphs, on two streams, twice
             differentiated, under autocast with GradScaler; accuracy against
             double precision, PyTorch's and the plans'
    uneven   two GPUs: ResNet-18 FP32, batch 128, on slices of 64 and 16
             multiprocessors, with planned shares alone and with convert
in the order named; uneven comes last. Writes DIR/torch-convert.json, with every
step's time, and DIR/torch-convert.md after each. Begins nothing after N seconds
(130), and ends what runs then 15 s later. UCUDNN_CHECKS, a regular expression,
chooses checks by their names. Needs torchvision; PYTHONPATH and
UCUDNN_LIBRARY name the package. No operation's planning begins after
UCUDNN_PLANNING_SECONDS (10), in an eighth after 0.6 of them.

Exit status: 0 done; 1 something failed; 3 the time was up before all had run;
4 a goal was missed.
"""

import json
import os
import queue
import re
import statistics
import subprocess
import sys
import threading
import time

from torch_common import PLANNING_SECONDS, arguments_of, exit_status, report

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = ["vgg16:64:FP32", "alexnet:256:FP32", "resnet18:128:TF32",
        "vgg16:64:HALF", "resnet18:128:HALF", "alexnet:256:HALF",
        "resnet18:128:FP32", "alexnet:256:TF32", "vgg16:64:TF32"]
VARIANTS = ("plain", "full", "eighth", "compiled")
# The most that a step may take of PyTorch's, by precision and variant. Where
# nothing may be lost, half a percent is noise.
GOALS = {"FP32": {"full": 0.85, "eighth": 1.0}, "TF32": {"full": 1.005},
         "HALF": {"full": 1.005}}
ROW_LIMIT = 155 + 1.6 * PLANNING_SECONDS
CHECKS_LIMIT = 240
GRACE = 15
TIME_UP = "the time was up"


class Worker:
    """A process of torch_convert_rows.py on one GPU."""

    def __init__(self, gpu, output):
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES=gpu)
        self.log = os.path.join(output, f"torch-convert-{gpu[:12]}.log")
        with open(self.log, "ab") as file:
            self.begin = file.tell()
            self.process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, "torch_convert_rows.py")],
                env=environment, text=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=file)

    def ask(self, row, until):
        """Its answer; why there is none if it ends or takes too long."""
        left = until - time.monotonic()
        timer = threading.Timer(min(ROW_LIMIT, left), self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(row + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        finally:
            timer.cancel()
        if line:
            return json.loads(line)
        if time.monotonic() >= until:
            return {"unfinished": TIME_UP}
        status = self.process.wait()
        with open(self.log, encoding="utf-8", errors="replace") as file:
            file.seek(self.begin)
            return {"failed": f"the process ended: {status}\n{file.read()}"}

    def end(self):
        self.process.kill()
        self.process.wait()


def gpus():
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen:
        return chosen.split(",")
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    return [str(i) for i, _ in enumerate(listed.stdout.splitlines())] or ["0"]


def run_jobs(jobs, output, until, keep):
    """Gives each GPU the next job when it is free: a row or "checks"."""
    left = queue.Queue()
    for job in jobs:
        left.put(job)

    def serve(gpu):
        worker = Worker(gpu, output)  # begins to load what it needs
        while time.monotonic() < until:
            try:
                job = left.get_nowait()
            except queue.Empty:
                break
            if job == "checks":
                keep(job, run_checks(output, gpu, until + GRACE))
                continue
            answer = worker.ask(job, until + GRACE)
            keep(job, answer)
            if "failed" in answer:
                # It ended, or is about to: no row after a CUDA error counts.
                worker.end()
                worker = Worker(gpu, output)
        worker.end()

    threads = [threading.Thread(target=serve, args=(gpu,)) for gpu in gpus()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while not left.empty():
        keep(left.get(), {"unfinished": TIME_UP})


def goals_of(name, row):
    """Each goal of a row: (text, whether it was reached)."""
    for variant, most in GOALS[name.split(":")[2]].items():
        for way in ("eager", "graph"):
            if variant in row[way]:
                ratio = (statistics.median(row[way][variant])
                         / statistics.median(row[way]["plain"]))
                text = f"{variant} {way} {ratio:.3f} of at most {most}"
                yield text, ratio <= most
            elif most < 1:
                yield f"{variant} {way} not converted, of at most {most}", False


def first_lines(failed):
    """Of a process that ended, or of a traceback's first exception."""
    lines = failed.strip().splitlines()
    for at, line in enumerate(lines):
        if re.match(r"(the process ended|[\w.]*(Error|Exception)\b)", line):
            return " / ".join(lines[at:at + 3])
    return lines[-1]


def cell(values, base):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f}), {middle / base:.3f}"


def lines_of(told):
    """Markdown."""
    rows = {n: t for n, t in told.items() if n not in ("checks", "uneven")}
    if rows:
        yield "| row | step, ms | " + " | ".join(VARIANTS) + " | workspaces, MiB |"
        yield "|---" * (len(VARIANTS) + 3) + "|"
    for name, row in rows.items():
        if "workspace" not in row:
            why = row.get("failed", row.get("unfinished"))
            yield f"| {name} | none: {first_lines(why)} |"
            continue
        sizes = ", ".join(
            f"{row['workspace'][v] / 2**20:.0f}"
            for v in VARIANTS if v in row["workspace"])
        for way in ("eager", "graph"):
            base = statistics.median(row[way]["plain"])
            cells = [
                cell(row[way][v], base) if v in row[way]
                else "PyTorch's" if v in row["workspace"] else ""
                for v in VARIANTS]
            yield f"| {name} | {way} | " + " | ".join(cells) + f" | {sizes} |"
    for name, row in rows.items():
        if "workspace" not in row:
            continue
        yield f"\n{name}, {row['seconds']:.0f} s: "
        for variant, planning in row["planning_s"].items():
            yield (f"- {variant}: {row['modules'][variant]} modules converted, "
                   f"planning took {planning:.0f} s; {row['why'][variant]}")
        off = ", ".join(f"{n} {d:.1e}" for n, d in row["gradients"].items())
        yield f"- gradients off PyTorch's: {off}"
        for text, reached in goals_of(name, row):
            yield f"- goal: {text}{'' if reached else ', **missed**'}"
    if "checks" in told:
        yield "\n| check | result | |"
        yield "|---|---|---|"
        for name, check in told["checks"].items():
            if name == "unfinished":
                yield f"| checks | {check} | not run |"
                continue
            held = {True: "", False: "**missed**", None: "not run"}[check["held"]]
            yield f"| {name} | {check['text']} | {held} |"
    if "uneven" in told:
        uneven = told["uneven"]
        if "failed" in uneven:
            yield "\nuneven failed:\n```\n" + uneven["failed"].strip() + "\n```"
            return
        even = uneven["even_ms"]
        yield "\n| uneven | images | ms | times even |"
        yield "|---|---|---|---|"
        half = sum(uneven["planned"]) // 2
        yield f"| even, plain DDP | {half} + {half} | {even:.2f} | 1.00 |"
        for name in ("even_converted", "planned", "converted"):
            ms = uneven[name + "_ms"]
            first, second = (half, half) if "even" in name else uneven["planned"]
            yield f"| {name} | {first} + {second} | {ms:.2f} | {even / ms:.2f} |"


def run_checks(output, gpu, until):
    """What torch_convert_checks.py tells; a check that the process ends in is
    missed."""
    log = os.path.join(output, "torch-convert-checks.log")
    path = os.path.join(output, "torch-convert-checks.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write("{}")
    limit = min(CHECKS_LIMIT, until - time.monotonic())
    program = os.path.join(HERE, "torch_convert_checks.py")
    with open(log, "wb") as file:
        try:
            ended = subprocess.run(
                [sys.executable, program, path], stdout=file, timeout=limit,
                stderr=subprocess.STDOUT,
                env=dict(os.environ, CUDA_VISIBLE_DEVICES=gpu)).returncode
        except subprocess.TimeoutExpired:
            ended = TIME_UP
    with open(path, encoding="utf-8") as file:
        told = json.load(file)
    if ended == TIME_UP:
        return told or {"unfinished": TIME_UP}
    if ended != 0:
        with open(log, encoding="utf-8", errors="replace") as file:
            tail = file.read()[-1500:]
        told["the process"] = {"held": False, "text": f"ended: {ended}: {tail}"}
    return told


def status_of(told):
    """The exit status, as the text above says."""
    failed = missed = up = False
    for name, result in told.items():
        failed |= "failed" in result
        up |= "unfinished" in result
        if name == "checks" and "unfinished" not in result:
            held = [c["held"] for c in result.values()]
            failed |= False in held
            up |= None in held
        if "workspace" in result:
            missed |= not all(reached for _, reached in goals_of(name, result))
    return exit_status(failed, missed, up)


def run_uneven():
    import torch_share
    torch_share.LIMITS["converted"] = 90
    result = torch_share.run("converted")
    if result["failed"]:
        return {"failed": "\n".join(result["output"])}
    return result["ranks"][0]


def main():
    output, seconds, parts = arguments_of(
        __doc__, ["checks", "rows", "uneven"], ROWS, 130)
    jobs = [part for part in parts if part != "uneven"]
    begun = time.monotonic()
    lock = threading.Lock()
    told = {}

    def keep(name, result):
        with lock:
            told[name] = result
            report(told, output, "torch-convert", lines_of)
            print("\n".join(lines_of({name: result})), flush=True)
            print(f"{time.monotonic() - begun:.0f} s", flush=True)

    run_jobs(jobs, output, begun + seconds, keep)
    if "uneven" in parts and len(gpus()) > 1:
        keep("uneven", run_uneven())
    sys.exit(status_of(told))


if __name__ == "__main__":
    main()
