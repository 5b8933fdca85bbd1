import copy
import pickle

import pytest
import torch
import ucudnn
import ucudnn.torch
from saved_steps import planned_of
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from ucudnn.convolutions import ConvolutionDevice
from ucudnn.torch.normalization import contest
from ucudnn.torch.normalization.calls import call_of
from ucudnn.torch.normalization.finding import find
from ucudnn.torch.normalization.fused import FusedNorm
from ucudnn.torch.normalization.pending import Pending

LAST = torch.channels_last


class ByPytorch(FusedNorm):
    """Computes with PyTorch what cuDNN would."""

    runs = 0
    error = None

    def forward(self, taken, addend, *others):
        if ByPytorch.error is not None:
            raise ByPytorch.error
        ByPytorch.runs += 1
        weight, bias, mean, var, momentum, eps = others
        out, mean, inverse = torch.native_batch_norm(
            taken, weight, bias, mean, var, True, momentum, eps
        )
        if addend is not None:
            out += addend
        mask = (out > 0).to(torch.uint8)
        return out.relu_(), mean, inverse, mask

    def backward(
        self, gradient, taken, weight, bias, mean, inverse, mask, eps
    ):
        gradient = gradient * mask
        told = torch.ops.aten.native_batch_norm_backward(
            gradient, taken, weight, None, None, mean, inverse, True, eps,
            [True, True, True],
        )  # fmt: skip
        return told[0], gradient if self.call.adds else None, *told[1:]


@pytest.fixture
def fusing(monkeypatch, eager):
    """CPUs fuse, and always gain by it; convolutions stay PyTorch's."""
    monkeypatch.setattr(ConvolutionDevice, "normalization", lambda *_: None)
    monkeypatch.setattr(contest, "FusedNorm", ByPytorch)
    monkeypatch.setattr(contest, "_LEAST_GAIN", -1e9)
    monkeypatch.setattr(ByPytorch, "runs", 0)
    monkeypatch.setattr(ByPytorch, "error", None)


@pytest.fixture(autouse=True)
def half():
    with torch.autocast("cpu", torch.bfloat16):
        yield


class Block(nn.Module):
    """Two normalizations, one with a sum behind it; what that is is up to
    `join`."""

    def __init__(self, join=None):
        super().__init__()
        self.first = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 1, bias=False)
        self.other = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.down = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))
        self.join = join or self._join

    def _join(self, out, x):
        out += x
        return self.relu(out)

    def forward(self, x):
        out = self.relu(self.norm(self.first(x)))
        return self.join(self.other(self.second(out)), self.down(x))


def network(join=None):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), Block(join))
    return model.to(memory_format=LAST)


def images(batch=2):
    torch.manual_seed(2)
    return torch.randn(batch, 3, 8, 8).contiguous(memory_format=LAST)


def convert(model, *example):
    return ucudnn.torch.convert(
        model, *(example or (images(),)), seconds=0, normalizations=True, quiet=True
    )


def trained(model, x, steps=2):
    """Losses, gradients and statistics."""
    told = []
    for _ in range(steps):
        model.zero_grad()
        loss = model(x).float().square().mean()
        loss.backward()
        told.append(loss.detach())
    return [
        *told, *(p.grad for p in model.parameters()), *(b for b in model.buffers())
    ]  # fmt: skip


def same(some, others):
    return all(
        a is b or torch.equal(a, b) for a, b in zip(some, others)
    )


def found(model, x=None):
    told = find(model, [images() if x is None else x], {})
    return {name: one.why or [c.adds for c in one.calls] for name, one in told.items()}


def test_finds_what_a_relu_follows():
    assert found(network()) == {
        "1": [False], "3.norm": [False], "3.other": [True],
        "3.down.1": "its result leaves 3.down",
    }  # fmt: skip


@pytest.mark.parametrize("join", [
    lambda out, x: functional.relu(out + x),
    lambda out, x: torch.relu(torch.add(x, out)),
    lambda out, x: (x + out).relu(),
    lambda out, x: out.add_(x).relu_(),
    lambda out, x: torch.relu_(out.add(x)),
])  # fmt: skip
def test_knows_the_forms_of_sums_and_relus(join, fusing):
    plain = network(join)
    model = copy.deepcopy(plain)
    assert convert(model).converted == ["1", "3.norm", "3.other"]
    assert same(trained(model, images()), trained(plain, images()))
    assert ByPytorch.runs >= 6


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return functional.silu(x.clone())

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@pytest.mark.parametrize("join, why", [
    (lambda out, x: functional.silu(out) + x, "silu uses its result"),
    (lambda out, x: functional.relu(out) + out, "its result leaves 3"),
    (lambda out, x: functional.relu(out) + functional.relu(out),
     "its result is used more than once"),
    (lambda out, x: functional.relu(torch.add(out, x, alpha=2)),
     "add uses its result"),
    (lambda out, x: functional.relu(x.add_(out)), "add_ uses its result"),
    (lambda out, x: functional.relu(out + x.float()), "add uses its result"),
    (lambda out, x: functional.relu(out + 1), "add uses its result"),
    (lambda out, x: functional.relu(out + x + x), "add uses its result"),
    (lambda out, x: torch.cat([out, x]).relu(), "cat uses its result"),
    (lambda out, x: checkpoint(functional.relu, out, use_reentrant=True) + x,
     "requires_grad uses its result where gradients are off"),
    (lambda out, x: torch.no_grad()(functional.relu)(out) + x,
     "relu uses its result where gradients are off"),
    (lambda out, x: Swish.apply(out) + x,
     "clone uses its result where gradients are off"),
    (lambda out, x: out, "its result leaves 3"),
])  # fmt: skip
def test_leaves_other_uses_alone(join, why, fusing):
    model = network(join)
    assert found(model)["3.other"] == why
    plain = copy.deepcopy(model)
    assert "3.other" not in convert(model).converted
    assert same(trained(model, images()), trained(plain, images()))


def changed(**attributes):
    model = network()
    for name, value in attributes.items():
        setattr(model[1], name, value)
    return model


def test_says_why_a_normalization_stays(monkeypatch):
    evaluated = network()
    evaluated[1].eval()
    replaced = network()
    replaced[1].forward = replaced[1].forward
    hooked = network()
    hooked[1].register_forward_hook(lambda *_: None)
    for model, why in (
        (evaluated, "it is in evaluation mode"),
        (hooked, "it has hooks"),
        (replaced, "its forward was replaced"),
        (changed(momentum=None), "it keeps no moving averages"),
        (changed(running_mean=None, running_var=None), "it keeps no moving averages"),
        (changed(weight=None), "it has no weight and bias"),
    ):  # fmt: skip
        assert found(model)["1"] == why
    with torch.autocast("cpu", enabled=False):
        assert found(network())["1"] == (
            "its input is neither channels first nor 16 bits and channels last"
        )
    assert found(network().double(), images().double())["1"] == (
        "its weight's type is torch.float64"
    )
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    assert "deterministic" in found(network())["1"]


class Scripted(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def after_norm(function):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
            self.function = function

        def forward(self, x):
            return self.function(self.norm(self.first(x)))

    return Model().to(memory_format=LAST)


def test_leaves_what_script_modules_use(fusing):
    model = after_norm(torch.jit.script(Scripted()))
    assert not convert(model).converted
    assert "uses its result" in found(model)["norm"]


def test_leaves_what_a_checkpoint_uses(fusing):
    model = after_norm(lambda x: checkpoint(torch.relu, x, use_reentrant=False))
    assert not convert(model).converted
    assert found(model)["norm"] == "a checkpoint begins or ends before its ReLU"


def test_is_left_alone_unless_asked_for(fusing):
    model = network()
    done = ucudnn.torch.convert(model, images(), seconds=0, quiet=True)
    assert done.norms == [] and type(model[1]) is nn.BatchNorm2d


def both():
    """A converted model, and what it was."""
    plain = network()
    model = copy.deepcopy(plain)
    assert convert(model).converted
    return model, plain


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_is_plain_where_gradients_are_off(mode, fusing):
    model, plain = both()
    before = ByPytorch.runs
    with mode():
        assert same([model(images())], [plain(images())])
        model[:2](images()), plain[:2](images())  # nobody reads the result
    assert same(model.buffers(), plain.buffers())
    assert ByPytorch.runs == before


def test_counts_a_result_that_nobody_reads(fusing):
    model, plain = both()
    model[:2](images()), plain[:2](images())
    assert same(model.buffers(), plain.buffers())


def test_is_plain_under_hooks(fusing):
    model, plain = both()
    kept = []
    for one in (model, plain):
        one[1].register_forward_hook(lambda m, i, out: kept.append(out))
        optimizer = torch.optim.SGD(one.parameters(), lr=0.5)
        one(images()).float().square().mean().backward()
        optimizer.step()
    assert same([kept[0].detach()], [kept[1].detach()])


def test_refuses_what_a_hook_kept_once_weights_changed(fusing):
    model, _ = both()
    model[2].inplace = False
    kept = []
    model[2].register_forward_hook(lambda m, inputs, out: kept.append(inputs[0]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model(images()).float().square().mean().backward()
    optimizer.step()
    with pytest.raises(RuntimeError, match="the weight of a fused.*revert"):
        kept[0] * 1


@pytest.mark.parametrize("hooked", [
    lambda model: model[2].register_full_backward_hook(lambda *_: None),
    lambda model: model[2].register_forward_hook(
        lambda m, inputs, out: Swish.apply(inputs[0])),
])  # fmt: skip
def test_refuses_what_would_lose_its_gradient(hooked, fusing):
    model, _ = both()
    hooked(model)
    with pytest.raises(RuntimeError, match="where gradients are off; revert"):
        model(images())


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("end", [2, 3])
def test_gives_gradients_under_checkpoints_switched_on_later(end, reentrant, fusing):
    told = []
    for one in both():
        x = images().requires_grad_()
        x = checkpoint(one[:end], x, use_reentrant=reentrant)
        one[end:](x).float().square().mean().backward()
        told.append([*(p.grad for p in one.parameters()), *one.buffers()])
    assert same(*told)


@pytest.mark.parametrize("reentrant", [False, True])
def test_refuses_a_relu_in_a_checkpoint_of_its_own(reentrant, fusing):
    model, _ = both()
    out = model[:2](images())
    with pytest.raises(RuntimeError, match="revert"):
        checkpoint(model[2:], out, use_reentrant=reentrant)


def test_leaves_no_trace_of_looking():
    model = network()
    found(model)
    assert type(model[1]) is nn.BatchNorm2d
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert "_ucudnn_norm" not in model[1].__dict__
    before = copy.deepcopy(model.state_dict())
    convert(model)
    assert same(before.values(), model.state_dict().values())


def test_cpus_do_not_fuse():
    done = convert(network())
    assert done.converted == []
    assert str(done).count("only GPUs fuse normalizations") == 3
    assert "3.down.1: PyTorch's: its result leaves 3.down" in str(done)


def test_computes_what_the_model_did(fusing):
    plain = network()
    model = copy.deepcopy(plain)
    statistics = copy.deepcopy(model.state_dict())
    done = convert(model)
    assert done.converted == ["1", "3.norm", "3.other"]
    assert same(statistics.values(), model.state_dict().values())
    assert list(statistics) == list(model.state_dict())
    assert isinstance(model[1], nn.BatchNorm2d)
    before = ByPytorch.runs
    assert same(trained(model, images()), trained(plain, images()))
    assert ByPytorch.runs == before + 6
    assert "ms  fused" in str(done)


def test_is_plain_for_other_shapes_and_in_evaluation(fusing):
    plain = network()
    model = copy.deepcopy(plain)
    convert(model)
    before = ByPytorch.runs
    assert same(trained(model, images(3)), trained(plain, images(3)))
    model.eval(), plain.eval()
    assert same([model(images())], [plain(images())])
    assert ByPytorch.runs == before


def test_reverts_and_applies_again(fusing):
    model = network()
    done = convert(model)
    done.revert()
    assert type(model[1]) is nn.BatchNorm2d and "_ucudnn_norm" not in model[1].__dict__
    before = ByPytorch.runs
    trained(model, images())
    assert ByPytorch.runs == before
    done.apply()
    trained(model, images(), 1)
    assert ByPytorch.runs == before + 3
    assert convert(model).converted == done.converted


def test_leaves_copies_and_pickles_plain(fusing):
    model = network()
    convert(model)
    pickled = pickle.dumps(model)
    assert b"ucudnn" not in pickled
    for other in (copy.deepcopy(model), pickle.loads(pickled)):
        assert type(other[1]) is nn.BatchNorm2d
        assert same(trained(other, images()), trained(copy.deepcopy(model), images()))


def test_is_plain_in_a_checkpointed_block(fusing):
    plain = network()
    model = copy.deepcopy(plain)
    convert(model)

    def through(model):
        def forward(x):
            x = checkpoint(model[:3], x, use_reentrant=False)
            return checkpoint(model[3], x, use_reentrant=False)

        return trained_by(forward, model)

    def trained_by(forward, model):
        forward(images().requires_grad_()).float().square().mean().backward()
        return [p.grad for p in model.parameters()]

    before = ByPytorch.runs
    assert same(through(model), through(plain))
    assert ByPytorch.runs == before


def waiting(model):
    """What a normalization returns, the same of PyTorch's, and its input."""
    x = model[0](images())
    return model[1](x), copy.deepcopy(model)[1](x), x


def test_what_it_returns_is_a_tensor_for_all_others(fusing):
    model = network()
    convert(model)
    out, expected, x = waiting(model)
    assert isinstance(out, Pending) and out.shape == x.shape and out.dtype == x.dtype
    assert torch.equal(out.mean((0, 2, 3)), expected.mean((0, 2, 3)))
    assert out.requires_grad and torch.equal(out.detach(), expected.detach())
    assert torch.equal(torch.stack([out, out])[1], expected)


def test_counts_statistics_once_however_often_it_is_used(fusing):
    model = network()
    convert(model)
    plain = copy.deepcopy(model)
    out, _, x = waiting(model)
    expected = plain[1](x)
    some = [functional.relu(out), functional.relu(out), out + 1]
    assert same(some, [expected.relu(), expected.relu(), expected + 1])
    assert same(model[1].buffers(), plain[1].buffers())


def test_operators_in_place_are_seen_through_other_names(fusing):
    model = network()
    convert(model)
    out, expected, x = waiting(model)
    name = out
    out += x
    functional.relu(out, inplace=True)
    assert torch.equal(name * 1, (expected + x).relu())


def test_refuses_operands_that_changed_meanwhile(fusing):
    model = network()
    convert(model)
    out, _, x = waiting(model)
    with torch.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="the input of a fused.*changed"):
        functional.relu(out)
    out, _, x = waiting(model)
    addend = torch.ones_like(x)
    out += addend
    addend.mul_(2)
    with pytest.raises(RuntimeError, match="what was added to a fused.*revert"):
        functional.relu(out)


def test_runs_pytorchs_where_the_fused_one_no_longer_does(fusing, monkeypatch):
    plain = network()
    model = copy.deepcopy(plain)
    convert(model)
    monkeypatch.setattr(ByPytorch, "error", ucudnn.Error("broken"))
    with pytest.warns(UserWarning, match="does not run, PyTorch's does: broken"):
        assert same(trained(model, images()), trained(plain, images()))


def test_stays_where_it_is_not_faster_or_wrong(fusing, monkeypatch):
    monkeypatch.setattr(contest, "_LEAST_GAIN", 2.0)
    assert str(convert(network())).count("stays PyTorch's: fused it is not faster") == 3
    forward = ByPytorch.forward
    monkeypatch.setattr(
        ByPytorch, "forward",
        lambda self, *rest: (forward(self, *rest)[0] * 2, *forward(self, *rest)[1:]),
    )  # fmt: skip
    assert str(convert(network())).count("off PyTorch's") == 3
    monkeypatch.setattr(ByPytorch, "error", ucudnn.Error("not supported"))
    assert str(convert(network())).count("stays PyTorch's: not supported") == 3


def test_is_plain_for_tracers(fusing):
    model = network()
    convert(model)
    before = ByPytorch.runs
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        traced = torch.jit.trace(model, images(), check_trace=False)
    assert ByPytorch.runs == before
    assert "PythonOp" not in str(traced.inlined_graph)


def test_fuses_float32_channels_first(fusing, monkeypatch):
    prepared = []
    monkeypatch.setattr(contest, "PlaneNorm", prepared.append)
    first = torch.contiguous_format
    plain = network().to(memory_format=first)
    model, x = copy.deepcopy(plain), images().contiguous()
    with torch.autocast("cpu", enabled=False):
        done = convert(model, x)
        assert len(done._fused) == 3 and len(prepared) == 2
        assert str(prepared[0]) == "2x4x6x6, FLOAT NCHW, with ReLU"
        ByPytorch.runs = 0
        told, expected = trained(model, x), trained(plain, x)
        assert ByPytorch.runs == 6
    for some, other in zip(told, expected):
        assert torch.allclose(some.float(), other.float(), atol=1e-6)


@pytest.mark.parametrize("adds", [False, True])
def test_hands_cudnn_what_it_asks_for(adds):
    class Prepared:
        forward_workspace, backward_workspace = 3, 5
        reserve = 7 if adds else 0

        def forward(self, stream, operands, workspace):
            self.taken = stream, operands

        backward = forward

    prepared = Prepared()
    x, z, gradient = (images().bfloat16() for _ in range(3))
    weight, bias, mean, var = (torch.rand(3) for _ in range(4))
    fused = FusedNorm(call_of(x, adds), prepared)
    out, means, inverses, reserve = fused.forward(
        x, z if adds else None, weight, bias, mean, var, 0.25, 1e-3
    )
    stream, told = prepared.taken
    assert (stream, told.momentum, told.epsilon) == (0, 0.25, 1e-3)
    assert told.z == (z.data_ptr() if adds else None)
    for address, tensor in (
        (told.x, x), (told.scale, weight), (told.bias, bias), (told.y, out),
        (told.running_mean, mean), (told.running_variance, var),
        (told.mean, means), (told.inverse_deviation, inverses),
    ):  # fmt: skip
        assert address == tensor.data_ptr()
    assert told.reserve == (reserve.data_ptr() or None)
    assert out.is_contiguous(memory_format=LAST) and reserve.numel() == prepared.reserve
    gradients = fused.backward(
        gradient, x, weight, bias, means, inverses, reserve if adds else None, 1e-3
    )
    told = prepared.taken[1]
    assert (told.x, told.dy) == (x.data_ptr(), gradient.data_ptr())
    assert told.epsilon == 1e-3 and told.reserve == (reserve.data_ptr() or None)
    assert [told.dx, told.dz, told.dscale, told.dbias] == [
        None if one is None else one.data_ptr() for one in gradients
    ]


@pytest.mark.parametrize("frozen", [False, True])
def test_is_differentiated_twice(frozen, fusing):
    plain = network()
    plain[3].other.weight.requires_grad_(not frozen)
    model = copy.deepcopy(plain)
    convert(model)

    def twice(model):
        x = images().requires_grad_()
        out = model(x).float().square().sum()
        (gradient,) = torch.autograd.grad(out, x, create_graph=True)
        gradient.square().sum().backward()
        return [p.grad for p in model.parameters()]

    for some, other in zip(twice(model), twice(plain)):
        if other is not None:
            off = float((some - other).norm() / other.norm())
            assert off < 0.05


def test_memory_plans_compute_it_again(fusing):
    model = nn.Sequential(network(), Block(), Block(), nn.Conv2d(4, 4, 1)).to(
        memory_format=LAST
    )
    x = images(8)

    def step():
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            loss = model(x).float().square().mean()
        loss.backward()
        return loss.detach()

    convert(model, x)
    step()
    plain = [p.grad.clone() for p in model.parameters()]
    plan = planned_of(step, share=0.8, allow="recompute")
    assert plan.recomputed
    before = ByPytorch.runs
    plan()
    assert ByPytorch.runs == before + 7
    for p, expected in zip(model.parameters(), plain):
        most = 0.02 * float(expected.abs().max())
        assert torch.allclose(p.grad, expected, rtol=0.05, atol=most)
