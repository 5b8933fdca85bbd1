#!/usr/bin/env python3
"""Measures ucudnn.torch.compile on one GPU beside PyTorch's own ways.

    tests/gpu/torch_compile.py -o DIR [--seconds N] [ROW...]

A ROW is a model with its batch, trained by AdamW on random data in bf16 autocast,
images channels last: resnet50 (128), convnext (tiny, 64), vit (B/16, 64), gpt2
(small, 8 x 1024 tokens), and resnet18 (128) in FP32, channels first. Each is a process of its own, with these ways:
    eager        PyTorch with cudnn.benchmark
    checkpoint   torch.utils.checkpoint, block by block
    compile      torch.compile
    pytorch 0.5  torch.compile with activation_memory_budget=0.5
    ours 0.75    ucudnn.torch.compile within three quarters of what "compile" needs
                 above parameters, gradients and the optimizer's state
    ours 0.5     within half of that
    convolutions ucudnn.torch.compile with convolutions planned within 1 GiB, without a
                 budget
    offload 0.5  the same as ours 0.5, and values may move to the host
    ours 1       within all of it, and a tenth
    compile 2    torch.compile again, which tells whether the process became slower
    compile graphs, ours graphs 0.75, ours graphs 0.5
                 compile, ours 0.75 and ours 0.5 with mode="reduce-overhead"; the peak
                 of ours is what the plan measured, since replays allocate nothing;
                 what CUDA graphs reserve stands beside it
Writes DIR/torch-compile.json after each way and DIR/torch-compile.md at the end;
ways that the JSON has already are not measured again, so the same command resumes.
Begins no way after N seconds (420). UCUDNN_WAYS, a regular expression, chooses ways.
Needs torchvision and transformers; PYTHONPATH and UCUDNN_LIBRARY name the package.

Exit status: 0 done; 1 something failed; 3 the time was up; 4 a goal was missed.
"""

import argparse
import gc
import json
import logging
import os
import re
import statistics
import subprocess
import sys
import time

from torch_common import exit_status, laps, peak_of, report, write

ROWS = ("resnet50", "convnext", "vit", "gpt2", "resnet18")
WAYS = ("eager", "checkpoint", "compile", "ours 0.5", "ours 0.75", "pytorch 0.5",
        "convolutions", "offload 0.5", "ours 1", "compile graphs", "ours graphs 0.5", "ours graphs 0.75", "compile 2")
STEPS = 12
MOST_STEPS = 80  # until a plan is settled


# --- On the GPU.

def is_fp32(row):
    return row == "resnet18"


def network(row):
    """A model, its inputs, and the modules that are checkpointed."""
    import torch
    import torchvision.models as models
    torch.manual_seed(1)
    if row == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel
        model = GPT2LMHeadModel(GPT2Config(use_cache=False))
        tokens = torch.randint(0, 50257, (8, 1024), device="cuda")
        return model.cuda().train(), (tokens,), model.transformer.h
    batch = 128 if row.startswith("resnet") else 64
    model = {"resnet50": models.resnet50, "resnet18": models.resnet18,
             "convnext": models.convnext_tiny, "vit": models.vit_b_16}[row]()
    layout = torch.contiguous_format if is_fp32(row) else torch.channels_last
    model = model.to("cuda", memory_format=layout).train()
    images = torch.randn(batch, 3, 224, 224, device="cuda")
    images = images.contiguous(memory_format=layout)
    labels = torch.randint(0, 1000, (batch,), device="cuda")
    blocks = {
        "resnet50": lambda: [b for n in range(1, 5)
                             for b in getattr(model, f"layer{n}")],
        "convnext": lambda: [b for stage in list(model.features)[1::2] for b in stage],
        "vit": lambda: list(model.encoder.layers),
    }.get(row, list)()
    return model, (images, labels), blocks


def checkpointed(block):
    from torch.utils.checkpoint import checkpoint
    forward = block.forward
    block.forward = lambda *args, **more: checkpoint(
        forward, *args, use_reentrant=False, **more)


def mode_of(way):
    return "reduce-overhead" if "graphs" in way else None


def plain_of(told, way):
    """What a way is compared with."""
    return told.get("compile graphs" if "graphs" in way else "compile", {})


def kept_by_graphs():
    """Bytes that CUDA graphs keep for themselves and that no tensor has."""
    import torch
    return sum(one["total_size"] - one["allocated_size"]
               for one in torch.cuda.memory_snapshot()
               if tuple(one["segment_pool_id"]) != (0, 0))


class Step:
    def __init__(self, row, way, told):
        import torch
        self.torch = torch
        self.half = not is_fp32(row)
        self.model, self.inputs, blocks = network(row)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5)
        self.forward = self.model
        self.plan = None
        if way == "checkpoint":
            for block in blocks:
                checkpointed(block)
        elif way.startswith("compile"):
            self.forward = torch.compile(self.model, mode=mode_of(way))
        elif way == "pytorch 0.5":
            torch._functorch.config.activation_memory_budget = 0.5
            self.forward = torch.compile(self.model)
        elif way == "convolutions":
            import ucudnn.torch
            self.forward = ucudnn.torch.compile(self.model, workspace_limit="1GiB")
            self.budget = torch.cuda.mem_get_info()[1]
            self.plan = lambda: ucudnn.torch.plan_of(self.forward)
        elif way.startswith(("ours", "offload")):
            import ucudnn.torch
            state = told["compile"]["state"]
            part = 1.1 if way == "ours 1" else float(way.split()[-1])
            self.budget = int(state + part * (told["compile"]["peak"] - state))
            self.forward = ucudnn.torch.compile(
                self.model, budget=self.budget, mode=mode_of(way),
                host_budget="64GiB" if way.startswith("offload") else None)
            self.plan = lambda: ucudnn.torch.plan_of(self.forward)

    def __call__(self):
        torch = self.torch
        times = [time.perf_counter()]
        self.optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=self.half):
            if len(self.inputs) == 1:
                loss = self.forward(self.inputs[0], labels=self.inputs[0]).loss
            else:
                loss = torch.nn.functional.cross_entropy(
                    self.forward(self.inputs[0]).float(), self.inputs[1])
        times.append(time.perf_counter())
        loss.backward()
        times.append(time.perf_counter())
        self.optimizer.step()
        times.append(time.perf_counter())
        # Milliseconds of the host in the forward and backward pass and the optimizer.
        self.host = [round((b - a) * 1e3, 2) for a, b in zip(times, times[1:])]
        return loss


def measured(row, way, told):
    import torch
    begun = time.monotonic()
    step = Step(row, way, told)
    losses, peaks = [], []
    while len(peaks) < 14 or (
            step.plan and not step.plan().settled and len(peaks) < MOST_STEPS):
        # Nothing waits for the GPU, as in `laps`.
        torch.cuda.reset_peak_memory_stats()
        losses.append(step().detach().clone())
        peaks.append(torch.cuda.max_memory_allocated())
    losses = [float(loss) for loss in losses]
    settled = time.monotonic() - begun
    milliseconds = statistics.median(laps(step, STEPS))
    # Whether it is Python's garbage that makes the host slow.
    gc.collect()
    gc.freeze()
    torch.cuda.synchronize()
    step()
    host = step.host
    without = statistics.median(laps(step, STEPS))
    gc.unfreeze()
    peak = max(peak_of(step) for _ in range(2))
    inputs = sum(one.numel() * one.element_size() for one in step.inputs)
    result = {
        "ms": milliseconds, "peak": peak, "peaks": peaks, "losses": losses,
        "state": torch.cuda.memory_allocated() - inputs, "seconds": settled,
        "graphs_bytes": kept_by_graphs(), "host_ms": host, "ms_without_collecting": without,
    }
    result["kernels"], result["kernels_ms"], result["launched"] = kernels_of(step)
    if step.plan is not None:
        plan = step.plan()
        result.update(
            budget=step.budget, predicted_ms=plan.predicted_ms,
            plain_ms=plan.plain_ms, bound_ms=plan.bound_ms,
            predicted_peak=plan.predicted_peak_bytes,
            plain_peak=plan.plain_peak_bytes, kept=len(plan.kept),
            recomputed=len(plan.recomputed), moved=len(plan.moved),
            pinned=plan.pinned_bytes, convolutions=plan.convolutions,
            convolution_lines=plan.convolution_lines, text=str(plan), settled=plan.settled,
            check=str(plan.check(step)),
            again=[str(one) for one in plan.recomputed])
        if "graphs" in way:
            result["peak"] = plan.measured_peak_bytes
    return result


def kernels_of(step):
    """Those that take most, with their microseconds and calls in a step; the
    milliseconds and the number of all."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        step()
    kernels = sorted(seen.key_averages(), key=lambda one: -one.self_device_time_total)
    return ([[one.key[:80], round(one.self_device_time_total), one.count]
             for one in kernels[:20]],
            sum(one.self_device_time_total for one in kernels) / 1e3,
            sum(one.count for one in kernels))


def run_row(row, path, ends):
    """In a process of its own: the ways that are missing."""
    import torch
    logging.basicConfig(level=logging.INFO, stream=sys.stdout,
                        format="%(asctime)s %(message)s")
    logging.getLogger("ucudnn").setLevel(logging.DEBUG)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = not is_fp32(row)
    with open(path, encoding="utf-8") as file:
        every = json.load(file)
    told = every.setdefault(row, {})
    for way in WAYS:
        if way in told or not re.search(os.environ.get("UCUDNN_WAYS", ""), way):
            continue
        if time.time() > ends:
            told["unfinished"] = way
            break
        told.pop("unfinished", None)
        print(f"== {row}, {way}", flush=True)
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
        print(f"in use: {torch.cuda.memory_allocated()} bytes, kept by CUDA graphs: "
              f"{kept_by_graphs()}", flush=True)
        try:
            told[way] = measured(row, way, told)
        except Exception as error:
            import traceback
            traceback.print_exc()
            told[way] = {"failed": f"{type(error).__name__}: {error}"[:2000],
                         "least": getattr(error, "least", None)}
        torch._functorch.config.activation_memory_budget = 1.0
        write(every, path)
        print({name: value for name, value in told[way].items()
               if name not in ("again", "losses", "kernels", "peaks")}, flush=True)
    write(every, path)


# --- Elsewhere.

def goals_of(row):
    for way in ("ours 0.75", "ours 0.5", "offload 0.5", "ours graphs 0.75",
                "ours graphs 0.5"):
        ours, plain = row.get(way, {}), plain_of(row, way)
        if "ms" not in ours or "ms" not in plain:
            continue
        yield f"{way}: peak within the budget", ours["peak"] <= ours["budget"]
        off = abs(ours["predicted_peak"] / ours["peak"] - 1)
        yield f"{way}: peak predicted within {off:.3f} of 0.02", off <= 0.02
        off = abs(ours["predicted_ms"] / ours["ms"] - 1)
        yield f"{way}: time predicted within {off:.3f} of 0.05", off <= 0.05
        off = abs(ours["plain_ms"] / plain["ms"] - 1)
        yield f"{way}: plain time predicted within {off:.3f} of 0.05", off <= 0.05
        yield (f"{way}: {ours['ms'] / plain['ms']:.3f} of torch.compile's time",
               ours["ms"] <= 1.25 * plain["ms"])
    ours, plain = row.get("convolutions", {}), row.get("compile", {})
    if "ms" in ours and "ms" in plain:
        yield (f"convolutions: {ours['ms'] / plain['ms']:.3f} of torch.compile's time",
               ours["ms"] <= 1.01 * plain["ms"])


def lines_of(told):
    yield ("| row | way | ms | kernels ms | GiB | for CUDA graphs | budget | predicted "
           "ms | predicted GiB | s until settled |")
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for row, ways in told.items():
        for way in WAYS:
            one = ways.get(way, {})
            if "failed" in one:
                yield f"| {row} | {way} | {one['failed'][:120]} | | | | | | | |"
            if "ms" in one:
                def size(name, one=one):
                    return f"{one[name] / 2**30:.2f}" if name in one else ""
                predicted = f"{one['predicted_ms']:.1f}" if "predicted_ms" in one else ""
                yield (f"| {row} | {way} | {one['ms']:.1f} | {one['kernels_ms']:.1f} | "
                       f"{size('peak')} | {size('graphs_bytes')} | "
                       f"{size('budget')} | {predicted} | {size('predicted_peak')} | "
                       f"{one['seconds']:.0f} |")
    yield ""
    for row, ways in told.items():
        for text, reached in goals_of(ways):
            yield f"- {row}: {text}{'' if reached else ': MISSED'}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--seconds", type=float, default=420)
    parser.add_argument("--process", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    arguments = parser.parse_args()
    path = os.path.join(arguments.output, "torch-compile.json")
    if arguments.process:
        run_row(arguments.process[0], path, float(arguments.process[1]))
        return 0
    for row in arguments.rows:
        if row not in ROWS:
            parser.error(f"{row}: {', '.join(ROWS)}")
    os.makedirs(arguments.output, exist_ok=True)
    if not os.path.exists(path):
        write({}, path)
    ends = time.time() + arguments.seconds
    failed = False
    for row in arguments.rows or ROWS:
        if time.time() > ends:
            break
        status = subprocess.run(
            [sys.executable, os.path.abspath(__file__), "-o", arguments.output,
             "--process", row, str(ends)]).returncode
        failed |= status != 0
    with open(path, encoding="utf-8") as file:
        told = json.load(file)
    lines = list(lines_of(told))
    print("\n".join(lines))
    report(told, arguments.output, "torch-compile", lines_of)
    failed |= any("failed" in one for ways in told.values()
                  for one in ways.values() if isinstance(one, dict))
    missed = any(not reached for ways in told.values() for _, reached in goals_of(ways))
    chosen = [w for w in WAYS if re.search(os.environ.get("UCUDNN_WAYS", ""), w)]
    unfinished = any(way not in told.get(row, {}) for way in chosen
                     for row in arguments.rows or ROWS)
    return exit_status(failed, missed, unfinished)


if __name__ == "__main__":
    sys.exit(main())
