"""Converted models under whoever looks at PyTorch's operators or at classes."""

import pytest

import torch

import copy
import io

import ucudnn.torch
from torch import nn
from torch.ao import quantization
from torch.autograd import forward_ad
from torch.nn.utils import parametrizations, parametrize
from torch.utils.flop_counter import FlopCounterMode
from ucudnn.torch.convolution import planned
from ucudnn.torch.convolution.swapping import planned_in, take


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch, eager):
    monkeypatch.setenv("UCUDNN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ucudnn.torch.convolution.converting, "_devices", {})


@pytest.fixture
def runs(monkeypatch):
    """The plans that ran."""
    counted = []
    plain = planned.PlannedCall.run

    def run(self, name, *rest):
        counted.append(name)
        return plain(self, name, *rest)

    monkeypatch.setattr(planned.PlannedCall, "run", run)
    return counted


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.head = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        return self.head(self.relu(self.bn(self.conv(x))))


def images():
    torch.manual_seed(2)
    return torch.randn(2, 3, 6, 6)


@pytest.fixture
def both(runs):
    """A converted model, and what it was."""
    torch.manual_seed(1)
    plain = Net()
    model = copy.deepcopy(plain)
    assert ucudnn.torch.convert(model, images(), quiet=True).converted == [
        "conv", "head"
    ]  # fmt: skip
    runs.clear()
    return model, plain


def close(some, other):
    return torch.allclose(some, other, atol=1e-5)


def gradients(model):
    model.zero_grad()
    model(images()).square().sum().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def test_keeps_classes(both):
    assert [type(m) for m in both[0].modules()] == [type(m) for m in both[1].modules()]
    assert str(both[0]) == str(both[1])
    assert both[0].state_dict().keys() == both[1].state_dict().keys()


@pytest.mark.parametrize("export", [
    lambda model: torch.jit.trace(model, images(), check_trace=False),
    torch.jit.script,
    lambda model: torch.export.export(model, (images(),)).module(),
    lambda model: torch.export.export(model, (images(),), strict=True).module(),
    torch.fx.symbolic_trace,
])  # fmt: skip
def test_exports_pytorchs_convolution(export, both, runs):
    model, plain = both[0].eval(), both[1].eval()
    exported = export(model)
    if isinstance(exported, torch.jit.ScriptModule):
        file = io.BytesIO()
        torch.jit.save(exported, file)
        assert b"ucudnn" not in file.getvalue()
        assert "PythonOp" not in str(exported.inlined_graph)
    else:
        assert "ucudnn" not in exported.code
    assert runs == []
    assert close(exported(images()), plain(images()))


def test_is_compiled_with_its_plans(both, runs):
    model, plain = both
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert close(gradients(compiled), gradients(plain))
    # Forward and filter gradients of both, and the data gradient of the second.
    assert len(runs) == 5


def test_tools_find_what_they_look_up(both):
    told = []
    for model in both:
        model.eval()
        fused = quantization.fuse_modules(model, [["conv", "bn", "relu"]])
        model.train()
        model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
        quantization.prepare_qat(model, inplace=True)
        told.append([
            (name, type(m)) for one in (fused, model) for name, m in one.named_modules()
        ])  # fmt: skip
    assert told[0] == told[1]


def counted(model):
    with FlopCounterMode(display=False) as counter:
        model(images()).sum().backward()
    return counter.get_total_flops()


def dual(model):
    with forward_ad.dual_level():
        x = forward_ad.make_dual(images(), torch.ones_like(images()))
        return forward_ad.unpack_dual(model(x)).tangent


def batched(model):
    parameters = list(model.parameters())
    out = model(images()).sum((0, 2, 3))
    return torch.autograd.grad(out, parameters, torch.eye(2), is_grads_batched=True)[0]


def by_functorch(transform):
    def run(model):
        model.eval()
        state = dict(model.named_parameters())

        def loss(state, x):
            return torch.func.functional_call(model, state, (x,)).square().sum()

        if transform is torch.func.jvp:
            return transform(model, (images(),), (torch.ones_like(images()),))[1]
        if transform is torch.vmap:
            return transform(model)(images()[None])
        return transform(loss)(state, images())["conv.weight"]

    return run


def compiled(run):
    return lambda model: torch.compile(lambda: run(model), backend="aot_eager")()


@pytest.mark.parametrize("run", [
    lambda model: torch.tensor(counted(model)),
    compiled(by_functorch(torch.func.grad)),
    pytest.param(
        compiled(by_functorch(torch.func.jvp)),
        marks=pytest.mark.skipif(
            torch.__version__ < "2.13", reason="PyTorch cannot, of a plain model")),
    compiled(by_functorch(torch.vmap)),
    dual,
    batched,
    lambda model: torch.autograd.functional.jacobian(
        lambda x: model(x).sum(0), images(), vectorize=True),
    by_functorch(torch.func.grad),
    by_functorch(torch.func.jacrev),
    by_functorch(torch.func.jvp),
    by_functorch(torch.vmap),
])  # fmt: skip
def test_is_pytorchs_for_transformations(run, both):
    assert close(run(both[0]), run(both[1]))


class Sub(torch.Tensor):
    """Somebody's weight type, whose operators must be seen."""

    seen = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Sub.seen += func is nn.functional.conv2d
        return super().__torch_function__(func, types, args, kwargs)


def test_is_pytorchs_for_other_types_of_tensors(both, runs, monkeypatch):
    model, _ = both
    monkeypatch.setattr(Sub, "seen", 0)
    expected = model.conv(images())
    runs.clear()
    weight, bias = model.conv.weight, model.conv.bias
    for name in ("weight", "bias"):
        model.conv.weight, model.conv.bias = weight, bias
        sub = getattr(model.conv, name).detach().as_subclass(Sub)
        setattr(model.conv, name, nn.Parameter(sub))
        assert close(model.conv(images()), expected)
    model.conv.bias = bias
    model.conv(images().as_subclass(Sub))
    assert Sub.seen == 3 and runs == []


def test_is_pytorchs_for_negated_views(both, runs):
    x = torch._neg_view(images())
    assert close(both[0].conv(x), both[1].conv(x)) and runs == []


@pytest.mark.parametrize("autocast, types", [
    (False, (torch.float32, torch.float64)), (False, (torch.float64, torch.float32)),
    (True, (torch.float64, torch.float32)),
])  # fmt: skip
def test_raises_pytorchs_errors_about_types(autocast, types, both):
    model, _ = both
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        if autocast:  # converts nothing on a CPU that does not know BF16
            ucudnn.torch.convert(model, images(), quiet=True)
        taken, bias = types
        model.conv.bias = nn.Parameter(model.conv.bias.to(bias))
        with pytest.raises(RuntimeError, match="type"):
            model.conv(images().to(taken))


def test_replicas_on_other_devices_are_pytorchs(both, runs):
    # As DataParallel makes them; meta tensors stand for another GPU's.
    replica = both[0].conv._replicate_for_data_parallel()
    replica.weight, replica.bias = (
        t.detach().to("meta") for t in (both[0].conv.weight, both[0].conv.bias)
    )
    assert replica(images().to("meta")).device.type == "meta"
    assert runs == []


def test_follows_changed_hyperparameters(both, runs):
    for model in both:
        model.conv.stride = (2, 2)
        model.head.padding_mode = "reflect"
    assert close(both[0](images()), both[1](images())) and runs == []


def test_does_not_apply_plans_to_a_changed_module(both):
    model, _ = both
    done = ucudnn.torch.convert(model, images(), quiet=True)
    done.revert()
    model.head.stride = (2, 2)
    with pytest.raises(ucudnn.InvalidArgument, match="Conv2d.*changed since it was pl"):
        done.apply()


class Standardized(nn.Conv2d):
    def _conv_forward(self, taken, weight, bias):
        return super()._conv_forward(taken, weight - weight.mean(), bias)


def test_follows_a_changed_class(both, runs):
    for model in both:
        model.conv.__class__ = Standardized
        model.head.__class__ = Standardized
    assert close(both[0](images()), both[1](images())) and runs == []


def test_plans_parametrized_weights(both, runs):
    model, plain = both
    for one in both:
        parametrizations.weight_norm(one.conv)
    assert close(gradients(model), gradients(plain)) and len(runs) == 5
    other = copy.deepcopy(model)
    assert close(gradients(other), gradients(plain))
    take(model.conv), take(model.head)
    assert parametrize.is_parametrized(model.conv)
    runs.clear()
    assert close(gradients(model), gradients(plain)) and runs == []


def test_runs_under_hooks(both, runs):
    told = ([], [])
    for model, kept in zip(both, told):
        model.conv.register_full_backward_hook(
            lambda module, taken, given, kept=kept: kept.append(given[0])
        )
        model.head.register_forward_pre_hook(
            lambda module, taken, kept=kept: kept.append(taken[0])
        )
    assert close(gradients(both[0]), gradients(both[1])) and len(runs) == 5
    assert all(close(a, b) for a, b in zip(*told))


def test_frees_a_model_at_once(both):
    assert planned_in(both[0].conv)._module() is both[0].conv
    module = planned_in(both[0].conv)
    del both[0].conv
    assert module._module() is None
    with pytest.raises(RuntimeError, match="copy.deepcopy of a converted module"):
        module(images(), None, None)
