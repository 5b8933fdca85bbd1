"""ucudnn.torch.compile in the steps that people run: breaks, shapes, modes, and what
fails."""

import copy
import io
import logging
import re
from types import SimpleNamespace

import pytest
import torch
from compiled_models import Broken, Cnn, Gpt, Training, images, tokens
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import ucudnn
import ucudnn.torch
from ucudnn.torch.compiled import backend, planning, private
from ucudnn.torch.compiled.naming import breaks_of

BUDGET = 400_000  # of the 1.3 MB that PyTorch saves of Cnn


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UCUDNN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def forgotten():
    torch._dynamo.reset()


def planned(make=Cnn, budget=BUDGET, **options):
    return Training(
        make,
        lambda model: ucudnn.torch.compile(
            model, budget=budget, compiler="aot_eager", **options
        ),
    )


def plain(make=Cnn):
    return planned(make, None)


def both(run, make=Cnn, budget=BUDGET):
    """What `run` returns of a plain and a planned training, which is the same; and
    the latter."""
    expected = run(plain(make))
    torch._dynamo.reset()
    training = planned(make, budget)
    assert run(training) == expected
    return training


def measured(training, *inputs):
    plan = ucudnn.torch.plan_of(training.model)
    return plan.check(lambda: training(*inputs), steps=1).peak_bytes


def test_graphs_share_one_budget():
    training = both(lambda step: [step(*images()) for _ in range(4)], Broken)
    plan = ucudnn.torch.plan_of(training.model)
    assert plan.graphs == 2
    assert plan.recomputed
    told = breaks_of(g.module for g in backend._jobs[training.model]._planned)
    assert re.search(r"; it broke into 2 graphs.* after .*\.py:\d+ \(forward\)$", told)
    assert measured(training, *images()) == plan.saved_bytes <= BUDGET


@torch.compiler.disable
def apart(x):
    for _ in range(20):
        x = x.sin()
    return x


class Apart(Cnn):
    def forward(self, x, y):
        return functional.cross_entropy(self.head(apart(self.body(x))), y)


def test_what_is_saved_outside_of_the_graphs_is_one_warning(caplog):
    training = planned(Apart)
    for _ in range(4):
        training(*images())
    told = [r.message for r in caplog.records if "outside of its graphs" in r.message]
    assert len(told) == 1 and "it broke into 2 graphs" in told[0]
    assert measured(training, *images()) > BUDGET


def test_each_batch_has_its_plan():
    def run(step):
        return [step(*images(count)) for count in (8, 8, 3, 8, 3, 5)]

    training = both(run)
    assert ucudnn.torch.plan_of(training.model).saved_bytes <= BUDGET
    assert measured(training, *images(8)) <= BUDGET
    with pytest.raises(ucudnn.NoPlan):
        training(*images(64))


@pytest.mark.parametrize("dynamic", [None, True])
def test_symbolic_sizes_are_planned_one_by_one(dynamic):
    counts = (8, 4, 6, 8)
    reference = plain()
    losses = [reference(*images(count)) for count in counts]
    torch._dynamo.reset()
    training = planned(dynamic=dynamic)
    assert [training(*images(count)) for count in counts] == losses
    assert all(measured(training, *images(count)) <= BUDGET for count in counts)


def test_evaluation_of_many_sizes_compiles_one_more_graph(monkeypatch):
    compiled, compile_graph = [], private.compile_graph
    monkeypatch.setattr(
        private, "compile_graph",
        lambda *args: compiled.append(args) or compile_graph(*args),
    )  # fmt: skip
    training = planned(dynamic=None)
    training.compiled.eval()
    with torch.no_grad():
        for count in (8, 2, 3, 4, 5):
            expected = training.model(*images(count))
            torch.testing.assert_close(training.compiled(*images(count)), expected)
    assert len(compiled) == 2  # of one size, and of all others


def test_evaluation_between_steps():
    def run(step):
        told = [step(*images()), step(*images())]
        step.compiled.eval()
        with torch.no_grad():
            told.append(step.compiled(*images()).item())
        step.compiled.train()
        return [*told, step(*images())]

    both(run)


@pytest.mark.parametrize("make", [Cnn, Broken])
def test_autocast(make):
    def run(step):
        with torch.autocast("cpu", torch.bfloat16):
            return [step(*images()) for _ in range(3)]

    training = both(run, make, budget=300_000)
    assert ucudnn.torch.plan_of(training.model).recomputed


def test_checkpoints_within_the_model():
    class Checkpointed(Cnn):
        def forward(self, x, y):
            x = checkpoint(self.body[:6], x, use_reentrant=False)
            x = checkpoint(self.body[6:], x, use_reentrant=False)
            return functional.cross_entropy(self.head(x), y)

    training = both(
        lambda step: [step(*images()) for _ in range(3)], Checkpointed, 700_000
    )
    assert measured(training, *images()) <= 700_000


def test_accumulated_gradients_and_clipping():
    def run(step):
        told = []
        for _ in range(2):
            step.optimizer.zero_grad()
            for count in (8, 8, 4):
                loss = step.compiled(*images(count)) / 3
                loss.backward()
                told.append(loss.item())
            torch.nn.utils.clip_grad_norm_(step.model.parameters(), 0.1)
            step.optimizer.step()
        return told

    both(run)


def test_resumes_from_a_checkpoint():
    reference = plain(Gpt)
    losses = [reference(*tokens()) for _ in range(4)]
    torch._dynamo.reset()
    training = planned(Gpt, 600_000)
    assert [training(*tokens()) for _ in range(2)] == losses[:2]
    file = io.BytesIO()
    states = (training.model.state_dict(), training.optimizer.state_dict())
    torch.save((*states, torch.get_rng_state()), file)
    torch._dynamo.reset()
    other = planned(Gpt, 600_000)
    model, optimizer, numbers = torch.load(io.BytesIO(file.getvalue()))
    other.model.load_state_dict(model)
    other.optimizer.load_state_dict(optimizer)
    torch.set_rng_state(numbers)
    assert [other(*tokens()) for _ in range(2)] == losses[2:]
    assert set(model) == set(Gpt().state_dict())


def test_functions_are_compiled_too():
    model = Cnn(0.0)
    step = ucudnn.torch.compile(
        lambda x, y: model(x, y) * 2, budget=BUDGET, compiler="aot_eager"
    )
    step(*images()).backward()
    assert ucudnn.torch.plan_of(step).recomputed


def test_as_a_decorator():
    model = Cnn(0.0)

    @ucudnn.torch.compile(budget=BUDGET, compiler="aot_eager")
    def loss_of(x, y):
        return model(x, y)

    loss_of(*images()).backward()
    assert ucudnn.torch.plan_of(loss_of).recomputed


def loaded(model):
    file = io.BytesIO()
    torch.save(model, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, loaded])
def test_copies_train_alike(copied):
    training = planned(budget=BUDGET)
    training(*images())
    gradients = []
    for model in (training.compiled, copied(training.compiled)):
        model.zero_grad()
        torch.manual_seed(5)
        model(*images()).backward()
        gradients.append([one.grad for one in model.parameters()])
        assert 0 < ucudnn.torch.plan_of(model).saved_bytes <= BUDGET
    assert all(map(torch.equal, *gradients))


def test_the_backend_by_its_name():
    reference = [plain()(*images())]
    torch._dynamo.reset()
    training = Training(
        Cnn,
        lambda model: torch.compile(
            model,
            backend="ucudnn",
            options={"budget": BUDGET, "compiler": "aot_eager"},
        ),
    )
    assert [training(*images())] == reference
    other = torch.compile(
        torch.nn.Linear(4, 4),
        backend="ucudnn",
        options={"compiler": "aot_eager"},
    )
    other(torch.ones(2, 4))  # has no plan, as an EMA that is only evaluated
    assert ucudnn.torch.plan_of(training.compiled).saved_bytes <= BUDGET


def test_the_backend_by_its_name_in_place_and_of_a_function():
    options = {"budget": BUDGET - 1, "compiler": "aot_eager"}
    model = Cnn()
    model.compile(backend="ucudnn", options=options)
    model(*images()).backward()
    assert ucudnn.torch.plan_of(model).budget_bytes == BUDGET - 1
    torch._dynamo.reset()
    options["budget"] -= 1
    step = torch.compile(lambda *inputs: Cnn()(*inputs), backend="ucudnn", options=options)
    step(*images()).backward()
    assert ucudnn.torch.plan_of(step).budget_bytes == BUDGET - 2


@pytest.mark.parametrize("installed", [False, True])
def test_the_backend_is_registered_where_no_entry_point_names_it(monkeypatch, installed):
    names, registered = ["other"] + ["ucudnn"] * installed, []
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: SimpleNamespace(names=names)
    )
    monkeypatch.setattr(
        torch._dynamo, "register_backend", lambda one, name: registered.append(name)
    )
    private.register.__wrapped__("ucudnn", backend.backend)
    assert registered == ["ucudnn"] * (not installed)
    assert "ucudnn" in torch._dynamo.list_backends()


@pytest.mark.parametrize("suppressed", [False, True])
def test_no_plan_reaches_the_user(suppressed):
    with torch._dynamo.config.patch(suppress_errors=suppressed):
        with pytest.raises(ucudnn.NoPlan):
            planned(budget=1000)(*images())


def test_a_fault_in_planning_is_one_warning(monkeypatch, caplog):
    def fails(*_):
        raise ZeroDivisionError("no such luck")

    monkeypatch.setattr(planning, "_segment", fails)
    training = planned(Broken)
    losses = [training(*images()) for _ in range(2)]
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "compiled without a plan: ZeroDivisionError: no such luck" in caplog.text
    torch._dynamo.reset()
    reference = plain(Broken)
    assert [reference(*images()) for _ in range(2)] == losses


def test_a_plan_is_one_line(caplog):
    caplog.set_level(logging.INFO, "ucudnn.torch.compile")
    planned()(*images())
    assert len(caplog.records) == 1
    assert "computed again" in caplog.text
    caplog.clear()
    torch._dynamo.reset()
    planned(quiet=True)(*images())
    assert not caplog.records


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": "much"}, "'much' is not a size"),
        ({"backend": "inductor"}, "compile: backend: 'inductor'; ucudnn's own"),
        ({"compiler": "gcc"}, "compile: compiler: 'gcc'; one of 'inductor', 'aot_eager'"),
        ({"workspace_limit": "big"}, "'big' is not a size"),
        ({"enforce_limit": True}, "compile: enforce_limit: True; with a workspace_limit"),
        ({"allow": ["guess"]}, "compile: allow: 'guess'; one of 'recompute', 'offload'"),
        ({"host_budget": "some"}, "'some' is not a size"),
        ({"host_budget": 8, "allow": "recompute"}, "compile: host_budget: 8; with 'off"),
        (
            {"host_budget": "1GiB", "mode": "reduce-overhead"},
            "compile: allow: 'offload' with CUDA graphs; 'offload' without them",
        ),
        ({"mode": "fast"}, "mode or options: Unrecognized mode=fast"),
        (
            {"options": {"speed": 1}},
            "mode or options: Unexpected .* option speed; .*by the .* name budget, ",
        ),
        (
            {"compiler": "aot_eager", "mode": "reduce-overhead"},
            "compile: mode: 'reduce-overhead'; with compiler 'aot_eager', none",
        ),
    ],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(ucudnn.InvalidArgument, match=message):
        ucudnn.torch.compile(Cnn(), **options)


def test_cuda_graphs_need_a_gpu(caplog):
    model = torch.nn.Linear(4, 4)
    step = ucudnn.torch.compile(model, mode="reduce-overhead", fullgraph=True)
    x = torch.ones(2, 4)
    assert torch.equal(step(x), model(x))
    assert caplog.text.count("need a GPU") == 1


def test_a_model_that_was_not_compiled():
    with pytest.raises(ucudnn.InvalidArgument, match="plan_of: 'Cnn'"):
        ucudnn.torch.plan_of(Cnn())
