"""Rows of torch_convert.py on the current GPU: reads NETWORK:BATCH:PRECISION from
its input, answers each with a line of JSON."""

import gc
import json
import os
import statistics
import sys
import tempfile
import time
import traceback

import torch

import ucudnn.torch
from torch_common import (
    PLANNING_SECONDS, Training, distance, laps, peak_of, warm_up)
from ucudnn.torch.convolution.calls import record
from ucudnn.torch.convolution.contest import _operands, _run_of
from ucudnn.torch.convolution.planned import PlannedCall

# Only FP32 has a goal within an eighth of PyTorch's workspace.
PARTS = {"FP32": {"full": 1, "eighth": 8}, "TF32": {"full": 1}, "HALF": {"full": 1}}
PLANNING_S = {"full": PLANNING_SECONDS, "eighth": 0.6 * PLANNING_SECONDS}
ROUNDS = 3


class Row(Training):
    def __init__(self, text):
        # Casts that autocast would cache may not stay from one capture to the next.
        super().__init__(text, cached_casts=False)
        torch.backends.cudnn.benchmark = True

    def step(self, forward=None):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(forward).backward()
        self.optimizer.step()

    def gradients(self):
        torch.manual_seed(5)
        return torch.autograd.grad(self.loss(), list(self.model.parameters()))

    def torch_workspace(self):
        """The most memory that PyTorch takes for a convolution, beside operands
        and result."""
        with self.autocast():
            seen = record(self.model, [self.images], {})
        most, known = 0, set()
        with torch.no_grad():
            for one in seen:
                operands = None
                for name in one.operations:
                    if (one.call, name) in known:
                        continue
                    known.add((one.call, name))
                    operands = operands or _operands(one.call)
                    run = _run_of(PlannedCall(one.call, {}), name, operands)
                    run()
                    torch.cuda.synchronize()
                    torch.cuda.reset_peak_memory_stats()
                    before = torch.cuda.memory_allocated()
                    result = run()
                    torch.cuda.synchronize()
                    if isinstance(result, tuple):
                        result = next(t for t in result if t is not None)
                    size = result.numel() * result.element_size()
                    peak = torch.cuda.max_memory_allocated()
                    most = max(most, peak - before - size)
                    del result
        return most


def captured(step):
    warm_up(step)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def measure(text):
    begun = time.monotonic()
    row = Row(text)
    for _ in range(3):
        row.step()
    told = {"planning_s": {}, "report": {}, "modules": {}, "why": {}, "spent_s": {}}
    told["workspace"] = {"plain": row.torch_workspace()}

    def spent(name):
        told["spent_s"][name] = time.monotonic() - begun - sum(
            told["spent_s"].values())

    spent("PyTorch's benchmark")
    done = {}
    for name, part in PARTS[row.precision].items():
        since = time.monotonic()
        with row.autocast():
            done[name] = ucudnn.torch.convert(
                row.model, row.images, quiet=True, seconds=PLANNING_S[name],
                workspace_limit=told["workspace"]["plain"] // part)
        told["planning_s"][name] = time.monotonic() - since
        told["report"][name] = str(done[name])
        told["workspace"][name] = done[name].workspace
        told["modules"][name] = len(done[name].converted)
        told["why"][name] = done[name].why
    spent("planning")
    # A variant without a plan is PyTorch's own, which is measured already.
    variants = ["plain", *(n for n, one in done.items() if not one.why)]

    def select(name):
        for one in done.values():
            one.revert()
        if name != "plain":
            done[name].apply()

    select("plain")
    expected = row.gradients()
    told["gradients"] = {}
    for name in variants:
        select(name)
        told["gradients"][name] = distance(row.gradients(), expected)
    del expected
    spent("gradients")

    told["eager"] = {name: [] for name in variants}
    estimate = statistics.median(laps(row.step, 5))
    count = max(5, min(30, int(200 / estimate)))
    for _ in range(ROUNDS):
        for name in variants:
            select(name)
            row.step()
            told["eager"][name] += laps(row.step, count)
    told["peak"] = {}
    for name in variants:
        select(name)
        told["peak"][name] = peak_of(row.step)
    spent("enqueued")
    # What PyTorch's compiler makes of the plain model.
    select("plain")
    forward = torch.compile(row.model)

    def compiled():
        row.step(forward)

    laps(compiled, 5)
    told["eager"]["compiled"] = laps(compiled, ROUNDS * count)
    told["peak"]["compiled"] = peak_of(compiled)
    spent("torch.compile")
    graphs = {}
    for name in variants:
        select(name)
        graphs[name] = captured(row.step)
    told["graph"] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for name in variants:
            graphs[name].replay()
            told["graph"][name] += laps(graphs[name].replay, count)
    spent("graphs")
    told["seconds"] = time.monotonic() - begun
    return told


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["UCUDNN_CACHE_DIR"] = folder
        for line in sys.stdin:
            try:
                answer = measure(line.strip())
            except Exception:  # noqa: BLE001  the others go on
                answer = {"failed": traceback.format_exc()}
            print(json.dumps(answer), flush=True)
            if "failed" in answer and "CUDA error" in answer["failed"]:
                os._exit(1)
            gc.collect()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
