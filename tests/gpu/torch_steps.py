#!/usr/bin/env python3
"""Measures whole training steps of PyTorch on cuDNN's legacy API, with and
without the preload shim.

    tests/gpu/torch_steps.py --shim LIBRARY -o DIR [--benchmark] [ROW...]

A ROW is NETWORK:BATCH:PRECISION, torchvision's network on random images. For
each row three processes take turns, so that all run at the same clocks: PyTorch
alone, with the shim and no limit, and with the shim under 64 MiB a convolution.
They train the same network on the same data. Writes DIR/pytorch.json after each
row and prints a table: the median step with its interquartile range, the memory
that PyTorch reserved, and the difference of the losses. --benchmark lets cuDNN
measure its algorithms (torch.backends.cudnn.benchmark).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROWS = ["vgg16:64:FP32", "alexnet:256:FP32", "alexnet:256:TF32",
        "alexnet:256:HALF", "resnet18:128:TF32", "vgg16:64:HALF"]
VARIANTS = ["alone", "no limit", "64MiB"]
WARM_UP = 6  # steps whose losses are compared; the first ones plan
ROUNDS = 5


# --- One process: reads commands from its input, answers with a line of JSON.

class Training:
    def __init__(self, row):
        import torch
        import torchvision
        network, batch, precision = row.split(":")
        tf32 = precision == "TF32"
        torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.manual_seed(1)
        self.torch = torch
        self.model = getattr(torchvision.models, network)().cuda()
        images = torch.randn(int(batch), 3, 224, 224, device="cuda")
        if precision == "HALF":
            self.model.half()
            images = images.half()
        self.images = images
        self.labels = torch.randint(0, 1000, (int(batch),), device="cuda")
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.torch.nn.functional.cross_entropy(
            self.model(self.images).float(), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def warm_up(self):
        begun = time.monotonic()
        losses = [self.step().item() for _ in range(WARM_UP)]
        return {"losses": losses, "seconds": time.monotonic() - begun}

    def run(self, steps):
        events = [self.torch.cuda.Event(enable_timing=True)
                  for _ in range(steps + 1)]
        events[0].record()
        for event in events[1:]:
            self.step()
            event.record()
        self.torch.cuda.synchronize()
        return [a.elapsed_time(b) for a, b in zip(events, events[1:])]


def serve(benchmark):
    import torch
    torch.backends.cudnn.benchmark = benchmark
    training = None
    for line in sys.stdin:
        command, argument = line.split()
        if command == "begin":
            training = Training(argument)
            answer = training.warm_up()
        elif command == "steps":
            answer = {"ms": training.run(int(argument))}
        elif command == "end":
            answer = {"reserved": torch.cuda.max_memory_reserved(),
                      "allocated": torch.cuda.max_memory_allocated()}
            training = None
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        print(json.dumps(answer), flush=True)


# --- The process that coordinates the turns.

class Worker:
    def __init__(self, variant, arguments):
        environment = dict(os.environ, TORCH_CUDNN_V8_API_DISABLED="1")
        for name in ("UCUDNN_WORKSPACE_LIMIT", "UCUDNN_TOTAL_WORKSPACE_SIZE"):
            environment.pop(name, None)
        command = [sys.executable, os.path.abspath(__file__), "--serve"]
        if arguments.benchmark:
            command.append("--benchmark")
        if variant != "alone":
            environment["LD_PRELOAD"] = os.path.abspath(arguments.shim)
            environment["UCUDNN_VERBOSE"] = "1"
        if variant == "64MiB":
            environment["UCUDNN_WORKSPACE_LIMIT"] = variant
        log = "pytorch-" + variant.replace(" ", "-") + ".log"
        with open(os.path.join(arguments.output, log), "ab") as file:
            self.process = subprocess.Popen(
                command, env=environment, text=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=file)

    def ask(self, command, argument="-"):
        self.process.stdin.write(f"{command} {argument}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a process ended; its log says why")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        return self.process.wait()


def measure(row, workers):
    results = {}
    for variant, worker in workers.items():
        # The others are idle meanwhile.
        results[variant] = worker.ask("begin", row)
        results[variant]["ms"] = []
    steps = 10
    for _ in range(ROUNDS):
        for variant, worker in workers.items():
            ms = worker.ask("steps", steps)["ms"]
            results[variant]["ms"] += ms[2:]  # the GPU was another's before
        # About half a second of each per round.
        steps = max(8, min(60, int(500 / statistics.median(ms))))
    for variant, worker in workers.items():
        results[variant].update(worker.ask("end"))
    return results


def difference(losses, others):
    return max(abs(a - b) / abs(a) for a, b in zip(losses, others))


def text_of(row, results):
    alone = results["alone"]
    base = statistics.median(alone["ms"])
    cells = [row]
    for variant in VARIANTS:
        result = results[variant]
        low, middle, high = statistics.quantiles(result["ms"], n=4)
        cells.append(f"{middle:.2f} ms ({low:.2f} to {high:.2f}), "
                     f"{(middle / base - 1) * 100:+.1f} %, "
                     f"{result['reserved'] / 2**30:.2f} GiB, "
                     f"warm-up {result['seconds']:.1f} s, losses "
                     f"{difference(alone['losses'], result['losses']):.1e} off")
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shim")
    parser.add_argument("-o", "--output", default=".")
    parser.add_argument("--benchmark", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("rows", nargs="*", default=ROWS, metavar="ROW")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.benchmark)
        return
    if not arguments.shim:
        parser.error("--shim names no library")
    mode = "benchmark" if arguments.benchmark else "heuristics"
    print(f"| {mode} | " + " | ".join(VARIANTS) + " |")
    print("|---" * (1 + len(VARIANTS)) + "|", flush=True)
    workers = {v: Worker(v, arguments) for v in VARIANTS}
    path = os.path.join(arguments.output, "pytorch.json")
    known = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
    for row in arguments.rows or ROWS:
        results = measure(row, workers)
        print(text_of(row, results), flush=True)
        known[f"{row} {mode}"] = results
        with open(path, "w", encoding="utf-8") as file:
            json.dump(known, file)
    sys.exit(max(abs(worker.end()) for worker in workers.values()))


if __name__ == "__main__":
    main()
