import copy
import json

import pytest
import ucudnn

# Tensor 1 is needed before tensor 0. Each of the five segments computes for 1000 us;
# copying a tensor takes 8.192 us.
STEP = {
    "segments": [
        {"time_us": 1000.0, "bytes": 0, "backward": s > 2} for s in range(5)
    ],
    "tensors": [
        {"bytes": 8192, "hook": 0, "held": 0, "uses": [4]},
        {
            "bytes": 8192,
            "hook": 1,
            "held": 0,
            "uses": [3],
            "recipe": {"time_us": 1.0, "bytes": 0, "reads": []},
        },
    ],
    "link": {"d2h_bytes_per_us": 1e3, "h2d_bytes_per_us": 1e3},
}


def test_keeps_what_fits():
    plan = ucudnn.solve_recorded_step(STEP, "16KiB")
    assert plan.time_us == plan.ideal_time_us == plan.lower_bound_us == 5000.0
    assert plan.peak_bytes == plan.plain_peak_bytes == 16384
    assert plan.moved_bytes == 0
    assert {one.action for one in plan.actions} == {"drop"}


def test_moves_or_computes_again_what_it_may():
    step = copy.deepcopy(STEP)
    step["segments"][2]["bytes"] = 8192
    moved = ucudnn.solve_recorded_step(step, "16KiB", recompute=False)
    assert moved.moved_bytes == 16384
    again = ucudnn.solve_recorded_step(step, "16KiB", offload=False)
    assert again.moved_bytes == 0 and again.time_us == 5001.0
    assert ucudnn.RecordedAction(2, "recompute", 1) in again.actions


def test_reads_files(tmp_path):
    path = tmp_path / "step.json"
    path.write_text(json.dumps(STEP))
    found = ucudnn.solve_recorded_step(path, 16384)
    assert found == ucudnn.solve_recorded_step(STEP, 16384)
    path.write_text("{")
    with pytest.raises(ucudnn.InvalidArgument, match="step"):
        ucudnn.solve_recorded_step(path, 16384)


def test_names_fields_and_the_least_budget():
    with pytest.raises(ucudnn.NoPlan, match="8192") as no_plan:
        ucudnn.solve_recorded_step(STEP, 1000)
    assert no_plan.value.least == 8192
    assert ucudnn.solve_recorded_step(STEP, 8192).peak_bytes <= 8192
    step = copy.deepcopy(STEP)
    step["tensors"][0]["uses"] = [7]
    with pytest.raises(ucudnn.InvalidArgument, match=r"tensors\[0\].uses: 7"):
        ucudnn.solve_recorded_step(step, "16KiB")
    with pytest.raises(ucudnn.InvalidArgument, match="budget_bytes"):
        ucudnn.solve_recorded_step(STEP, 1 << 47)
