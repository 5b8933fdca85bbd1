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
