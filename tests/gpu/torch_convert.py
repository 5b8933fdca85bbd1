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
    eighth   within an eighth of that
each enqueued step by step and replayed as a CUDA graph of the whole step.
Sections:
    rows     all of them
    checks   results under torch.compile, in CUDA graphs, on two streams, twice
             differentiated, under autocast with GradScaler
    uneven   two GPUs: ResNet-18 FP32, batch 128, on slices of 64 and 16
             multiprocessors, with planned shares alone and with convert
Writes DIR/torch-convert.json, with every step's time, and DIR/torch-convert.md
after each. Begins no row after N seconds (130). About 200 s on two GPUs. Needs
torchvision; PYTHONPATH and UCUDNN_LIBRARY name the package.
"""

import argparse
import json
import os
import queue
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = ["vgg16:64:FP32", "alexnet:256:FP32", "resnet18:128:TF32",
        "vgg16:64:HALF", "resnet18:128:HALF", "alexnet:256:HALF",
        "resnet18:128:FP32", "alexnet:256:TF32", "vgg16:64:TF32"]
VARIANTS = ("plain", "full", "eighth")
ROW_LIMIT = 110


class Worker:
    """A process of torch_convert_rows.py on one GPU."""

    def __init__(self, gpu, output):
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES=gpu)
        self.log = os.path.join(output, f"torch-convert-{gpu[:12]}.log")
        with open(self.log, "ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, "torch_convert_rows.py")],
                env=environment, text=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=file)

    def ask(self, row):
        """Its answer; an error's text if it ends or takes too long."""
        timer = threading.Timer(ROW_LIMIT, self.process.kill)
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
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return {"failed": "the process ended: " + file.read()[-1500:]}

    def end(self):
        self.process.kill()
        self.process.wait()


def gpus():
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen:
        return chosen.split(",")
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    return [str(i) for i, _ in enumerate(listed.stdout.splitlines())] or ["0"]


def run_rows(rows, output, until, keep, before_last):
    """Gives each GPU the next row when it is free; the last one does
    `before_last` first."""
    left = queue.Queue()
    for row in rows:
        left.put(row)

    found = gpus()

    def serve(gpu):
        if gpu == found[-1]:
            before_last()
        worker = Worker(gpu, output)
        while time.monotonic() < until:
            try:
                row = left.get_nowait()
            except queue.Empty:
                break
            told = worker.ask(row)
            keep(row, told)
            if worker.process.poll() is not None:
                worker = Worker(gpu, output)
        worker.end()

    threads = [threading.Thread(target=serve, args=(gpu,)) for gpu in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while not left.empty():
        keep(left.get(), {"failed": "the time was up"})


def cell(values, base):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f}), {middle / base:.3f}"


def lines_of(told):
    """Markdown."""
    rows = {n: t for n, t in told.items() if n not in ("checks", "uneven")}
    if rows:
        yield "| row | step, ms | " + " | ".join(VARIANTS) + " | workspaces, MiB |"
        yield "|---" * 6 + "|"
    for name, row in rows.items():
        if "failed" in row:
            yield f"| {name} | failed: {row['failed'].strip()[-300:]!r} | | | | |"
            continue
        sizes = ", ".join(f"{row['workspace'][v] / 2**20:.0f}" for v in VARIANTS)
        for way in ("eager", "graph"):
            if way not in row:
                continue
            base = statistics.median(row[way]["plain"])
            cells = [cell(row[way][v], base) for v in VARIANTS]
            yield f"| {name} | {way} | " + " | ".join(cells) + f" | {sizes} |"
    for name, row in rows.items():
        if "failed" not in row:
            yield (f"\n{name}: {row['modules']} modules converted in full, planning "
                   f"took {row['planning_s']['full']:.0f} and "
                   f"{row['planning_s']['eighth']:.0f} s, gradients "
                   f"{row['gradients']['full']:.1e} off, and "
                   f"{row['gradients']['plain']:.1e} between two plain passes, "
                   f"{row['seconds']:.0f} s; {row.get('why', '')}")
    if "checks" in told:
        yield "\n| check | result | |"
        yield "|---|---|---|"
        for name, check in told["checks"].items():
            if name == "failed":
                yield f"| checks | {check.strip()[-300:]!r} | **failed** |"
                continue
            held = "" if check["held"] else "**missed**"
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


def run_checks(output):
    log = os.path.join(output, "torch-convert-checks.log")
    path = os.path.join(output, "torch-convert-checks.json")
    with open(log, "wb") as file:
        try:
            subprocess.run(
                [sys.executable, os.path.join(HERE, "torch_convert_checks.py"),
                 path], stdout=file, stderr=subprocess.STDOUT, timeout=100,
                env=dict(os.environ, CUDA_VISIBLE_DEVICES=gpus()[-1]))
        except subprocess.TimeoutExpired:
            pass
    with open(log, encoding="utf-8", errors="replace") as file:
        tail = file.read()[-2000:]
    if not os.path.exists(path):
        return {"failed": tail}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def run_uneven():
    import torch_share
    torch_share.LIMITS["converted"] = 90
    result = torch_share.run("converted")
    if result["failed"]:
        return {"failed": "\n".join(result["output"])}
    return result["ranks"][0]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--seconds", type=float, default=130)
    parser.add_argument("parts", nargs="*", metavar="SECTION or ROW")
    arguments = parser.parse_args()
    parts = arguments.parts or ["checks", "rows", "uneven"]
    rows = [part for part in parts if ":" in part]
    rows += [row for row in ROWS if "rows" in parts and row not in rows]
    for part in parts:
        if ":" not in part and part not in ("checks", "rows", "uneven"):
            parser.error(f"{part}: checks, rows, uneven or NETWORK:BATCH:PRECISION")
    os.makedirs(arguments.output, exist_ok=True)
    begun = time.monotonic()
    lock = threading.Lock()
    told = {}

    def keep(name, result):
        with lock:
            told[name] = result
            path = os.path.join(arguments.output, "torch-convert")
            with open(path + ".json", "w", encoding="utf-8") as file:
                json.dump(told, file)
            with open(path + ".md", "w", encoding="utf-8") as file:
                file.write("\n".join(lines_of(told)) + "\n")
            print("\n".join(lines_of({name: result})), flush=True)
            print(f"{time.monotonic() - begun:.0f} s", flush=True)

    def check():
        if "checks" in parts:
            keep("checks", run_checks(arguments.output))

    run_rows(rows, arguments.output, begun + arguments.seconds, keep, check)
    if "uneven" in parts and len(gpus()) > 1:
        keep("uneven", run_uneven())
    failed = any(
        "failed" in result
        or (name == "checks" and not all(c["held"] for c in result.values()))
        for name, result in told.items())
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
