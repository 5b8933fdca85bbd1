#!/usr/bin/env python3
"""Plans memory by every policy for many networks, budgets and devices, and
checks every plan: by `ucudnn check` and, where one is given, by a second checker
that shares no code with the project.

  memory_plans.py --ucudnn BIN/ucudnn [--full] [--jobs N] [--memcheck FILE]
                  [NAME ...]

  --full           all networks of tests/data, devices, budgets and policies;
                   otherwise two networks, one device and two budgets
  --jobs N         plans at once, 1 by default
  --memcheck FILE  a Python file with check_plan(plan, graph), which raises an
                   exception that names the rule; default: UCUDNN_MEMCHECK
  NAME             only networks whose file has this name

Budgets are parts of the peak of an iteration in which nothing leaves. Prints a
row for each network and what failed; fails if a plan does not pass, or if a
command ends in a way that it should not.
"""

import argparse
import concurrent.futures
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data"
# The last has algorithms that need workspace, as device models of real devices
# have by measurements.
DEVICES = ["K40", "P100-NVLINK", "H200", "K40-workspace"]
WORKSPACE_DEVICE = {
    "name": "K40-workspace",
    "memory_bytes": 12_000_000_000,
    "arithmetic_tflops": 2.6,
    "memory_gb_per_s": 170,
    "launch_us": 10,
    "d2h_gb_per_s": 10,
    "h2d_gb_per_s": 10,
    "algorithms": [
        {"name": "WINOGRAD_NONFUSED", "speedup": 2},
        {"name": "FFT", "speedup": 1.5},
    ],
}
PARTS = [1 / 8, 1 / 4, 1 / 2, 3 / 4, 1]
# Deep networks have smaller batches, as on real devices.
BATCHES = {"alexnet": 256, "resnet152": 32, "fcn_resnet50": 16, "r3d_18": 16}
BOUNDED = {"alexnet", "vgg16"}
# Besides the policies as they are.
VARIANTS = [
    ("hmms", ["--allocator", "static"]),
    ("vdnn-ext", ["--allocator", "static", "--sub-batch", "5"]),
    ("modnn", ["--gpus", "2"]),
    ("best", ["--recompute", "--offload-weights"]),
]
NO_PLAN = 3


def policies(ucudnn):
    """Every policy by name, as the help lists them."""
    text = subprocess.run(
        [ucudnn, "solve", "memory", "--help"], capture_output=True, text=True
    ).stdout
    listed = re.search(r"--policy NAME.*?\s(baseline, .*?), or all", text, re.S)
    return re.split(r",\s+", listed.group(1))


def second_checker(path):
    if not path:
        return None
    spec = importlib.util.spec_from_file_location("second_checker", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.check_plan


def solve(ucudnn, case, policy, options, budget):
    path, device = case
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        if device == WORKSPACE_DEVICE["name"]:
            json.dump(WORKSPACE_DEVICE, file)
            file.flush()
            device = file.name
        return run_solver(ucudnn, path, device, policy, options, budget)


def run_solver(ucudnn, path, device, policy, options, budget):
    name = path.name.split(".")[0]
    batch = BATCHES.get(name, 64)
    run = subprocess.run(
        [ucudnn, "solve", "memory", "--network", path, "--batch", str(batch),
         "--device-model", device, "--policy", policy, "--budget", str(budget),
         *options, "-o", "json"],
        capture_output=True, text=True,
    )  # fmt: skip
    return run.returncode, run.stdout, run.stderr.strip()


def check(ucudnn, checker, text):
    """What the checks say against a plan, and their seconds."""
    wrong = []
    start = time.monotonic()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(text)
        file.flush()
        run = subprocess.run(
            [ucudnn, "check", file.name], capture_output=True, text=True
        )
    if run.returncode != 0:
        wrong.append(f"ucudnn check: {run.stderr.strip()}")
    if checker is not None:
        plan = json.loads(text)
        try:
            checker(plan, plan["graph"])
        except Exception as error:  # whatever it finds, it raises
            wrong.append(f"second checker: {type(error).__name__}: {error}")
    return wrong, time.monotonic() - start


def one(arguments):
    """(case, policy, "plan", "none" or "failed", messages, seconds)"""
    ucudnn, memcheck, case, policy, options, budget = arguments
    start = time.monotonic()
    status, text, error = solve(ucudnn, case, policy, options, budget)
    seconds = time.monotonic() - start
    what = f"{case[0].name} {case[1]} {budget} {policy} {' '.join(options)}"
    if status == NO_PLAN:
        return case, policy, "none", [], (seconds, 0)
    if status != 0:
        return case, policy, "failed", [f"{what}: {error}"], (seconds, 0)
    wrong, checked = check(ucudnn, second_checker(memcheck), text)
    messages = [f"{what}: {message}" for message in wrong]
    return case, policy, "plan", messages, (seconds, checked)


def cases_of(options):
    """Networks on devices, each with the peak of nothing leaving; networks that
    are no chain are told apart."""
    networks = sorted(DATA.glob("onnx/*.onnx")) + sorted(
        DATA.glob("networks/*.csv")
    )
    if options.names:
        networks = [n for n in networks if n.name in options.names]
    elif not options.full:
        networks = [n for n in networks if n.name.split(".")[0] in BOUNDED]
        networks = networks[:1] + networks[-1:]
    devices = DEVICES if options.full else DEVICES[-1:]
    for network in networks:
        for device in devices:
            case = (network, device)
            status, text, error = solve(
                options.ucudnn, case, "baseline", [], 10**15
            )
            yield case, json.loads(text)["peak_bytes"] if status == 0 else error


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--ucudnn", required=True)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--memcheck", default=os.environ.get("UCUDNN_MEMCHECK"))
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if not options.memcheck:
        print("no second checker: UCUDNN_MEMCHECK is not set")
    parts = PARTS if options.full else [1 / 2, 1]
    names = policies(options.ucudnn)
    work, refused = [], {}
    for case, peak in cases_of(options):
        if not isinstance(peak, int):
            refused[case[0].name] = peak
            continue
        ways = [(name, []) for name in names] + VARIANTS
        for part in parts:
            work += [
                (options.ucudnn, options.memcheck, case, name, more,
                 int(peak * part))
                for name, more in ways
            ]  # fmt: skip
    start = time.monotonic()
    rows, failures = {}, []
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        for case, _, kind, messages, (solved, checked) in pool.map(one, work):
            row = rows.setdefault(case[0].name, [0, 0, 0, 0.0, 0.0])
            row[0] += kind == "plan"
            row[1] += kind == "none"
            row[2] += bool(messages)
            row[3] += solved
            row[4] += checked
            failures += messages
            for message in messages:
                print(message, flush=True)
    print("| network | plans | without a plan | failures | s to plan | s to check |")
    print("|---|---|---|---|---|---|")
    for name, row in rows.items():
        print(f"| {name} | {row[0]} | {row[1]} | {row[2]} | {row[3]:.0f} | {row[4]:.0f} |")
    for name, why in refused.items():
        print(f"{name} is refused: {why}")
    plans = sum(row[0] for row in rows.values())
    print(
        f"{plans} plans of {len(work)} requests, {len(failures)} failures, "
        f"{time.monotonic() - start:.0f} s"
    )
    wrong = failures or plans == 0 or (refused and not options.full)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
