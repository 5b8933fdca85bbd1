"""Plans that Python reads, as every other reader does."""

import copy
import json
import os
from pathlib import Path

import pytest

import ucudnn

DATA = json.loads(
    (Path(os.environ["UCUDNN_TEST_DATA"]) / "plans/changes.json").read_text()
)


def changed(changes):
    plan = copy.deepcopy(DATA["plan"])
    for pointer, value in changes.items():
        *path, last = [
            int(part) if part.isdigit() else part
            for part in pointer.split("/")[1:]
        ]
        inside = plan
        for part in path:
            inside = inside[part]
        inside[last] = value
    return plan


@pytest.mark.parametrize("changes", DATA["good"])
def test_accepts_plans_that_may_run(changes, tmp_path):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(changed(changes)))
    plan = ucudnn.WorkspacePlan.read(file)
    assert plan == ucudnn.WorkspacePlan.from_json(changed(changes))
    assert plan.batch == changed(changes)["batch"]


@pytest.mark.parametrize("bad", DATA["bad"])
def test_refuses_the_others_and_names_the_field(bad, tmp_path):
    with pytest.raises(ucudnn.InvalidArgument, match=bad["field"]):
        ucudnn.WorkspacePlan.from_json(changed(bad["change"]))
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(changed(bad["change"])))
    with pytest.raises(ucudnn.InvalidArgument, match=bad["field"]):
        ucudnn.WorkspacePlan.read(file)


def test_says_what_is_not_json(tmp_path):
    file = tmp_path / "plan.json"
    file.write_text("{")
    with pytest.raises(ucudnn.InvalidArgument, match="not JSON"):
        ucudnn.WorkspacePlan.read(file)


def job_of(*batches):
    """A job's plan as `ucudnn plan --save` writes it."""
    ranks = []
    for rank, batch in enumerate(batches):
        workspace = changed({"/batch": batch}) if batch else None
        if workspace:
            workspace["kernels"] = []
        ranks.append({"rank": rank, "batch": batch, "workspace": workspace})
    return {"id": 1, "ranks": ranks}


def test_reads_the_part_of_a_rank(tmp_path):
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job_of(0, 4, 4)))
    assert ucudnn.WorkspacePlan.read(file).batch == 4
    shared = job_of(0, 4, 4)  # told once
    shared["ranks"][2].update(workspace=None, workspace_of_rank=1)
    file.write_text(json.dumps(shared))
    assert ucudnn.WorkspacePlan.read(file).batch == 4
    assert ucudnn.WorkspacePlan.read(file, rank=2).batch == 4
    file.write_text(json.dumps(job_of(0, 4, 8)))
    with pytest.raises(
        ucudnn.InvalidArgument, match="job.json: its 2 ranks .*; rank= .* 1, 2"
    ):
        ucudnn.WorkspacePlan.read(file)
    assert ucudnn.WorkspacePlan.read(file, rank=2).batch == 8
    for rank in (0, 3):
        with pytest.raises(ucudnn.InvalidArgument, match=f"rank {rank} has no"):
            ucudnn.WorkspacePlan.read(file, rank=rank)
    file.write_text(json.dumps(job_of(0)))
    with pytest.raises(ucudnn.InvalidArgument, match="none has"):
        ucudnn.WorkspacePlan.read(file)
