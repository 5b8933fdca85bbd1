"""Compares a planned training with an evenly split one: the JSON of both."""

import json
import sys

runs = [json.load(open(path)) for path in sys.argv[1:3]]
print("split,rank,device,batch,predicted_us,convolutions_us,deviation,passes_us")
for run in runs:
    for number, rank in enumerate(run["ranks"]):
        predicted = rank["predicted_us"]
        measured = rank["convolutions_us"]
        deviation = f"{measured / predicted - 1:+.2%}" if predicted else "-"
        print(
            run["split"], number, rank["device_kind"], rank["batch"],
            predicted, measured, deviation, rank["passes_us"], sep=",",
        )  # fmt: skip
planned, even = runs
print(f"ranks compute in turns: {planned['in_turns']}")
for what in ("predicted_us", "convolutions_us", "passes_us", "step_us"):
    if planned[what] and even[what]:
        print(
            f"slowest rank, {what}: planned {planned[what]:.0f}, "
            f"even {even[what]:.0f}, gain {even[what] / planned[what]:.3f}"
        )
losses = zip(planned["losses"], even["losses"])
largest = max(abs(a - b) / a for a, b in losses)
print(f"largest relative difference of losses: {largest:.2e}")
