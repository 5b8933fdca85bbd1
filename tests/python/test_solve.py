"""The solvers through ctypes, against what the program `ucudnn` prints."""

import copy
import dataclasses
import itertools
import json
import os
import pickle
import subprocess
from pathlib import Path
from typing import get_args

import numpy
import pytest
import ucudnn
from ucudnn import literals, plans, profiles

H200 = Path(os.environ["UCUDNN_TEST_DATA"]) / "h200"
ALEXNET = H200 / "alexnet_b256_pow2.csv"
UCUDNN = os.environ["UCUDNN_BIN_DIR"] + "/ucudnn"
MIB = 1 << 20


def command(problem, *arguments):
    done = subprocess.run(
        [UCUDNN, "solve", problem, *arguments, "-o", "json"],
        check=True,
        capture_output=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "problem, solve, limit",
    [("wr", ucudnn.solve_wr, 64), ("wd", ucudnn.solve_wd, 960)],
)
def test_divides_alexnet_as_the_command_does(problem, solve, limit):
    plan = solve(
        ALEXNET, 256, f"{limit}MiB", batch_policy="powerOfTwo", precision="FP32"
    )
    expected = command(
        problem, "--profile", str(ALEXNET), "--batch", "256",
        "--workspace-limit", f"{limit}MiB", "--batch-policy", "powerOfTwo",
        "--precision", "FP32",
    )  # fmt: skip
    assert plan == ucudnn.WorkspacePlan.from_json(expected)
    # The profile has no errors.
    assert "accuracy not measured: 15 of 15" in plan.notes[0]
    assert plan.notes[0] == repr(plan).splitlines()[-1]
    assert plan.to_json() == expected
    assert plan.optimal
    assert plan.undivided_time_us > plan.total_time_us
    for kernel in plan.kernels:
        assert sum(m.batch * m.count for m in kernel.micro_batches) == 256


def test_writes_plans_that_it_reads_back(tmp_path):
    plan = ucudnn.solve_wr(ALEXNET, 32, 8 * MIB, precision="TF32")
    plan.write(tmp_path / "plan.json")
    assert ucudnn.WorkspacePlan.read(tmp_path / "plan.json") == plan
    newer = dict(plan.to_json(), added_later=1)
    assert ucudnn.WorkspacePlan.from_json(newer) == plan


def test_solves_what_was_put_together_in_memory():
    def row(batch, algorithm, workspace, time):
        return ucudnn.Measurement(
            "gpu", "net", "conv", "forward", "FP32", "NCHW", batch, algorithm,
            "FMA", workspace, time,
        )  # fmt: skip

    profile = ucudnn.Profile(
        [
            row(4, "FFT", 64 * MIB, 10.0),
            row(2, "FFT", 32 * MIB, 6.0),
            row(4, "GEMM", 0, 20.0),
        ]
    )
    plan = ucudnn.solve_wr(profile, 4, "32MiB")
    assert plan.total_time_us == 12.0
    assert plan.kernels[0].undivided_time_us == 20.0
    (micro,) = plan.kernels[0].micro_batches
    assert (micro.batch, micro.count, micro.algorithm) == (2, 2, "FFT")
    front = ucudnn.pareto(profile, 4, "64MiB")
    assert [(p.workspace_bytes, p.time_us) for p in front] == [
        (0, 20.0),
        (32 * MIB, 12.0),
        (64 * MIB, 10.0),
    ]
    assert ucudnn.iteration_times(profile, 4, "32MiB") == {2: 6.0, 4: 12.0}


def test_lists_the_front_of_one_kernel():
    front = ucudnn.pareto(
        ALEXNET, 256, "120MiB", "conv2", "forward", precision="FP32"
    )
    expected = command(
        "pareto", "--profile", str(ALEXNET), "--batch", "256",
        "--workspace-limit", "120MiB", "--layer", "conv2", "--op", "forward",
        "--precision", "FP32",
    )  # fmt: skip
    assert front == [ucudnn.FrontPoint.from_json(p) for p in expected["front"]]
    assert front.notes == expected["notes"]
    assert "accuracy not measured: 1 of 1" in repr(front).splitlines()[-1]
    assert len(front) > 3


def test_shares_an_arena_as_the_command_does():
    model = H200.parent / "onnx/alexnet.onnx"
    plan = ucudnn.solve_ws(ALEXNET, model, 256, "64MiB", precision="FP32")
    expected = command(
        "ws", "--profile", str(ALEXNET), "--network", str(model), "--batch",
        "256", "--workspace-limit", "64MiB", "--precision", "FP32",
    )  # fmt: skip
    assert plan.to_json() == expected
    assert [kernel.offset_bytes for kernel in plan.kernels] == [0] * 15
    assert plan == ucudnn.solve_ws(
        ucudnn.Profile.read(ALEXNET), model.read_bytes(), 256, "64MiB",
        precision="FP32",
    )  # fmt: skip


def test_refuses_models_that_the_profile_is_not_of():
    onnx = H200.parent / "onnx"
    with pytest.raises(ucudnn.InvalidArgument, match="not in vgg16, whose 13"):
        ucudnn.solve_ws(
            ALEXNET, onnx / "vgg16.onnx", 256, "64MiB", precision="FP32"
        )
    two = ucudnn.Profile.read(ALEXNET).where(precision="FP32", op="forward")
    two.rows += [dataclasses.replace(row, network="b") for row in two.rows]
    with pytest.raises(
        ucudnn.InvalidArgument, match="2 networks, none named 'vgg16'.*network"
    ):
        ucudnn.solve_ws(two, onnx / "vgg16.onnx", 256, "64MiB")
    with pytest.raises(ucudnn.InvalidArgument, match="several networks"):
        ucudnn.solve_wr(two, 256, "64MiB")
    assert ucudnn.solve_wr(two, 256, "64MiB", network="b").optimal


def test_parses_a_profile_once(monkeypatch):
    opened = []
    parse = profiles.OpenedProfile
    monkeypatch.setattr(
        profiles, "OpenedProfile", lambda csv: opened.append(csv) or parse(csv)
    )
    profile = ucudnn.Profile.read(ALEXNET)
    for limit in range(0, 64 * MIB, MIB):
        ucudnn.solve_wr(profile, 256, limit, "powerOfTwo", precision="FP32")
    ucudnn.pareto(profile, 8, MIB, "conv2", "forward", precision="FP32")
    ucudnn.iteration_times(profile, 8, MIB, precision="FP32")
    assert len(opened) == 1
    before = ucudnn.solve_wr(profile, 256, MIB, precision="FP32")
    profile.rows = [
        dataclasses.replace(row, time_us=2 * row.time_us)
        for row in profile.rows
    ]
    after = ucudnn.solve_wr(profile, 256, MIB, precision="FP32")
    assert len(opened) == 2
    assert after.total_time_us == pytest.approx(2 * before.total_time_us)
    profile.rows.pop()
    profile.opened()
    assert len(opened) == 3


def test_does_not_check_again_what_the_solvers_answer(monkeypatch):
    monkeypatch.delattr(plans, "ask_solver")
    assert ucudnn.solve_wr(ALEXNET, 256, MIB, precision="FP32").optimal
    assert ucudnn.solve_wd(ALEXNET, 256, MIB * 64, precision="FP32").optimal


def test_profiles_are_copied_without_what_the_library_holds():
    profile = ucudnn.Profile.read(ALEXNET)
    profile.opened()
    for copied in (copy.deepcopy(profile), pickle.loads(pickle.dumps(profile))):
        assert copied == profile
        assert ucudnn.solve_wr(copied, 256, MIB, precision="FP32").optimal


def test_accepts_the_numbers_of_numpy(tmp_path):
    limit = numpy.int64(64 * MIB)
    plan = ucudnn.solve_wr(ALEXNET, numpy.int32(32), limit, precision="FP32")
    assert plan == ucudnn.solve_wr(ALEXNET, 32, "64MiB", precision="FP32")
    front = ucudnn.pareto(
        ALEXNET, numpy.uint16(32), limit, "conv2", "forward", precision="FP32"
    )
    assert (front.batch, front.workspace_limit_bytes) == (32, 64 * MIB)
    times = ucudnn.Times(
        [
            ucudnn.Time("K80", batch, numpy.float32(40 * batch))
            for batch in numpy.arange(32, 97, 32)
        ]
    )
    assert ucudnn.best_batch_size(numpy.int64(128), ["K80"] * 2, times=times) == [
        64, 64,
    ]  # fmt: skip
    buffers = [ucudnn.Buffer("a", *numpy.array([0, 1, 8]))]
    assert ucudnn.solve_allocation(buffers, numpy.int64(8)).pool == 8
    with pytest.raises(ucudnn.InvalidArgument, match="-1"):
        ucudnn.solve_wr(ALEXNET, 32, numpy.int64(-1), precision="FP32")
    with pytest.raises(ucudnn.InvalidArgument, match="not a size"):
        ucudnn.solve_wr(ALEXNET, 32, True, precision="FP32")


def test_errors_say_what_would_do():
    with pytest.raises(ucudnn.NoPlan, match="smallest limit") as no_plan:
        ucudnn.solve_wr(
            ucudnn.Profile.read(ALEXNET).where(algorithm="FFT"),
            256, 0, precision="FP32",
        )  # fmt: skip
    assert no_plan.value.code == 9
    assert ucudnn.solve_wr(
        ucudnn.Profile.read(ALEXNET).where(algorithm="FFT"),
        256, no_plan.value.least, precision="FP32",
    )  # fmt: skip
    with pytest.raises(ucudnn.InvalidArgument, match="precision"):
        ucudnn.solve_wr(ALEXNET, 256, "64MiB")
    with pytest.raises(ucudnn.InvalidArgument, match="batch is 0; .* from 1"):
        ucudnn.solve_wr(ALEXNET, 0, "64MiB")
    with pytest.raises(ucudnn.InvalidArgument, match="'64M' is not a size"):
        ucudnn.solve_wr(ALEXNET, 256, "64M")
    with pytest.raises(TypeError, match="lare"):
        ucudnn.solve_wr(ALEXNET, 256, "64MiB", lare="conv2")
    with pytest.raises(ucudnn.InvalidArgument, match="powerOf2") as bad:
        ucudnn.solve_wr(ALEXNET, 256, "64MiB", batch_policy="powerOf2")
    for policy in ("powerOfTwo", "undivided", "adaptive"):
        assert policy in str(bad.value)
        assert f'"{policy}"' in ucudnn.solve_wr.__doc__
        assert policy in get_args(literals.BatchPolicy)
    with pytest.raises(ucudnn.InvalidArgument, match="a front is for one kernel"):
        ucudnn.pareto(ALEXNET, 256, "64MiB", precision="FP32")


TIMES = ucudnn.Times(
    [
        ucudnn.Time(gpu, batch, per_image * batch + 100)
        for gpu, per_image in (("K80", 40.0), ("K20Xm", 70.0))
        for batch in range(32, 257, 32)
    ]
)


def test_gives_the_batches_of_figure_7():
    gpus = ["K80", "K80", "K20Xm"]
    batches = ucudnn.best_batch_size(256, gpus, times=TIMES)
    time = {(t.gpu, t.batch): t.time_us for t in TIMES.rows}

    def slowest(shares):
        return max(time.get((g, b), 0) for g, b in zip(gpus, shares) if b)

    # Trying every assignment.
    best = min(
        slowest(shares)
        for shares in itertools.product(range(0, 257, 32), repeat=3)
        if sum(shares) == 256
    )
    assert sum(batches) == 256
    assert slowest(batches) == best
    assert ucudnn.best_batch_size(32, ["K20Xm", "K80"], times=TIMES) == [0, 32]


def test_takes_times_from_profiles_of_slices(monkeypatch, tmp_path):
    files = [H200 / f"alexnet_b256_pow2_sm{n}.csv" for n in (64, 32, 16)]
    profile = ucudnn.Profile(
        [row for f in files for row in ucudnn.Profile.read(f).rows]
    )
    gpus = profile.devices
    assert gpus == ["NVIDIA H200/64sm", "NVIDIA H200/32sm", "NVIDIA H200/16sm"]
    batches = ucudnn.best_batch_size(
        256, gpus, profile=profile, precision="FP32"
    )
    assert sum(batches) == 256
    assert batches[0] > batches[1] > batches[2] > 0
    assert batches == sorted(batches, reverse=True)
    profile.write(tmp_path / "slices.csv.gz")
    monkeypatch.setenv("UCUDNN_PROFILE", str(tmp_path / "slices.csv.gz"))
    assert ucudnn.best_batch_size(256, gpus, precision="FP32") == batches


def test_says_which_gpu_was_not_measured(monkeypatch):
    with pytest.raises(ucudnn.InvalidArgument, match="'V100', but on 'K80'"):
        ucudnn.best_batch_size(64, ["V100"], times=TIMES)
    monkeypatch.delenv("UCUDNN_PROFILE", raising=False)
    with pytest.raises(ucudnn.InvalidArgument, match="UCUDNN_PROFILE"):
        ucudnn.best_batch_size(64, ["V100"])
    with pytest.raises(ucudnn.NoPlan, match="nearest|32|64"):
        ucudnn.best_batch_size(33, ["K80"], times=TIMES)


def test_assigns_as_the_command_does(tmp_path):
    TIMES.write(tmp_path / "times.csv")
    answer = ucudnn.assign(TIMES, 96)
    expected = command(
        "assign", "--times", str(tmp_path / "times.csv"), "--batch", "96"
    )
    assert answer == ucudnn.Assignment.from_json(expected)
    assert answer.optimal
    assert sum(share.weight for share in answer.gpus) == pytest.approx(1)


def test_allocates_buffers_as_the_command_does(tmp_path):
    lifetimes = [(0, 3, 4), (3, 9, 4), (0, 9, 4), (9, 21, 4), (0, 21, 4)]
    buffers = [ucudnn.Buffer(str(i), *b) for i, b in enumerate(lifetimes)]
    allocation = ucudnn.solve_allocation(buffers)
    assert (allocation.load, allocation.pool, allocation.proven) == (12, 12, True)
    for i, (lower, upper, size) in enumerate(lifetimes):
        for j, (other_lower, other_upper, other_size) in enumerate(lifetimes[:i]):
            if max(lower, other_lower) < min(upper, other_upper):
                a, b = allocation.offsets[str(i)], allocation.offsets[str(j)]
                assert a >= b + other_size or b >= a + size
    file = tmp_path / "buffers.csv"
    file.write_text(
        "id,lower,upper,size\n"
        + "".join(f"{b.id},{b.lower},{b.upper},{b.size}\n" for b in buffers)
    )
    expected = command("allocation", "--buffers", str(file))
    assert allocation == ucudnn.Allocation.from_json(expected)
    assert ucudnn.solve_allocation(file, capacity="12B") == allocation
    with pytest.raises(ucudnn.NoPlan, match="would do is 12") as no_plan:
        ucudnn.solve_allocation(file, capacity=11)
    assert no_plan.value.least == 12
    with pytest.raises(ucudnn.InvalidArgument, match="time_limit_s"):
        ucudnn.solve_allocation(file, time_limit=0)
