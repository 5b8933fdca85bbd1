import copy
import functools
import weakref

import pytest
import torch
import ucudnn
import ucudnn.torch
from torch import nn
from ucudnn.torch.kept import stateful, unchanged
from ucudnn.torch.parallel.cache import StepCache
from ucudnn.torch.parallel.fingerprint import fingerprint


def small():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout())


def step_of(model, optimizer, calls=None, fits=100):
    images = torch.ones(100, 4)

    def step(b):
        if calls is not None:
            calls.append(b)
        if b > fits:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        optimizer.zero_grad()
        model(images[:b]).sum().backward()
        optimizer.step()

    return step


def test_measures_each_batch():
    model = small()
    told = ucudnn.torch.profile(
        step_of(model, torch.optim.SGD(model.parameters(), lr=0.1)), [8, 2],
        device="cpu", kind="here",
    )  # fmt: skip
    assert list(told.ms) == [2, 8]
    assert all(ms > 0 for ms in told.ms.values())
    assert told.kind == "here"
    assert told.largest is None


def test_finds_where_memory_ends():
    model = small()
    calls = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = step_of(model, optimizer, calls, fits=21)
    told = ucudnn.torch.profile(step, [2, 16, 64, 100], device="cpu")
    assert told.largest == 20  # one is left to the allocator
    assert list(told.ms) == [2, 16, 20]
    assert 100 not in calls


def test_finds_that_nothing_fits():
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = step_of(model, optimizer, fits=0)
    told = ucudnn.torch.profile(step, [4], device="cpu")
    assert (told.ms, told.largest) == ({}, 0)


def test_raises_what_is_not_a_lack_of_memory():
    def step(b):
        raise RuntimeError("sizes differ")

    with pytest.raises(RuntimeError, match="sizes differ"):
        ucudnn.torch.profile(step, [4], device="cpu")


def test_holds_no_gradients_that_a_step_lets_go():
    """They would count as memory that the step needs."""
    model = small()
    model(torch.randn(2, 4)).sum().backward()
    first, *rest = model.parameters()
    shared = first.grad
    expected = [p.grad.clone() for p in model.parameters()]
    away = [weakref.ref(p.grad) for p in rest]
    with unchanged([model], torch.device("cpu")):
        for parameter in model.parameters():
            parameter.grad = None
        shared.zero_()
        assert all(reference() is None for reference in away)
    assert first.grad is shared
    assert all(
        torch.equal(p.grad, e) for p, e in zip(model.parameters(), expected)
    )


def test_leaves_everything_as_it_was():
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    step = step_of(model, optimizer)
    step(4)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    gradients = [p.grad.clone() for p in model.parameters()]
    random = torch.get_rng_state()

    def scheduled(b):
        step(b)
        schedule.step()

    ucudnn.torch.profile(scheduled, [3], device="cpu")
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[0][name]), name
    state = optimizer.state_dict()
    assert state["param_groups"] == before[1]["param_groups"]
    for key, values in before[1]["state"].items():
        for name, value in values.items():
            assert torch.equal(
                torch.as_tensor(state["state"][key][name]),
                torch.as_tensor(value),
            ), name
    for parameter, gradient in zip(model.parameters(), gradients):
        assert torch.equal(parameter.grad, gradient)
    assert torch.equal(torch.get_rng_state(), random)
    assert schedule.last_epoch == 0


def test_keeps_an_optimizers_tensors():
    """A CUDA graph reads them where they were when it was captured."""
    model = small()
    rate = torch.tensor(0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step_of(model, optimizer)(4)
    group = optimizer.param_groups[0]
    group["lr"] = rate
    buffers = [values["momentum_buffer"] for values in optimizer.state.values()]
    contents = [buffer.clone() for buffer in buffers]
    with unchanged([optimizer], torch.device("cpu")):
        group["lr"].mul_(2)
        for buffer in buffers:
            buffer.zero_()
    assert group["lr"] is rate and float(rate) == pytest.approx(0.1)
    for values, buffer, expected in zip(
        optimizer.state.values(), buffers, contents
    ):
        assert values["momentum_buffer"] is buffer
        assert torch.equal(buffer, expected)


def test_measures_synchronised_statistics_alone():
    model = nn.SyncBatchNorm.convert_sync_batchnorm(small())
    told = ucudnn.torch.profile(
        lambda b: model(torch.ones(b, 4)).sum().backward(), [2], device="cpu"
    )
    assert told.ms[2] > 0
    assert "forward" not in vars(model[1])


class Trainer:
    def __init__(self):
        self.model = small()
        self.optimizers = [torch.optim.SGD(self.model.parameters(), lr=1.0)]

    def step(self, b):
        self.model(torch.ones(b, 4))


def test_finds_what_a_step_changes():
    trainer = Trainer()
    expected = [trainer.model, *trainer.optimizers]
    for step in (
        trainer.step,
        functools.partial(Trainer.step, trainer),
        lambda b: trainer.step(b),
    ):
        found = stateful(step, ())
        assert [id(value) for value in found] == [id(v) for v in expected]
    assert stateful(lambda b: None, [trainer.model]) == [trainer.model]
    with pytest.raises(ucudnn.InvalidArgument, match="keep: a int"):
        stateful(lambda b: None, [1])


def test_names_equal_steps_equally_and_others_not():
    def name_of(model, images, rate):
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)

        def step(b):
            model(images[:b]).sum().backward()
            optimizer.step()

        return fingerprint(step)

    plain = name_of(small(), torch.ones(8, 4), 0.1)
    assert plain == name_of(small(), torch.zeros(8, 4), 0.1)
    others = [
        name_of(nn.Linear(4, 4), torch.ones(8, 4), 0.1),
        name_of(small().double(), torch.ones(8, 4), 0.1),
        name_of(small(), torch.ones(8, 4).double(), 0.1),
        fingerprint(lambda b: None),
    ]
    assert len({plain, *others}) == 5


def test_reads_back_what_it_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("UCUDNN_CACHE_DIR", str(tmp_path))
    measured = ucudnn.torch.StepProfile("GPU, 64 SMs", {1: 2.5, 8: 9.0}, 8)
    StepCache().write("step", measured)
    (file,) = tmp_path.rglob("*.json")
    assert file == StepCache(tmp_path).path("step", "GPU, 64 SMs")
    assert StepCache().read("step", "GPU, 64 SMs") == measured
    assert StepCache().read("step", "GPU, 16 SMs").ms == {}
    for damaged in ("", "[]", '{"kind":"GPU, 64 SMs","ms":{"1":-1}}', "{"):
        file.write_text(damaged)
        assert StepCache().read("step", "GPU, 64 SMs").ms == {}


def test_works_without_a_cache(monkeypatch):
    monkeypatch.setenv("UCUDNN_CACHE_DIR", "")
    assert StepCache().path("step", "kind") is None
    StepCache("/proc/none").write("step", ucudnn.torch.StepProfile("kind"))
    assert StepCache("/proc/none").read("step", "kind").ms == {}
