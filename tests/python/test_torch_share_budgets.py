"""ucudnn.torch.share with budgets: two processes on the CPU over gloo, which run the
scenarios of torch_share_budget_ranks.py, and the predictions that they plan by."""

import pytest
import torch
from compiled_models import Broken, Cnn, Gpt, images, tokens

import ucudnn
import ucudnn.torch
from ucudnn.sizes import size_text
from ucudnn.torch.compiled.job import Options
from ucudnn.torch.compiled.planning import between
from ucudnn.torch.compiled.recording import Recorder
from ucudnn.torch.devices import find_device
from ucudnn.torch.parallel.budgets import PlannedSteps

SCRIPT = "torch_share_budget_ranks.py"  # that each rank runs


def test_each_rank_trains_within_its_budget(told):
    for rank, budget in zip(told, told[0]["given"]):
        assert rank["unchanged"]
        assert max(rank["distances"]) < 1e-6
        assert rank["budgets"] == rank["given"] == told[0]["given"]
        assert rank["batches"] == told[0]["batches"] and sum(rank["batches"]) == 24
        assert 0 < rank["saved"] <= budget
        assert rank["again"] > 0
        assert rank["predicted_ms"] >= rank["bound_ms"] > 0
        assert rank["reasons"] == told[0]["reasons"]
    assert f"within {size_text(told[0]['given'][1])}" in told[0]["reasons"][1]


def test_no_rank_gets_more_than_its_budget_holds(told):
    for rank in told:
        assert sum(rank["batches"]) == 24 and rank["batches"][1] <= 5
        assert rank["budgets"] == told[0]["budgets"]


def test_a_budget_that_holds_no_image(told):
    # The ranks of a budget that both have fail each with their own.
    for rank in told:
        assert len(rank) == 2
        for one in rank:
            assert 1024 < one["least"] < 400_000
            assert f"the least that is accepted is {one['least']} bytes" in one["text"]
        assert rank[1]["least"] == told[0][1]["least"]
        assert "on 'small'" in rank[1]["text"]


def test_a_mini_batch_that_no_memory_holds(told):
    for rank in told:
        assert "the mini-batch is 24; at most 10 is accepted" in rank
        assert rank.startswith("NoPlan") and "of 5, the largest that fits" in rank


def test_a_rank_that_fails(told):
    assert told[0]["failed"] == "rank 1: ValueError: no images"
    assert told[1]["failed"] == "no images"
    for rank in told:
        assert "computes 4 images" in rank["few"] or "compute 4 images" in rank["few"]


def test_what_cannot_be_planned(told):
    parts = [
        "1 is a SyncBatchNorm", "a DistributedDataParallel", "a OptimizedModule",
        "share: idle", "micro_steps", "none of 'small'",
        "share: budget: 1000 on rank 0 and 1001 on rank 1", "given with step=",
    ]  # fmt: skip
    for rank in told:
        for text, part in zip(rank, parts, strict=True):
            assert text.startswith("InvalidArgument") and part in text


# --- Predictions.


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UCUDNN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("make, inputs", [(Cnn, images), (Broken, images), (Gpt, tokens)])
def test_recorded_steps_are_those_that_are_compiled(make, inputs):
    torch._dynamo.reset()
    model = make(dropout=0.0)
    compiled = ucudnn.torch.compile(model, budget="1GiB", compiler="aot_eager")
    for _ in range(2):
        compiled(*inputs()).backward()
    recorder = Recorder(model, Options(compiler="aot_eager"), {})
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    step = recorder.step(lambda bare: bare(*inputs()))
    assert step.plain().peak == ucudnn.torch.plan_of(compiled).plain_peak_bytes
    assert all(torch.equal(value, buffers[n]) for n, value in model.named_buffers())


def test_steps_between_two_have_the_bytes_of_their_batch():
    recorder = Recorder(Cnn(), Options(compiler="aot_eager"), {})

    def step(batch):
        torch._dynamo.reset()
        return recorder.step(lambda bare: bare(*images(batch)))

    four, eight, sixteen = map(step, (4, 8, 16))
    told = between(four, sixteen, 1 / 3)
    sizes = [[t["bytes"] for t in one.tensors] for one in (told, eight)]
    assert sizes[0] == sizes[1]
    assert told.plain().us == pytest.approx(four.plain().us * 2 / 3 + sixteen.plain().us / 3)
    assert between(four, recorder.step(lambda bare: bare(*images())), 0.5)
    other = Recorder(Broken(), Options(compiler="aot_eager"), {})
    assert between(four, other.step(lambda bare: bare(*images())), 0.5) is None


def test_more_budget_is_never_slower():
    x, y = images(32)
    torch.manual_seed(1)
    recorder = Recorder(Cnn(), Options(compiler="aot_eager"), {})
    few, many = (
        recorder.step(lambda bare, b=batch: bare(x[:b], y[:b])) for batch in (4, 32)
    )
    for step in (few, between(few, many, 0.3), many):
        whole = step.plain().peak
        plans = [recorder.within(step, whole * part // 10) for part in range(3, 11)]
        times = [plan.predicted.us for plan in plans]
        assert all(more <= less * 1.0001 for less, more in zip(times, times[1:]))
        assert times[0] > times[-1] == step.plain().us
        assert all(plan.bound_us <= plan.predicted.us * 1.0001 for plan in plans)


def test_records_the_smallest_and_the_largest_batch_alone(monkeypatch):
    recorded, measured = [], []
    record, measure = PlannedSteps._record, PlannedSteps._measure

    def recorded_step(self, batch):
        recorded.append(batch)
        return record(self, batch)

    def measured_step(self, batch):
        measured.append(batch)
        return measure(self, batch)

    monkeypatch.setattr(PlannedSteps, "_record", recorded_step)
    monkeypatch.setattr(PlannedSteps, "_measure", measured_step)
    x, y = images(16)
    steps = PlannedSteps(
        Cnn(), lambda bare, batch: bare(x[:batch], y[:batch]), None, (), None,
        find_device("cpu", "kind"), 16, {"compiler": "aot_eager"},
    )  # fmt: skip
    for batches in ([4, 8], [6], [12, 16]):
        assert steps.profile(batches).ms.keys() >= {*batches}
    assert recorded == [4, 16]
    steps.profile([2])
    assert recorded == [4, 16, 2]
    # A batch that was measured is not measured again.
    first = steps.tried(8)
    assert steps.tried(8) == first and measured == [8]


def test_as_many_images_fit_as_the_least_budgets_say():
    x, y = images(32)
    torch._dynamo.reset()
    compiled = ucudnn.torch.compile(Cnn(), budget=1, compiler="aot_eager")
    with pytest.raises(ucudnn.NoPlan) as refused:
        compiled(x[:11], y[:11])
    for missing, most, first in ((0, 11, 2), (1, 10, 16)):
        steps = PlannedSteps(
            Cnn(), lambda bare, batch: bare(x[:batch], y[:batch]), None, (),
            refused.value.least - missing, find_device("cpu", "kind"), 32,
            {"compiler": "aot_eager"},
        )  # fmt: skip
        told = steps.profile([first, 32])
        assert told.largest == most == max(told.ms)
        assert steps.profile([9]).ms.keys() == {9} | told.ms.keys()
