"""Compares a planned training with an evenly split one: the JSON of both. A third
one is of equal GPUs: what its steps take cost their passes.

Exit status 1 if one of them did not run what was planned from measurements.
"""

import json
import sys

runs = [json.load(open(path)) for path in sys.argv[1:]]
equal = runs.pop() if len(runs) > 2 else None
print("split,rank,device,batch,predicted_us,convolutions_us,deviation,passes_us")
wrong = []
for run in runs:
    if run["source"] != "coordinator":
        wrong.append(f"{run['split']}: {run['reason']}")
    for number, rank in enumerate(run["ranks"]):
        predicted = rank["predicted_us"]
        measured = rank["convolutions_us"]
        deviation = f"{measured / predicted - 1:+.2%}" if predicted else "-"
        print(
            run["split"], number, rank["device_kind"], rank["batch"],
            predicted, measured, deviation, rank["passes_us"], sep=",",
        )  # fmt: skip
        if rank["batch"] > 0 and not predicted:
            wrong.append(f"{run['split']}: rank {number} has no prediction")
        for fallback in rank["fallbacks"]:
            wrong.append(f"{run['split']}: rank {number}: {fallback}")
planned, even = runs
print(f"ranks compute in turns: {planned['in_turns']}")
for what in ("predicted_us", "convolutions_us", "passes_us", "step_us"):
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
losses = list(zip(planned["losses"], even["losses"]))
largest = max(abs(a - b) / a for a, b in losses)
print(f"largest relative difference of {len(losses)} losses: {largest:.2e}")
if equal:
    cost = equal["step_us"] / equal["passes_us"] - 1
    print(
        f"equal GPUs, {equal['sum_method']}: passes {equal['passes_us']:.0f}, "
        f"whole step {equal['step_us']:.0f}, {cost:+.1%}"
    )
for line in wrong:
    print(f"not as planned: {line}")
sys.exit(1 if wrong else 0)
