#!/usr/bin/env python3
"""Tables of what the stage memory of run.sh has measured, as Markdown.

    tests/gpu/memory.py DIR
"""

import json
import os
import sys


def lines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.startswith("{")]


def ms(us):
    return f"{us / 1e3:.1f}"


def gib(count):
    return f"{count / 2**30:.2f}"


def stalls(times):
    return ", ".join(f"{cause} {ms(us)}" for cause, us in times.items()
                     if us >= 50) or "-"


def slower(row):
    plain = row.get("plain_step_us")
    return f"{100 * (row['step_us'] / plain - 1):+.1f} %" if plain else "-"


def budgets(rows):
    print("| network | budget | policy | rounds of | step, ms | to undivided | "
          "predicted, ms | off by | host, ms | stalls, ms | recomputed, ms | "
          "peak, GiB |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        if "asked_policy" not in row or "largest" in row:
            continue
        name = os.path.basename(row["row"]).replace(".onnx", "")
        budget = f"{row['share']} %"
        policy = row["asked_policy"]
        if row.get("sub_batch_statistics"):
            policy += " (statistics of sub-batches)"
        if "no_plan" in row or "error" in row:
            why = "no plan" if "no_plan" in row else row["error"][:80]
            print(f"| {name} | {budget} | {policy} | | {why} | | | | | | | |")
            continue
        off = 100 * (row["step_us"] / row["predicted_us"] - 1)
        print(f"| {name} | {budget} | {policy} | {row['sub_batch']} | "
              f"{ms(row['step_us'])} | {slower(row)} | "
              f"{ms(row['predicted_us'])} | {off:+.1f} % | "
              f"{ms(row['enqueue_us'])} | {stalls(row['stalls_us'])} | "
              f"{ms(row['recomputed_us'])} | {gib(row['peak_bytes'])} |")
    print()


def within(rows):
    """How many predictions hold."""
    off = [abs(row["step_us"] / row["predicted_us"] - 1) for row in rows
           if "step_us" in row]
    print(f"{sum(o <= .05 for o in off)} of {len(off)} rows within 5 % of their "
          f"prediction, {sum(o <= .1 for o in off)} within 10 %.\n")


def operators(rows):
    """Where time went that the plan did not have, of the rows timed by task."""
    print("| network | budget | policy | operator | predicted, ms | ms |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        times = row.get("timed", {}).get("task_times", {}).get("operators", [])
        for time in times:
            if abs(time["us"] - time["predicted_us"]) < 200:
                continue
            name = os.path.basename(row["row"]).replace(".onnx", "")
            print(f"| {name} | {row['share']} % | {row['asked_policy']} | "
                  f"{time['operator']}, {time['tasks']} tasks | "
                  f"{ms(time['predicted_us'])} | {ms(time['us'])} |")
    print()


def largest(rows):
    rows = [row for row in rows if "largest" in row and "step_us" in row]
    if not rows:
        return
    print("| within 8 GiB | policy | batch | images/s | step, ms | peak, GiB |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        rate = row["batch"] / row["step_us"] * 1e6
        print(f"| {row['network']} {row['precision']} | "
              f"{row['asked_policy']} | {row['batch']} | "
              f"{rate:.0f} | {ms(row['step_us'])} | {gib(row['peak_bytes'])} |")
    print()


def torch(rows):
    if not rows:
        return
    print("| PyTorch | way | step, ms | peak, GiB |\n|---|---|---|---|")
    for row in rows:
        what = (f"{ms(row['step_us'])} | {gib(row['peak_bytes'])}"
                if "step_us" in row
                else f"{row.get('error', 'not run')[:80]} |")
        print(f"| {row['row']} | {row['way']} | {what} |")
    print()


def main(folder):
    rows = lines(os.path.join(folder, "memory.jsonl"))
    budgets(rows)
    within(rows)
    operators(rows)
    largest(rows + lines(os.path.join(folder, "memory-largest.jsonl")))
    torch(lines(os.path.join(folder, "memory-torch.jsonl")))
    for row in rows:
        if "not_run" in row and row["not_run"]:
            print(f"Not run within the time: {', '.join(row['not_run'])}")


if __name__ == "__main__":
    main(sys.argv[1])
