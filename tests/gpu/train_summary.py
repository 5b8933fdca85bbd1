"""Compares a planned training with an evenly split one: the JSON of both. A third
one is of equal GPUs: what its steps take cost their passes.

Exit status 1 if a rank did not keep to its budget.
"""

import json
import sys

runs = [json.load(open(path)) for path in sys.argv[1:]]
equal = runs.pop() if len(runs) > 2 else None
print("split,rank,device,batch,budget,peak,predicted_passes_us,passes_us,deviation")
wrong = []
for run in runs:
    for number, rank in enumerate(run["ranks"]):
        if rank["batch"] == 0:
            print(run["split"], number, rank["device_kind"], 0, sep=",")
            continue
        predicted = rank["predicted_passes_us"]
        measured = rank["passes_us"]
        print(
            run["split"], number, rank["device_kind"], rank["batch"],
            rank["budget_bytes"], rank["peak_bytes"], predicted, measured,
            f"{measured / predicted - 1:+.2%}", sep=",",
        )  # fmt: skip
        if rank["peak_bytes"] > rank["budget_bytes"]:
            wrong.append(f"{run['split']}: rank {number} exceeds its budget")
planned, even = runs
print(f"ranks compute in turns: {planned['in_turns']}")
for what in ("predicted_us", "passes_us", "step_us"):
    if planned[what] and even[what]:
        print(
            f"slowest rank, {what}: planned {planned[what]:.0f}, "
            f"even {even[what]:.0f}, gain {even[what] / planned[what]:.3f}"
        )
for run in runs:
    if run["exchange_us"]:
        print(
            f"exchange of gradients after the passes, {run['split']}: "
            f"{run['exchange_us']:.0f}"
        )
for run in runs:
    print(f"gradients, {run['split']}: {run['sum_method']}")
if equal:
    cost = equal["step_us"] / equal["passes_us"] - 1
    print(
        f"equal GPUs, {equal['sum_method']}: passes {equal['passes_us']:.0f}, "
        f"whole step {equal['step_us']:.0f}, {cost:+.1%}"
    )
for line in wrong:
    print(f"not as planned: {line}")
sys.exit(1 if wrong else 0)
