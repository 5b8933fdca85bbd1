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


def test_shares_by_whole_steps(tmp_path):
    kinds = [
        {"device_kind": "a", "steps": [{"batch": b, "time_us": 10.0 * b} for b in (1, 9)]},
        {"device_kind": "b", "passes": 3, "steps": [{"batch": 2, "time_us": 10.0}]},
        {"device_kind": "r", "steps": [{"batch": 1, "recorded": STEP}]},
    ]  # fmt: skip
    path = tmp_path / "step.json"
    path.write_text(json.dumps({"kinds": kinds}))
    for step in (path, {"kinds": kinds}):
        told = ucudnn.solve_step_shares(step, 9, ["a", "b"])
        assert [(r.batch, r.passes, r.most) for r in told.ranks] == [(3, 1, 9), (6, 3, 6)]
        assert told.time_us == told.lower_bound_us == 30.0 and told.even_us == 50.0
    given = ucudnn.solve_step_shares(path, 9, ["a", "b"], shares=[5, 4])
    assert [rank.time_us for rank in given.ranks] == [50.0, 20.0]
    even = ucudnn.solve_step_shares(path, 8, ["a", "a"], all_ranks=True)
    assert [rank.batch for rank in even.ranks] == [4, 4]
    taped = ucudnn.solve_step_shares(path, 1, ["r"], budgets=["8KiB"])
    assert taped.time_us == ucudnn.solve_recorded_step(STEP, "8KiB").time_us
    with pytest.raises(ucudnn.NoPlan, match="at most 15 is accepted"):
        ucudnn.solve_step_shares(path, 20, ["a", "b"])
    with pytest.raises(ucudnn.InvalidArgument, match=r"device_kinds\[0\]"):
        ucudnn.solve_step_shares(path, 1, ["z"])
