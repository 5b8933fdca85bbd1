#!/usr/bin/env python3
"""Measures PyTorch's convolutions of a network, with cudnn.benchmark.

    tests/gpu/torch_peer.py [--seconds N] -o torch.json ROW...

A ROW is NETWORK:BATCH:PRECISION:LAYOUT (tests/data/networks/NETWORK.csv). For
each: the sum over the network's layers and three operations (no input gradient
for the first layer) of the median time on the device, runs back to back in
groups of about 3 ms, and the largest workspace of any: the peak of memory
during a run less the operands and the result. Each distinct convolution is
measured once, also if several rows have it. Rows that torch.json already has from
the same versions are kept.
"""

import argparse
import csv
import json
import os
import statistics
import sys
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
NETWORKS = os.path.join(HERE, "..", "data", "networks")
DTYPES = {"FP32": torch.float32, "TF32": torch.float32,
          "PSEUDO_HALF": torch.float16, "BF16": torch.bfloat16}


def layers_of(network):
    path = os.path.join(NETWORKS, network + ".csv")
    with open(path, encoding="utf-8") as file:
        for index, row in enumerate(csv.DictReader(file)):
            if row.get("D") or row.get("transposed") == "1":
                raise SystemExit(f"{path}: only plain layers of 2 dimensions")
            numbers = {k: int(v) for k, v in row.items() if k != "name" and v}
            yield row["name"], index == 0, numbers


def operations(row, batch, dtype, layout):
    """The three operations of a layer as functions that return their result."""
    form = (torch.channels_last if layout == "NHWC"
            else torch.contiguous_format)

    def tensor(*shape):
        return torch.rand(shape, device="cuda", dtype=dtype).sub_(0.5).to(
            memory_format=form)

    stride = [row["stride_h"], row["stride_w"]]
    padding = [row["pad_h"], row["pad_w"]]
    dilation = [row.get("dilation_h", 1), row.get("dilation_w", 1)]
    groups = row["groups"]
    x = tensor(batch, row["C"], row["H"], row["W"])
    w = tensor(row["K"], row["C"] // groups, row["R"], row["S"])
    forward = lambda: torch.nn.functional.conv2d(
        x, w, None, stride, padding, dilation, groups)
    gradient = tensor(*forward().shape)

    def backward(data, filters):
        grads = torch.ops.aten.convolution_backward(
            gradient, x, w, None, stride, padding, dilation, False, [0, 0],
            groups, [data, filters, False])
        return grads[0] if data else grads[1]

    return {"forward": forward,
            "backward_data": lambda: backward(True, False),
            "backward_filter": lambda: backward(False, True)}


def elapsed(run, count):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        run()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) * 1e3 / count  # us


def measure(run):
    """(median microseconds, bytes of workspace)"""
    for _ in range(3):  # the first one searches
        run()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = run()
    torch.cuda.synchronize()
    size = result.numel() * result.element_size()
    workspace = torch.cuda.max_memory_allocated() - before - size
    del result
    count = max(1, min(64, int(3000 / max(elapsed(run, 1), 1))))
    times = [elapsed(run, count) for _ in range(7)]
    return statistics.median(times), max(0, workspace)


def figure(network, batch, precision, layout, known):
    """`known` are the convolutions measured so far, by what they depend on."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "TF32"
    torch.backends.cudnn.allow_tf32 = precision == "TF32"
    total, workspace, kernels = 0.0, 0, []
    for name, first, row in layers_of(network):
        key = (batch, precision, layout, first, *sorted(row.items()))
        if key not in known:
            known[key] = {}
            ops = operations(row, batch, DTYPES[precision], layout)
            for op, run in ops.items():
                if op == "backward_data" and first:
                    continue
                known[key][op] = measure(run)
            del ops
            torch.cuda.empty_cache()
        for op, (us, size) in known[key].items():
            total += us
            workspace = max(workspace, size)
            kernels.append({"layer": name, "op": op, "time_us": us,
                            "workspace_bytes": size})
    return {"network": network, "batch": batch, "precision": precision,
            "layout": layout, "time_us": total, "workspace_bytes": workspace,
            "kernels": kernels}


def row_of(entry):
    return ":".join(str(entry[k])
                    for k in ("network", "batch", "precision", "layout"))


def versions():
    return (f"PyTorch {torch.__version__}, cuDNN "
            f"{torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="+", metavar="ROW")
    parser.add_argument("--seconds", type=float, default=1e9,
                        help="begin nothing after so long")
    parser.add_argument("-o", "--output", required=True)
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    begun = time.monotonic()
    figures = []
    if os.path.exists(args.output):
        with open(args.output, encoding="utf-8") as file:
            figures = [f for f in json.load(file)
                       if f.get("versions") == versions()]
    done = {row_of(f) for f in figures}
    convolutions = {}
    for row in args.rows:
        if row in done:
            continue
        if time.monotonic() - begun > args.seconds:
            print("the time is up: nothing more is begun", flush=True)
            return 1
        name, batch, precision, layout = row.split(":")
        result = figure(name, int(batch), precision, layout, convolutions)
        result["versions"] = versions()
        figures.append(result)
        with open(args.output + ".new", "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)
        os.replace(args.output + ".new", args.output)
        print(f"{time.monotonic() - begun:7.1f} s  {row}: "
              f"{result['time_us'] / 1e3:.2f} ms, "
              f"{result['workspace_bytes'] / 2**20:.0f} MiB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
