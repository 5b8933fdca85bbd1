"""Shares of GPUs of limited memory, against what the program `ucudnn` prints."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import ucudnn

DATA = Path(os.environ["UCUDNN_TEST_DATA"])
ALEXNET = DATA / "onnx/alexnet.onnx"
UCUDNN = os.environ["UCUDNN_BIN_DIR"] + "/ucudnn"


def solve(gpus, **options):
    return ucudnn.solve_joint_memory(ALEXNET, 128, gpus, step=16, **options)


def test_shares_as_the_command_does():
    joint = solve(["K40=700MB", "V100"], policy="vdnn-ext")
    done = subprocess.run(
        [UCUDNN, "solve", "joint", "--network", ALEXNET, "--batch", "128",
         "--step", "16", "--policy", "vdnn-ext", "--gpu", "K40=700MB",
         "--gpu", "V100", "-o", "json"],
        check=True, capture_output=True,
    )  # fmt: skip
    expected = json.loads(done.stdout)
    assert [share.gpu for share in joint.gpus] == ["K40=700MB", "V100"]
    assert [s.batch for s in joint.gpus] == [g["batch"] for g in expected["gpus"]]
    assert [plan.to_json() for plan in joint.plans] == expected["plans"]
    assert joint.makespan_us == expected["makespan_us"]
    assert joint.optimal


def test_a_gpu_has_its_share_of_the_batch_and_its_plan():
    small = ucudnn.Gpu("K40", "700MB", name="small")
    joint = solve([small, ucudnn.Gpu("K40")], policy="vdnn-ext")
    assert sum(share.batch for share in joint.gpus) == 128
    assert sum(share.weight for share in joint.gpus) == pytest.approx(1)
    assert joint.gpus[0].gpu == "small"
    assert joint.gpus[0].budget_bytes == 700_000_000
    for place, share in enumerate(joint.gpus):
        plan = joint.plan_of(place)
        assert (plan is None) == (share.batch == 0)
        if plan is not None:
            assert (plan.batch, plan.time_us) == (share.batch, share.time_us)
            assert plan.peak_bytes <= share.budget_bytes
            plan.check()


def test_names_the_gpus_whose_accuracy_is_not_measured():
    gpu = ucudnn.Gpu(
        "H200", profile=DATA / "h200/alexnet_b256_pow2.csv", name="measured"
    )
    joint = solve([gpu], policy="baseline", profile_network="alexnet")
    assert joint.notes[0].startswith("measured: accuracy not measured: 15 of 15")
    assert joint.notes[0] in repr(joint)
    assert solve(["H200"], policy="baseline").notes == []


def test_no_shares_add_up_to_the_batch():
    with pytest.raises(ucudnn.NoPlan):
        solve(["K40=1MB"])


def test_what_is_malformed_is_named():
    with pytest.raises(ucudnn.InvalidArgument, match=r"gpus\[0\].device_model"):
        solve(["K41"])
    with pytest.raises(ucudnn.InvalidArgument, match="'much' is not a size"):
        solve(["K40=much"])
    with pytest.raises(ucudnn.InvalidArgument, match="there is no GPU"):
        solve([])
