#!/usr/bin/env python3
"""Measures ucudnn.torch.memory on one GPU: training steps within half of the plain
step's memory, beside PyTorch's own ways.

    tests/gpu/torch_memory.py -o DIR [--seconds N] [SECTION or ROW...]

A ROW is NETWORK:BATCH:PRECISION, torchvision's network on random images; FP32 and
TF32 are NCHW, HALF is autocast and channels last. Each is a process of
torch_memory_rows.py, which measures one after the other
    plain        PyTorch with cudnn.benchmark
    checkpoint   torch.utils.checkpoint, block by block
    planned      ucudnn.torch.memory within half of plain's peak
    graphs       the same with graphs=True, and the plain step captured (HALF)
    converted    the same after ucudnn.torch.convert within a limit of workspace for
                 each convolution, enforced (VGG-16)
    offload      the same with offload alone (ResNet-50 TF32)
    save_on_cpu  torch.autograd.graph.save_on_cpu with pinned memory (not HALF)
    by hand      the same with each storage copied once, into memory kept pinned
    equal peak   offload alone within the peak of "by hand"
    compiled     torch.compile with an activation_memory_budget that gives about
                 half of plain's peak (ResNet-50)
    as compiled  planned within the peak of "compiled"; also with graphs=True
Sections: `checks`, results and refusals on a small model; `rows`, all rows. Writes
DIR/torch-memory.json and DIR/torch-memory.md after each row. Begins nothing after
N seconds (420). UCUDNN_WAYS, a regular expression, chooses among the ways besides
plain. Needs torchvision; PYTHONPATH and UCUDNN_LIBRARY name the package.

Exit status: 0 done; 1 something failed; 3 the time was up before all had run; 4 a
goal was missed.
"""

import json
import os
import subprocess
import sys
import time

from torch_common import arguments_of, exit_status, report

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = ["resnet50:256:HALF", "resnet50:256:TF32", "resnet152:128:HALF",
        "vgg16:64:TF32", "resnet152:128:TF32", "vgg16:64:FP32"]
ROW_LIMIT = 210
# The most that a step within half of the peak may take of plain's.
GOALS = {"vgg16": 1.10, "resnet50": 1.15, "resnet152": 1.15}


def run(part, output, limit):
    """The ways of one row or the checks, by name; what ended it under "failed"."""
    path = os.path.join(output, f"part-{part.replace(':', '-')}.json")
    log = os.path.join(output, "torch-memory.log")
    with open(path, "w", encoding="utf-8") as file:
        file.write("{}")
    with open(log, "ab") as file:
        try:
            status = subprocess.run(
                [sys.executable, os.path.join(HERE, "torch_memory_rows.py"), part,
                 path], stdout=file, stderr=subprocess.STDOUT,
                timeout=limit).returncode
        except subprocess.TimeoutExpired:
            status = "the time was up"
    with open(path, encoding="utf-8") as file:
        told = json.load(file)
    os.remove(path)
    if status == "the time was up":
        told["unfinished"] = {"text": status}
    elif status != 0:
        with open(log, encoding="utf-8", errors="replace") as file:
            told["failed"] = {"text": f"ended: {status}: {file.read()[-2000:]}"}
    return told


def goals_of(name, row):
    """Each goal of a row: (text, whether it was reached)."""
    plain = row.get("plain", {}).get("ms")
    planned = row.get("planned", {})
    if not plain:
        return
    if "ms" in planned:
        ratio = planned["ms"] / plain
        most = GOALS[name.split(":")[0]]
        yield f"planned {ratio:.3f} of at most {most}", ratio <= most
        peak = planned["peak"] / row["plain"]["peak"]
        yield f"peak {peak:.3f} of at most 0.5", peak <= 0.5
    converted = row.get("converted", {})
    if "ms" in converted:
        most = GOALS[name.split(":")[0]]
        ratio = converted["ms"] / plain
        yield f"converted: {ratio:.3f} of at most {most}", ratio <= most
        peak = converted["peak"] / row["plain"]["peak"]
        yield f"converted: peak {peak:.3f} of at most 0.5", peak <= 0.5
    graphs = row.get("graphs", {})
    if "ms" in graphs:
        most = GOALS[name.split(":")[0]]
        ratio = graphs["ms"] / graphs["plain"]["ms"]
        yield f"graphs: {ratio:.3f} of at most {most}", ratio <= most
        ratio = graphs["ms"] / plain
        text = f"graphs: {ratio:.3f} of plain enqueued, of at most {most}"
        yield text, ratio <= most
    for way in ("planned", "converted", "offload", "equal peak", "as compiled"):
        one = row.get(way, {})
        if "ms" in one:
            off = abs(one["predicted_ms"] / one["ms"] - 1)
            yield f"{way}: step predicted within {off:.3f} of 0.05", off <= 0.05
            off = abs(one["predicted_peak"] / one["peak"] - 1)
            yield f"{way}: peak predicted within {off:.3f} of 0.02", off <= 0.02
            over = one["pinned"] / max(1, one["moved"])
            yield f"{way}: {over:.3f} pinned of at most 1.02", over <= 1.02
    equal, other = row.get("equal peak", {}), row.get("by hand", {})
    if "ms" in equal and "ms" in other:
        gain = other["ms"] / equal["ms"]
        yield f"offload {gain:.2f} times as fast, of at least 1.3", gain >= 1.3
    other = row.get("compiled", {})
    equal = row.get("as compiled", {})
    if "ms" in equal and "ms" in other:
        ratio = equal["ms"] / other["ms"]
        text = f"as compiled: {ratio:.3f} of compiled at its peak, of at most 1"
        yield text, ratio <= 1
    for way in ("checkpoint", "compiled"):
        one = row.get(way, {})
        if "ms" in one and "ms" in planned and name.endswith("HALF"):
            if one["peak"] <= 1.1 * planned["peak"]:
                ratio = planned["ms"] / one["ms"]
                yield f"{ratio:.3f} of {way}, of at most 1", ratio <= 1


def lines_of(told):
    """Markdown."""
    for name, row in told.items():
        yield f"\n## {name}\n"
        if name == "checks":
            yield "| check | result | |\n|---|---|---|"
            for check, one in row.items():
                held = "" if one.get("held") else "**missed**"
                yield f"| {check} | {one['text'].strip()[-300:]} | {held} |"
            continue
        yield "| way | step, ms | of plain | peak, GiB | of plain | |"
        yield "|---|---|---|---|---|---|"
        plain = row.get("plain", {})
        for way, one in row.items():
            if "ms" not in one:
                yield f"| {way} | {one['text'].strip()[-300:]} | | | | |"
                continue
            note = one.get("note", "").replace("\n", "; ")
            yield (f"| {way} | {one['ms']:.2f} | {one['ms'] / plain['ms']:.3f} | "
                   f"{one['peak'] / 2**30:.2f} | "
                   f"{one['peak'] / plain['peak']:.3f} | {note} |")
        yield ""
        for text, reached in goals_of(name, row):
            yield f"- goal: {text}{'' if reached else ', **missed**'}"


def status_of(told):
    missed = failed = up = False
    for name, row in told.items():
        failed |= "failed" in row
        up |= "unfinished" in row
        if name == "checks":
            failed |= any(not one.get("held") for way, one in row.items()
                          if way != "unfinished")
        else:
            missed |= not all(reached for _, reached in goals_of(name, row))
    return exit_status(failed, missed, up)


def main():
    output, seconds, parts = arguments_of(
        __doc__, ["checks", "rows"], ROWS, 420)
    until = time.monotonic() + seconds
    told = {}
    for part in parts:
        left = until - time.monotonic()
        if left < 20:
            told[part] = {"unfinished": {"text": "not begun: the time was up"}}
        else:
            told[part] = run(part, output, min(ROW_LIMIT, left))
        report(told, output, "torch-memory", lines_of)
        print("\n".join(lines_of({part: told[part]})), flush=True)
    sys.exit(status_of(told))


if __name__ == "__main__":
    main()
