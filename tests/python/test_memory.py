"""Memory plans through ctypes, against what the program `ucudnn` prints."""

import copy
import dataclasses
import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest
import ucudnn

DATA = Path(os.environ["UCUDNN_TEST_DATA"])
ALEXNET = DATA / "onnx/alexnet.onnx"
VGG16 = DATA / "networks/vgg16.csv"
UCUDNN = os.environ["UCUDNN_BIN_DIR"] + "/ucudnn"


def command(*arguments):
    done = subprocess.run(
        [UCUDNN, "solve", "memory", *map(str, arguments), "-o", "json"],
        check=True,
        capture_output=True,
    )
    return json.loads(done.stdout)


def alexnet(**options):
    return ucudnn.solve_memory(ALEXNET, 256, "K40", "950MB", **options)


@pytest.mark.parametrize("policy", ["vdnn-dyn", "modnn", "best"])
def test_plans_as_the_command_does(policy):
    plan = alexnet(policy=policy)
    expected = command(
        "--network", ALEXNET, "--batch", 256, "--device-model", "K40",
        "--budget", "950MB", "--policy", policy,
    )  # fmt: skip
    assert plan.to_json() == expected
    assert plan == ucudnn.MemoryPlan.from_json(expected)
    assert (plan.policy, plan.network) == (policy, "alexnet")
    assert plan.lower_bound_us <= plan.time_us
    assert plan.peak_bytes <= plan.budget_bytes == 950_000_000
    assert sum(r.batch * r.count for r in plan.rounds) == plan.batch == 256


def test_says_whether_the_accuracy_of_algorithms_is_measured():
    profile = ucudnn.Profile.read(DATA / "h200/alexnet_b256_pow2.csv")
    chosen = {"policy": "vdnn-dyn", "profile": profile, "profile_network": "alexnet"}
    plan = alexnet(**chosen)
    assert "accuracy not measured: 15 of 15" in plan.notes[0]
    assert plan.notes[0] == repr(plan).splitlines()[-1]
    exact = [dataclasses.replace(row, others={"error": "1e-6"}) for row in profile.rows]
    chosen["profile"] = ucudnn.Profile(exact)
    assert alexnet(**chosen).notes == []
    with pytest.raises(ucudnn.NoPlan, match="max_error 1e-06 admits"):
        alexnet(**chosen, max_error=1e-7)


def test_passes_every_option_on():
    profile = DATA / "h200/vgg16_b64_pow2.csv.gz"
    plan = ucudnn.solve_memory(
        VGG16, 64, "H200", "5GB", policy="vdnn-ext", precision="TF32",
        profile=profile, sub_batch=32, allocator="static", fuse="paper",
        time_limit=10, profile_network="vgg16", device="NVIDIA H200",
        layout="NCHW",
    )  # fmt: skip
    assert plan.to_json() == command(
        "--network", VGG16, "--batch", 64, "--device-model", "H200",
        "--budget", "5GB", "--policy", "vdnn-ext", "--precision", "TF32",
        "--profile", profile, "--sub-batch", 32, "--allocator", "static",
        "--fuse", "paper", "--time-limit", 10, "--profile-network", "vgg16",
        "--device", "NVIDIA H200", "--layout", "NCHW",
    )  # fmt: skip
    free = alexnet(recompute=True, offload_weights=True, sub_batch=256)
    assert free.to_json() == command(
        "--network", ALEXNET, "--batch", 256, "--device-model", "K40",
        "--budget", "950MB", "--sub-batch", 256, "--recompute",
        "--offload-weights",
    )  # fmt: skip
    shared = alexnet(policy="modnn", gpus=2)
    assert (shared.gpus, shared.batch) == (2, 128)
    assert {e.stream for e in shared.events} == {"compute", "copy", "host"}
    split = ucudnn.solve_memory(VGG16, 64, "K40", policy="hmms", split="0.5,2,2")
    assert split.network == "vgg16 (split 0.5,2,2)"
    assert split.budget_bytes == 12_000_000_000


def test_takes_the_fastest_of_all_policies():
    fastest = alexnet(policy="all")
    plans = command(
        "--network", ALEXNET, "--batch", 256, "--device-model", "K40",
        "--budget", "950MB", "--policy", "all",
    )["plans"]  # fmt: skip
    times = [plan["time_us"] for plan in plans if plan["feasible"]]
    assert len(times) < len(plans)
    assert fastest.time_us == min(times)
    fastest.check()


def test_takes_the_sizes_of_inputs():
    plan = ucudnn.solve_memory(ALEXNET, 64, "K40", policy="hmms")
    named = {"input": (3, 224, 224)}
    sized = ucudnn.solve_memory(
        ALEXNET, 64, "K40", policy="hmms", input_shape=named
    )
    assert sized == plan
    with pytest.raises(ucudnn.InvalidArgument, match="input.*224"):
        ucudnn.solve_memory(
            ALEXNET, 64, "K40", input_shape={"input": (3, 64, 64)}
        )
    with pytest.raises(ucudnn.InvalidArgument, match="image"):
        ucudnn.solve_memory(
            ALEXNET, 64, "K40", input_shape={"image": (3, 224, 224)}
        )
    with pytest.raises(ucudnn.InvalidArgument, match="ONNX models"):
        ucudnn.solve_memory(VGG16, 64, "K40", input_shape=(3, 8, 8))


def test_takes_models_and_device_models_in_several_forms(tmp_path):
    plan = ucudnn.solve_memory(ALEXNET, 64, "K40", policy="hmms")
    packed = tmp_path / "alexnet.onnx.gz"
    packed.write_bytes(gzip.compress(ALEXNET.read_bytes()))
    assert ucudnn.solve_memory(packed, 64, "K40", policy="hmms") == plan
    unnamed = ucudnn.solve_memory(
        ALEXNET.read_bytes(), 64, "K40", policy="hmms"
    )
    assert unnamed.network == "network"
    assert unnamed.rounds == plan.rounds
    device = {
        "name": "mine", "memory_bytes": 4_000_000_000, "memory_gb_per_s": 170,
        "arithmetic_tflops": 2.6, "d2h_gb_per_s": 10, "h2d_gb_per_s": 10,
    }  # fmt: skip
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(device))
    by_file = ucudnn.solve_memory(ALEXNET, 64, str(file))
    assert by_file.budget_bytes == 4_000_000_000
    assert ucudnn.solve_memory(ALEXNET, 64, device) == by_file


def test_writes_plans_that_it_reads_back(tmp_path):
    plan = alexnet(policy="modnn")
    plan.write(tmp_path / "plan.json")
    assert ucudnn.MemoryPlan.read(tmp_path / "plan.json") == plan
    newer = dict(plan.to_json(), added_later=1)
    assert ucudnn.MemoryPlan.from_json(newer) == plan


def test_repeats_the_events_of_rounds():
    plan = alexnet(policy="modnn", sub_batch=64)
    assert [(r.batch, r.count) for r in plan.rounds] == [(64, 3), (64, 1)]
    assert len(plan.events) == sum(
        r.count * len(r.events) for r in plan.rounds
    )
    tasks = [e for e in plan.events if e.op == "compute"]
    ends = [e.start_us + e.dur_us for e in tasks]
    assert max(ends) == pytest.approx(plan.time_us)
    assert sum(e.dur_us for e in tasks) + plan.stall_us == pytest.approx(
        plan.time_us
    )


@pytest.mark.parametrize(
    "options",
    [
        {"policy": "vdnn-dyn"},
        {"policy": "modnn", "sub_batch": 64},
        {
            "policy": "best",
            "device_model": "H200",
            "profile": DATA / "h200/alexnet_b256_pow2.csv",
        },
    ],
)
def test_blocks_that_live_at_once_lie_apart(options):
    plan = ucudnn.solve_memory(
        ALEXNET, 256, budget="950MB", **{"device_model": "K40", **options}
    )
    plan.check()
    lives = plan.lives()
    assert max(life.offset + life.bytes for life in lives) == plan.peak_bytes
    assert any(life.kind == "workspace" for life in lives) == (
        "profile" in options
    )
    for i, a in enumerate(lives):
        assert 0 <= a.start_us <= a.end_us <= plan.time_us
        for b in lives[:i]:
            if max(a.start_us, b.start_us) < min(a.end_us, b.end_us):
                assert (
                    a.offset + a.bytes <= b.offset
                    or b.offset + b.bytes <= a.offset
                ), (a, b)


def test_errors_say_what_would_do(tmp_path):
    with pytest.raises(ucudnn.NoPlan, match="would do") as no_plan:
        ucudnn.solve_memory(ALEXNET, 256, "K40", "1MB", policy="vdnn-dyn")
    assert no_plan.value.code == 9
    least = no_plan.value.least
    plan = ucudnn.solve_memory(ALEXNET, 256, "K40", least, policy="vdnn-dyn")
    assert plan.peak_bytes <= least
    with pytest.raises(ucudnn.InvalidArgument, match="'magic'; baseline.*, or all"):
        alexnet(policy="magic")
    with pytest.raises(ucudnn.InvalidArgument, match='model is "K41"; .*K40.*object'):
        ucudnn.solve_memory(ALEXNET, 256, "K41")
    with pytest.raises(ucudnn.InvalidArgument, match="model: memory_bytes is"):
        ucudnn.solve_memory(ALEXNET, 256, {"name": "mine"})
    with pytest.raises(ucudnn.InvalidArgument, match="'4 gigs' is not a size"):
        ucudnn.solve_memory(ALEXNET, 256, "K40", "4 gigs")
    with pytest.raises(TypeError, match="lare"):
        alexnet(lare="conv2")
    with pytest.raises(ucudnn.InvalidArgument, match="network: row 8 .*ONNX"):
        ucudnn.solve_memory(DATA / "networks/resnet18.csv", 64, "K40")
    with pytest.raises(ucudnn.InvalidArgument, match="not an ONNX model"):
        ucudnn.solve_memory(b"\1", 64, "K40")
    broken = tmp_path / "device.json"
    broken.write_text("{")
    with pytest.raises(ucudnn.InvalidArgument, match="device.json: not JSON"):
        ucudnn.solve_memory(ALEXNET, 64, broken)


def test_names_the_field_of_a_plan_that_is_wrong(tmp_path):
    good = alexnet(policy="vdnn-dyn").to_json()

    def refused(match, change):
        bad = copy.deepcopy(good)
        change(bad)
        with pytest.raises(ucudnn.InvalidArgument, match=match):
            ucudnn.MemoryPlan.from_json(bad)

    refused("plan.time_us is missing", lambda p: p.pop("time_us"))
    refused(
        r"plan.batch: '256'; a whole number is accepted",
        lambda p: p.update(batch="256"),
    )
    refused(
        r"plan.rounds\[0\].events\[2\].op: 7; text is accepted",
        lambda p: p["rounds"][0]["events"][2].update(op=7),
    )
    refused(
        r"plan.rounds\[0\]: None; an object is accepted",
        lambda p: p["rounds"].__setitem__(0, None),
    )
    refused("plan.resident: {}; a list", lambda p: p.update(resident={}))
    refused(
        r"plan.rounds\[0\].events\[0\]: alloc without offset",
        lambda p: p["rounds"][0]["events"][0].pop("offset"),
    )
    refused(
        r"plan.rounds\[0\].events\[0\]: op 'malloc'; alloc, free",
        lambda p: p["rounds"][0]["events"][0].update(op="malloc"),
    )
    file = tmp_path / "plan.json"
    file.write_text("{")
    with pytest.raises(ucudnn.InvalidArgument, match="plan.json: not JSON"):
        ucudnn.MemoryPlan.read(file)


def test_checks_plans_against_every_rule():
    good = alexnet(policy="vdnn-dyn").to_json()

    def refused(match, change):
        bad = copy.deepcopy(good)
        change(bad, bad["rounds"][0]["events"])
        plan = ucudnn.MemoryPlan.from_json(bad)
        with pytest.raises(ucudnn.InvalidArgument, match=match):
            plan.check()

    def drop(events, op):
        events.remove(next(e for e in events if e["op"] == op))

    refused("R12 .* is not within", lambda p, e: p.update(budget_bytes=1000))
    refused("R4 event", lambda p, e: e[-1].update(start_us=0.0))
    refused("R23 .*peak is 7,", lambda p, e: p.update(peak_bytes=7))
    refused("R[0-9]+ event", lambda p, e: drop(e, "offload"))
    refused("batch is 255; 256", lambda p, e: p.update(batch=255))


def test_checks_plans_with_a_given_graph(tmp_path):
    plan = alexnet(policy="vdnn-dyn")
    plan.check()
    without = dataclasses.replace(plan, graph=None)
    with pytest.raises(ucudnn.InvalidArgument, match="graph is missing"):
        without.check()
    without.check(plan.graph)
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(plan.graph))
    without.check(file)
    without.check(str(file))
