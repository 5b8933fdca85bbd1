import copy
import gc
import io
import pickle

import pytest
import torch
import ucudnn
import ucudnn.torch
from torch import nn
from torch.nn import functional
from ucudnn.convolutions import Convolution
from ucudnn.torch.convolution import contest, converting, planned
from ucudnn.torch.convolution.calls import DATA, FILTER, FORWARD, record
from ucudnn.torch.convolution.converting import open_device
from ucudnn.torch.convolution.swapping import planned_in
from ucudnn.torch.timing import Time

CPU = torch.device("cpu")
COMPARE_PASSES = converting._compare_passes


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UCUDNN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ucudnn.torch.convolution.converting, "_devices", {})


def network():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(4, 8, 3, stride=2, padding=(1, 2)),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 6, 3, padding="same", groups=2, dilation=2, bias=False),
    )


def images(batch=3):
    torch.manual_seed(2)
    return torch.randn(batch, 4, 9, 8, requires_grad=True)


def is_planned(module):
    return planned_in(module) is not None


def gradients(model, x):
    loss = model(x).square().sum()
    return [loss.detach(), *torch.autograd.grad(loss, [x, *model.parameters()])]


def close(some, others):
    return all(torch.allclose(a, b, atol=1e-4) for a, b in zip(some, others))


def test_computes_what_the_model_did(eager, capsys):
    model, x = network(), images()
    expected = gradients(copy.deepcopy(model), x)
    statistics = {n: t.clone() for n, t in model.state_dict().items()}
    done = ucudnn.torch.convert(model, x)
    assert done.converted == ["0", "3"]
    assert list(model.state_dict()) == list(statistics)
    assert all(torch.equal(statistics[n], t) for n, t in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert close(gradients(model, x), expected)
    told = capsys.readouterr().out
    assert "0: 3x4x9x8 * 8x4x3x3, FP32 NCHW" in told
    assert "3x8x5x5 * 6x4x3x3, 2 groups, FP32 NCHW" in told
    assert told.count("data gradient") == 2


def test_enforces_a_limit_that_pytorch_exceeds(monkeypatch):
    """Though no plan is faster."""
    taken = {FORWARD: 64 << 20, DATA: 1 << 20, FILTER: 3 << 20}
    monkeypatch.setattr(contest, "_LEAST_GAIN", 1e9)
    monkeypatch.setattr(
        contest.Contest, "torch_workspace", lambda self, call, name: taken[name]
    )
    model, x = network(), images()
    expected = gradients(copy.deepcopy(model), x)
    done = ucudnn.torch.convert(
        model, x, workspace_limit="2MiB", enforce_limit=True, quiet=True
    )
    assert done.converted == ["0", "3"] and done.enforced and not done.why
    for layer in done.layers:
        planned_now = {o.name for o in layer.operations if not o.why}
        assert planned_now == {FORWARD, FILTER}
    assert "MiB instead of 64.0" in str(done)
    assert done.workspace <= 2 << 20
    assert close(gradients(model, x), expected)
    done.revert()
    assert not ucudnn.torch.convert(model, x, quiet=True).converted


@pytest.mark.parametrize("operation", [FORWARD, DATA, FILTER])
def test_is_as_exact_as_pytorch(operation):
    torch.manual_seed(6)
    module = nn.Conv2d(64, 32, 3, padding=1, bias=False)
    x = torch.rand(4, 64, 12, 12, requires_grad=True)
    out = torch.rand(4, 32, 12, 12)
    (seen,) = record(module, [x], {})
    plan = open_device(CPU).plan(seen.call.problem(operation), 4, 1 << 26)

    def result(plans, dtype=torch.float32):
        one = planned.PlannedCall(seen.call, plans)
        operands = [t.detach().to(dtype) for t in (x, module.weight, out)]
        return contest._run_of(one, operation, operands)()

    def of(told):
        at = {DATA: 0, FILTER: 1}
        return told if operation == FORWARD else told[at[operation]]

    exact = of(result({}, torch.float64))

    def error(told):
        return float((of(told).double() - exact).abs().max() / exact.abs().max())

    assert error(result({operation: plan})) <= max(1e-5, 4 * error(result({})))


def runs_of(monkeypatch):
    counted = []
    plain = planned.PlannedCall.run

    def run(self, name, *rest):
        counted.append(name)
        return plain(self, name, *rest)

    monkeypatch.setattr(planned.PlannedCall, "run", run)
    return counted


def test_runs_plans_for_the_examples_shape_alone(eager, monkeypatch):
    model, x = network(), images()
    other = images(5)
    expected = gradients(copy.deepcopy(model), other)
    ucudnn.torch.convert(model, x, quiet=True)
    runs = runs_of(monkeypatch)
    gradients(model, x)
    assert len(runs) == 6
    assert close(gradients(model, other), expected)
    assert len(runs) == 6


def test_reverts(eager, monkeypatch):
    model, x = network(), images()
    attributes = [set(module.__dict__) for module in model]
    done = ucudnn.torch.convert(model, x, quiet=True)
    assert is_planned(model[0]) and is_planned(model[3])
    done.revert()
    assert [set(module.__dict__) for module in model] == attributes
    runs = runs_of(monkeypatch)
    gradients(model, x)
    assert not runs
    done.apply()
    gradients(model, x)
    assert len(runs) == 6


def with_graphs():
    """The tensors that hold an autograd graph."""
    return [
        one
        for one in gc.get_objects()
        if isinstance(one, torch.Tensor) and one.grad_fn is not None
    ]


def test_leaves_no_graph_behind(monkeypatch):
    # One would keep the parameters' accumulators on convert's stream, and so
    # break the capture of a CUDA graph, until Python collects garbage.
    monkeypatch.setattr(contest, "_LEAST_GAIN", -1e9)
    monkeypatch.setattr(contest, "_LEAST_SHARE", 0.0)
    model, x = network(), images().detach()
    gc.collect()
    gc.disable()
    try:
        others = with_graphs()  # of tests before
        done = ucudnn.torch.convert(model, x, quiet=True)
        known = {id(one) for one in others}
        left = [one for one in with_graphs() if id(one) not in known]
    finally:
        gc.enable()
    assert done.before is not None  # whole passes ran
    assert left == []


def test_can_be_done_again(eager):
    model, x = network(), images()
    first = ucudnn.torch.convert(model, x, quiet=True)
    for again in (x, images(2)):
        second = ucudnn.torch.convert(model, again, quiet=True)
        assert second.converted == first.converted
    second.revert()
    assert not is_planned(model[0])


def test_leaves_copies_and_pickles_plain(eager):
    model, x = network(), images()
    ucudnn.torch.convert(model, x, quiet=True)
    file = io.BytesIO()
    torch.save(model, file)
    pickled = pickle.dumps(model)
    assert b"ucudnn" not in file.getvalue() + pickled
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    for other in (copy.deepcopy(model), pickle.loads(pickled), loaded):
        assert set(other[0].__dict__) == set(network()[0].__dict__)
        assert close(gradients(other, x), gradients(model, x))
    assert not is_planned(copy.copy(model[0]))
    assert is_planned(model[0])


def test_computes_channels_last(eager, monkeypatch):
    model = network().to(memory_format=torch.channels_last)
    x = images().detach().contiguous(memory_format=torch.channels_last)
    x.requires_grad_()
    expected = gradients(copy.deepcopy(model), x)
    done = ucudnn.torch.convert(model, x, quiet=True)
    assert "NHWC" in str(done)
    runs = runs_of(monkeypatch)
    assert model(x).is_contiguous(memory_format=torch.channels_last)
    assert close(gradients(model, x), expected)
    assert runs


def test_plans_the_type_that_autocast_gives():
    model = network()
    with torch.autocast("cpu", torch.bfloat16):
        seen = record(model, [images()], {})
    assert [one.call.dtype for one in seen] == [torch.bfloat16] * 2
    assert seen[0].call.problem(FILTER) == (
        "backward_filter-c4-h9w8-k8-r3s3-pad1x2-str2x2-dil1x1-g1-BF16-NCHW"
    )


def test_runs_pytorchs_under_an_autocast_that_was_not_planned(eager, monkeypatch):
    model, x = network(), images()
    ucudnn.torch.convert(model, x, quiet=True)
    runs = runs_of(monkeypatch)
    with torch.autocast("cpu", torch.bfloat16):
        assert model[0](x).dtype == torch.bfloat16
    assert not runs


@pytest.mark.parametrize("operations", [
    (FORWARD,), (DATA,), (FILTER,), (FORWARD, DATA, FILTER), (),
])  # fmt: skip
def test_passes_gradcheck_whatever_is_planned(operations):
    torch.manual_seed(3)
    module = nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2)
    x = torch.randn(2, 2, 5, 4, requires_grad=True)
    (seen,) = record(module, [x], {})
    device = open_device(CPU)
    one = planned.PlannedCall(seen.call, {
        o: device.plan(seen.call.problem(o), 2, 1 << 20) for o in operations
    })  # fmt: skip

    def run(taken, weight, bias):
        return planned.convolve((one,), taken, weight, bias)

    inputs = (x, module.weight, module.bias)
    # The convolution is linear in each of them, so wide steps are exact.
    assert torch.autograd.gradcheck(run, inputs, eps=0.5, atol=1e-3, rtol=1e-3)
    assert torch.autograd.gradgradcheck(run, inputs, eps=0.5, atol=1e-2, rtol=1e-2)


def test_computes_three_dimensions(eager):
    torch.manual_seed(4)
    model = nn.Conv3d(2, 3, (1, 3, 2), padding=(0, 1, 1))
    x = torch.randn(2, 2, 3, 5, 4, requires_grad=True)
    expected = gradients(copy.deepcopy(model), x)
    done = ucudnn.torch.convert(model, x, quiet=True)
    assert done.converted == [""]
    assert close(gradients(model, x), expected)


class Own(nn.Conv2d):
    def forward(self, x):
        return super().forward(x) * 2


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.own = Own(4, 4, 3)
        self.reflecting = nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect")
        self.uneven = nn.Conv2d(4, 4, 2, padding="same")
        self.transposed = nn.ConvTranspose2d(4, 4, 3)
        self.flat = nn.Conv1d(4, 4, 3)
        self.exact = nn.Conv2d(4, 4, 3).double()
        self.plain = nn.Conv2d(4, 4, 3)

    def forward(self, x):
        x = self.transposed(self.uneven(self.reflecting(self.own(x))))
        x = self.flat(x.flatten(2)).unsqueeze(2)
        x = functional.conv2d(x, self.plain.weight[:, :, :1])
        return self.plain(self.exact(x.double().expand(-1, -1, 5, -1)).float())


def test_says_why_a_convolution_stays(eager):
    done = ucudnn.torch.convert(Odd(), images(), quiet=True)
    reasons = {layer.name: layer.why for layer in done.layers}
    assert reasons == {
        "own": "Own computes it in a way of its own",
        "reflecting": "it pads by 'reflect'",
        "uneven": "it pads its two sides differently",
        "transposed": "it is transposed",
        "flat": "it has 1 spatial dimension",
        "Odd": "it is called as a function",
        "exact": "its type is torch.float64",
        "plain": "",
    }
    assert done.converted == ["plain"]
    assert "own: stays PyTorch's: Own computes it" in str(done)


def test_keeps_pytorchs_where_no_plan_gains(monkeypatch, capsys):
    monkeypatch.setattr(contest, "_LEAST_GAIN", 2.0)
    model, x = network(), images()
    done = ucudnn.torch.convert(model, x)
    assert done.converted == [] and done.workspace == 0
    assert not is_planned(model[0])
    told = capsys.readouterr().out
    assert "stays PyTorch's: not faster beyond the noise (±" in told
    assert "the model stays PyTorch's: no plan is faster" in told


def test_keeps_pytorchs_if_the_whole_pass_is_slower(monkeypatch):
    monkeypatch.setattr(contest, "_LEAST_GAIN", -1e9)
    model, x = network(), images()
    real = ucudnn.torch.convolution.converting.times_of

    def slower(runs, device):
        told = real(runs, device)
        told["after"] = ucudnn.torch.timing.Time(1e6, 0.0)
        return told

    monkeypatch.setattr(ucudnn.torch.convolution.converting, "times_of", slower)
    done = ucudnn.torch.convert(model, x, quiet=True)
    assert done.converted == []
    assert not is_planned(model[0])
    assert "its whole pass is not faster" in str(done)
    assert model[1].num_batches_tracked == 0


def test_keeps_pytorchs_if_the_pass_fails_with_the_plans(monkeypatch):
    monkeypatch.setattr(contest, "_LEAST_GAIN", -1e9)
    model, x = network(), images()

    class Meets(nn.Module):
        def forward(self, x):
            if is_planned(model[0]):
                raise RuntimeError("met a plan")
            return x

    model.append(Meets())
    done = ucudnn.torch.convert(model, x, quiet=True)
    assert done.converted == [] and not is_planned(model[0])
    assert "its pass fails with the plans: met a plan" in str(done)


def test_raises_what_the_model_raises(monkeypatch):
    monkeypatch.setattr(contest, "_LEAST_GAIN", -1e9)
    model = network()
    model.append(nn.Linear(1, 1))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        ucudnn.torch.convert(model, images(), quiet=True)
    assert not is_planned(model[0])


def test_converts_for_graphs_what_the_host_would_slow_down(monkeypatch):
    monkeypatch.setattr(contest, "_LEAST_GAIN", -1e9)
    monkeypatch.setattr(
        ucudnn.torch.convolution.converting,
        "times_of",
        lambda runs, device: {
            "before": ucudnn.torch.timing.Time(1.0, 0.5),
            "after": ucudnn.torch.timing.Time(1.1, 0.5),
        },
    )
    model, x = network(), images()
    assert not ucudnn.torch.convert(model, x, quiet=True).converted
    done = ucudnn.torch.convert(model, x, graphs=True, quiet=True)
    assert done.converted and is_planned(model[0])
    assert done.after.ms == 1.1


@pytest.mark.parametrize("scale, told", [(1.1, "1.0e-01 off"), (1.01, "")])
def test_keeps_pytorchs_where_a_plans_result_is_wrong(
    eager, monkeypatch, scale, told
):
    plain = planned.PlannedCall.run

    def run(self, *rest):
        return plain(self, *rest).mul_(scale)

    monkeypatch.setattr(planned.PlannedCall, "run", run)
    model, x = network(), images()
    done = ucudnn.torch.convert(model, x, quiet=True)
    assert len(done.converted) == (0 if told else 2)
    if told:
        assert str(done).count(told) == 6


def test_keeps_pytorchs_where_a_plan_does_not_run(eager, monkeypatch):
    def run(self, *rest):
        raise ucudnn.Error("broken")

    monkeypatch.setattr(Convolution, "run", run)
    model, x = network(), images()
    done = ucudnn.torch.convert(model, x, quiet=True)
    assert done.converted == []
    assert str(done).count("the plan does not run: broken") == 6


def test_runs_pytorchs_where_a_plan_no_longer_does(eager, monkeypatch):
    model, x = network(), images()
    expected = gradients(copy.deepcopy(model), x)
    ucudnn.torch.convert(model, x, quiet=True)

    def run(self, *rest):
        raise ucudnn.Error("broken")

    monkeypatch.setattr(Convolution, "run", run)
    with pytest.warns(UserWarning, match="the plan does not run.*broken"):
        assert close(gradients(model, x), expected)


def test_runs_pytorchs_without_memory_for_a_workspace(eager, monkeypatch):
    model, x = network(), images()
    expected = gradients(copy.deepcopy(model), x)
    ucudnn.torch.convert(model, x, quiet=True)

    def run(self, *rest):
        raise torch.cuda.OutOfMemoryError("full")

    monkeypatch.setattr(Convolution, "run", run)
    assert close(gradients(model, x), expected)


def test_stops_planning_when_the_time_is_up():
    model, x = network(), images()
    done = ucudnn.torch.convert(model, x, seconds=0, quiet=True)
    assert done.converted == []
    assert {o.why for layer in done.layers for o in layer.operations} <= {
        "the time for planning is up", "it takes too little time to matter"
    }  # fmt: skip


def test_plans_equal_layers_even_after_the_time_is_up(eager, monkeypatch):
    clock = [0.0]
    plan = ucudnn.convolutions.ConvolutionDevice.plan

    def slow(self, *what):
        clock[0] += 10
        return plan(self, *what)

    monkeypatch.setattr(ucudnn.convolutions.ConvolutionDevice, "plan", slow)
    monkeypatch.setattr(contest.time, "monotonic", lambda: clock[0])
    model = nn.Sequential(*(nn.Conv2d(4, 4, 3, padding=1) for _ in range(2)))
    done = ucudnn.torch.convert(model, images(), seconds=5, quiet=True)
    planned_in = [
        {o.name for o in layer.operations if o.plan} for layer in done.layers
    ]
    assert len(planned_in[0]) == 1 and planned_in[0] == planned_in[1]


def test_plans_first_what_takes_most_in_all_its_layers():
    x = images()
    calls = [
        record(nn.Conv2d(4, 4, size, padding=size // 2), [x], {})[0].call
        for size in (3, 3, 5, 3, 1)
    ]
    operations = [
        (call, contest.Operation(FORWARD, Time(ms, 0.0)))
        for call, ms in zip(calls, (2.0, 2.0, 5.0, 2.0, 0.01))
    ]
    assert contest.worth_planning(operations) == [0, 1, 3, 2]
    assert operations[4][1].why == "it takes too little time to matter"
    # What exceeds a limit that is enforced comes before all.
    operations[2][1].over, operations[4][1].over = 1 << 20, 1 << 21
    assert contest.worth_planning(operations) == [4, 2, 0, 1, 3]


@pytest.fixture(params=["use_deterministic_algorithms", "cudnn.deterministic"])
def determinism(request):
    """Switches PyTorch's deterministic mode; off again at last."""

    def switch(on):
        if request.param == "cudnn.deterministic":
            torch.backends.cudnn.deterministic = on
        else:
            torch.use_deterministic_algorithms(on)

    yield switch
    switch(False)


def test_converts_nothing_where_algorithms_must_be_deterministic(
    determinism, monkeypatch
):
    monkeypatch.setattr(contest, "_LEAST_GAIN", -1e9)
    determinism(True)
    model, x = network(), images()
    done = ucudnn.torch.convert(model, x, quiet=True)
    assert done.converted == []
    assert not is_planned(model[0])
    why = "stays PyTorch's: PyTorch is set to deterministic algorithms"
    assert str(done).count(why) == 3  # two layers and the model


def test_runs_pytorchs_while_algorithms_must_be_deterministic(
    eager, determinism, monkeypatch
):
    model, x = network(), images()
    plain = copy.deepcopy(model)
    ucudnn.torch.convert(model, x, quiet=True)
    runs = runs_of(monkeypatch)
    determinism(True)
    assert close(gradients(model, x), gradients(plain, x))
    assert runs == []
    determinism(False)
    gradients(model, x)
    assert len(runs) == 6


def test_divides_a_total(eager):
    model, x = network(), images()
    done = ucudnn.torch.convert(model, x, total_workspace="1MiB", quiet=True)
    plans = [o.plan for layer in done.layers for o in layer.operations]
    assert all(plans) and sum(plan.workspace for plan in plans) <= 1 << 20


def test_plans_within_the_limit(eager):
    done = ucudnn.torch.convert(
        network(), images(), workspace_limit=0, quiet=True
    )
    assert done.workspace == 0


def test_refuses_what_it_cannot_do():
    model, x = network(), images()
    with pytest.raises(ucudnn.InvalidArgument, match="one of them is accepted"):
        ucudnn.torch.convert(model, x, workspace_limit=1, total_workspace=1)
    with pytest.raises(ucudnn.InvalidArgument, match="'much' is not a size"):
        ucudnn.torch.convert(model, x, workspace_limit="much")
    with pytest.raises(ucudnn.InvalidArgument, match="Linear that ran no"):
        ucudnn.torch.convert(nn.Linear(2, 2), torch.ones(1, 2))


def test_takes_time_into_account_once_for_equal_layers(monkeypatch):
    model = nn.Sequential(*(nn.Conv2d(4, 4, 3, padding=1) for _ in range(3)))
    planned_problems = []
    plan = ucudnn.convolutions.ConvolutionDevice.plan

    def counting(self, problem, batch, limit):
        planned_problems.append(problem)
        return plan(self, problem, batch, limit)

    monkeypatch.setattr(ucudnn.convolutions.ConvolutionDevice, "plan", counting)
    ucudnn.torch.convert(model, images(), quiet=True)
    assert len(planned_problems) == len(set(planned_problems)) <= 3


def test_says_what_the_library_refuses():
    device = ucudnn.convolutions.ConvolutionDevice.cpu(1)
    assert "onednn" in device.kind
    with pytest.raises(ucudnn.InvalidArgument, match="problem"):
        device.plan("nonsense", 1, 0)


def test_tells_pytorchs_and_planned_times_apart(monkeypatch):
    times = {"torch": Time(1.0, 0.01), "plan": Time(0.95, 0.02)}
    monkeypatch.setattr(contest, "times_of", lambda runs, *_, **__: times)
    monkeypatch.setattr(contest, "_LEAST_SHARE", 0.0)
    done = ucudnn.torch.convert(network(), images(), quiet=True)
    head, _, first, *_ = str(done).splitlines()
    assert first.startswith("  forward             1.000 ms    0.950 ms  stays")
    assert first.endswith("PyTorch's: not faster beyond the noise (±0.050 ms)")
    assert head.index("PyTorch") + 7 == first.index("1.000 ms") + 8
    assert head.endswith("planned") and len(head) == first.index("  stays")


class FullAfter:
    """Raises out-of-memory errors from the given run on."""

    def __init__(self, real, least=0):
        self.real, self.left = real, least

    def __call__(self, *args, **keywords):
        self.left -= 1
        if self.left < 0:
            raise torch.OutOfMemoryError("full")
        return self.real(*args, **keywords)


@pytest.mark.parametrize("owner, name, least, planned", [
    (contest, "_operands", 0, 0),
    (contest, "_operands", 8, 2),  # after PyTorch's six
    (contest, "_why_wrong", 0, 0),
    (converting, "record", 0, 0),
    (converting, "_backward", 0, 0),  # of PyTorch's pass
    (converting, "_backward", 10, 0),  # of a planned one
])  # fmt: skip
def test_leaves_what_memory_is_too_full_to_measure(
    owner, name, least, planned, eager, monkeypatch
):
    monkeypatch.setattr(converting, "_compare_passes", COMPARE_PASSES)
    monkeypatch.setattr(owner, name, FullAfter(getattr(owner, name), least))
    model, x = network(), images()
    plain = copy.deepcopy(model)
    done = ucudnn.torch.convert(model, x, graphs=True, quiet=True)
    assert "stays PyTorch's: out of memory while measuring" in str(done)
    found = [n for n, module in model.named_modules() if is_planned(module)]
    assert sorted(done.converted) == found
    runs = [o for layer in done.layers for o in layer.operations if o.plan and not o.why]
    assert len(runs) * bool(found) == planned
    assert same_state(model, plain)
    assert close(gradients(model, x), gradients(plain, x))


def same_state(model, plain):
    pairs = zip(model.state_dict().values(), plain.state_dict().values())
    return all(torch.equal(a, b) for a, b in pairs)


class Named(nn.Module):
    """A model with a child of this name, as wrappers have."""

    def __init__(self):
        super().__init__()
        self.module, self.last = nn.Conv2d(4, 4, 3), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        return self.last(self.module(x))


def test_sees_all_of_a_model_with_a_child_called_module(eager):
    done = ucudnn.torch.convert(Named(), images(), quiet=True)
    assert done.converted == ["module", "last"]
    assert ucudnn.torch.network(Named(), images()).count("\n") == 3


def test_sees_through_wrappers(eager):
    model = nn.DataParallel(Named())  # on the GPU, if there is one
    x = images().to(next(model.parameters()).device)
    done = ucudnn.torch.convert(
        torch.compile(model, backend="eager"), x, quiet=True)
    assert done.converted == ["module", "last"]


def test_refuses_lazy_modules_that_have_not_run(eager):
    model = nn.Sequential(nn.LazyConv2d(8, 3), nn.LazyBatchNorm2d())
    for call in (ucudnn.torch.convert, ucudnn.torch.network):
        with pytest.raises(ucudnn.InvalidArgument, match="0.weight: uninitialized"):
            call(model, images())
    with pytest.raises(ucudnn.InvalidArgument, match="0.weight: uninitialized"):
        ucudnn.torch.profile(lambda b: model(images(b)).sum().backward(), [1])
    model(images())
    assert ucudnn.torch.convert(model, images(), quiet=True).converted == ["0"]


def test_refuses_passes_that_wait_for_other_ranks(monkeypatch):
    model = nn.SyncBatchNorm.convert_sync_batchnorm(network())
    ranks = 2
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: ranks)
    with pytest.raises(ucudnn.InvalidArgument, match="1: a SyncBatchNorm, whose"):
        ucudnn.torch.convert(model, images(), quiet=True)
    ranks = 1
    ucudnn.torch.convert(network(), images(), seconds=0, quiet=True)


def test_leaves_convolutions_on_a_second_device():
    model, x = network(), images()
    seen = record(model, [x], {})
    layers = converting._layers(model, seen, torch.device("cuda", 1))
    assert {layer.why for layer in layers} == {
        "it runs on cpu, the model's first parameters on cuda:1"
    }
