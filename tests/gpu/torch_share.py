#!/usr/bin/env python3
"""Measures ucudnn.torch's uneven data parallelism on two GPUs.

    tests/gpu/torch_share.py -o DIR [SECTION...]

Sections, each two processes of torch_share_rank.py with a GPU each:
    checks     results against one process: losses, SyncBatchNorm, GradScaler, a
               chained hook, a share beyond memory, and what NCCL refuses
    one-gpu    the first of these on one GPU, by gloo; not run unless named
    overhead   whole GPUs, equal shares: the hook beside plain DDP
    resnet18   FP32, batch 128, and
    resnet50   bf16, batch 256, on slices of 64 and 16 multiprocessors (green
               contexts): even DDP, all splits swept with a weighting hook by hand,
               and as planned
Writes DIR/torch-share.json, with every step's time, after each section, and
DIR/torch-share.md. A section that fails leaves the others alone. Under five
minutes. Needs torchvision; PYTHONPATH and UCUDNN_LIBRARY name the package.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

LIMITS = {"checks": 70, "one-gpu": 70, "overhead": 50, "resnet18": 80,
          "resnet50": 130}
USUAL = [section for section in LIMITS if section != "one-gpu"]
RANKS = 2
RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                    "torch_share_rank.py")


def run(section):
    """Both ranks; their answers, or what they printed."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        logs = [os.path.join(scratch, f"{rank}.log") for rank in range(RANKS)]
        processes = []
        for rank, log in enumerate(logs):
            with open(log, "w", encoding="utf-8") as file:
                processes.append(subprocess.Popen(
                    [sys.executable, RANK, section, str(rank), scratch],
                    stdout=file, stderr=subprocess.STDOUT))
        deadline = begun + LIMITS[section]
        # One that fails leaves the other waiting.
        while any(p.poll() is None for p in processes):
            failed = any(p.returncode for p in processes)
            if failed or time.monotonic() > deadline:
                time.sleep(1)
                for process in processes:
                    process.kill()
                break
            time.sleep(0.1)
        for process in processes:
            process.wait()
        answers = []
        for rank in range(RANKS):
            path = os.path.join(scratch, f"{rank}.json")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    answers.append(json.load(file))
        seconds = time.monotonic() - begun
        if any(p.returncode for p in processes) or len(answers) < RANKS:
            tails = []
            for log in logs:
                with open(log, encoding="utf-8") as file:
                    tails.append(file.read()[-3000:])
            return {"failed": True, "seconds": seconds, "ranks": answers,
                    "output": tails}
        return {"failed": False, "seconds": seconds, "ranks": answers}


def lines_of(section, result):
    """Markdown."""
    yield f"## {section}\n"
    if result["failed"]:
        yield f"failed after {result['seconds']:.0f} s:\n"
        for tail in result["output"]:
            yield "```\n" + tail.strip() + "\n```\n"
    if not result["ranks"]:
        return
    told = result["ranks"][0]
    if section in ("checks", "one-gpu"):
        yield "| check | result | goal | |"
        yield "|---|---|---|---|"
        for name, check in told.items():
            held = "" if check["held"] else "**missed**"
            yield f"| {name} | {check['text']} | {check['goal']} | {held} |"
    elif result["failed"]:
        yield "What was measured until then is in the JSON file."
    elif section == "overhead":
        yield "| network | plain DDP, ms | with the hook, ms | |"
        yield "|---|---|---|---|"
        for name, row in told.items():
            yield (f"| {name} | {row['plain_ms']:.3f} | {row['hook_ms']:.3f} | "
                   f"{(row['hook_ms'] / row['plain_ms'] - 1) * 100:+.2f} % |")
    else:
        yield from lines_of_slices(told)
    yield f"\n{result['seconds']:.0f} s\n"


def lines_of_slices(told):
    sweep = {int(b): ms for b, ms in told["sweep_ms"].items()}
    best = min(sweep, key=sweep.get)
    planned = told["planned_ms"]
    batch = told["batch"]
    yield "| | images | ms |"
    yield "|---|---|---|"
    for b in sorted(sweep):
        yield f"| swept | {b} + {batch - b} | {sweep[b]:.2f} |"
    first, second = told["planned"]
    yield f"| even, plain DDP | {batch // 2} + {batch // 2} | {told['even_ms']:.2f} |"
    yield f"| best of the sweep, again | {best} + {batch - best} | {told['best_ms']:.2f} |"
    yield f"| planned | {first} + {second} | {planned:.2f} |"
    yield (f"| planned, exchanged after the backward pass | {first} + {second} | "
           f"{told['late_ms']:.2f} |")
    predicted = told["predicted_ms"]
    yield (f"\nPlanned against the best: {(planned / told['best_ms'] - 1) * 100:+.1f} "
           f"%; even against planned: {told['even_ms'] / planned:.2f} times; "
           f"predicted {predicted:.2f} ms, "
           f"{(predicted / planned - 1) * 100:+.1f} %; even predicted "
           f"{told['even_predicted_ms']:.2f} ms; planning took "
           f"{told['planning_s']:.1f} s and {told['calls']} steps.\n")
    yield "Kinds: " + "; ".join(told["kinds"]) + "\n"
    yield from (f"- {reason}" for reason in told["reasons"])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("sections", nargs="*", default=USUAL,
                        metavar="SECTION")
    arguments = parser.parse_args()
    for section in arguments.sections:
        if section not in LIMITS:
            parser.error(f"section {section}: one of {', '.join(LIMITS)}")
    os.makedirs(arguments.output, exist_ok=True)
    results = {}
    for section in arguments.sections:
        results[section] = run(section)
        path = os.path.join(arguments.output, "torch-share")
        with open(path + ".json", "w", encoding="utf-8") as file:
            json.dump(results, file)
        text = "\n".join(line for name, result in results.items()
                         for line in lines_of(name, result))
        with open(path + ".md", "w", encoding="utf-8") as file:
            file.write(text + "\n")
        print("\n".join(lines_of(section, results[section])), flush=True)
    missed = any(
        result["failed"]
        or (name in ("checks", "one-gpu")
            and not all(c["held"] for c in result["ranks"][0].values()))
        for name, result in results.items())
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
