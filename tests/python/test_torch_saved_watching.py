import pytest
import torch
import ucudnn
import ucudnn.torch
from torch import nn
from torch.autograd import grad
from torch.utils.checkpoint import checkpoint

from saved_steps import data, loss_of, network, planned_of, refused, settled, stepping


def gradients(model, backward):
    def step(x, y):
        model.zero_grad()
        torch.manual_seed(5)
        backward(loss_of(model, x, y))
        return [p.grad.clone() for p in model.parameters()]

    return step


def test_plans_graphs_that_are_kept():
    """One of two backward passes takes the graph that the first has kept."""

    def backward(loss):
        loss.backward(retain_graph=True)
        loss.backward()

    model = network()
    step = gradients(model, backward)
    plan = planned_of(step, *data(), share=0.7, allow="offload")
    expected = step(*data())
    assert plan.moved and all(map(torch.allclose, plan(*data()), expected))
    assert not plan.unlike


@pytest.mark.parametrize("plans", [False, True])
def test_refuses_graphs_that_are_differentiated_twice(plans):
    """Whoever begins the backward pass."""
    model = network()
    twice = [not plans]

    def backward(loss):
        parameters = list(model.parameters())
        found = grad(loss, parameters, create_graph=twice[0])
        if twice[0]:
            sum(one.square().sum() for one in found).backward()
        for parameter, one in zip(parameters, found):
            parameter.grad = one.detach()

    step = gradients(model, backward)
    if not plans:
        assert "without double backward" in refused(step, *data())
        return
    plan = planned_of(step, *data(), share=0.7, allow="offload")
    twice[0] = True
    with pytest.raises(ucudnn.InvalidArgument, match="without double backward"):
        plan(*data())


def test_refuses_backward_passes_after_the_step():
    model = network()
    with ucudnn.torch.memory(budget="1GiB", quiet=True):
        loss = loss_of(model, *data())
    with pytest.raises(ucudnn.InvalidArgument, match="after it has ended"):
        loss.backward()


@pytest.mark.parametrize("hooks", [
    torch.autograd.graph.save_on_cpu,
    lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
])  # fmt: skip
def test_leaves_what_is_under_hooks_within_the_step(hooks):
    model = network()

    def step(x, y):
        model.zero_grad()
        torch.manual_seed(5)
        x = model[:5](x)
        with hooks():
            x = model[5](x)
        nn.functional.cross_entropy(model[6:](x), y).backward()
        return [p.grad.clone() for p in model.parameters()]

    plan = planned_of(step, *data(), share=0.7)
    expected = step(*data())
    for _ in range(2):
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(plan(*data()), expected))


def test_plans_steps_with_checkpoints():
    model = network()

    def step(x, y):
        model.zero_grad()
        torch.manual_seed(5)
        x = checkpoint(model[:5], x, use_reentrant=False)
        nn.functional.cross_entropy(model[5:](x), y).backward()
        return [p.grad.clone() for p in model.parameters()]

    plan = planned_of(step, *data(), share=0.7)
    expected = step(*data())
    for _ in range(2):
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(plan(*data()), expected))


def test_refuses_hooks_around_the_step():
    step = stepping(network())
    plan = settled(step, *data(), budget="1GiB", quiet=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        with pytest.raises(ucudnn.InvalidArgument, match="other hooks are active"):
            plan(*data())
    plan(*data())


def test_leaves_steps_without_a_backward_pass():
    model = network().eval()
    run = ucudnn.torch.memory(lambda x: model(x), budget="1GiB", quiet=True)
    for _ in range(4):
        assert torch.equal(run(data()[0]), model(data()[0]))
    with torch.no_grad():
        assert torch.equal(run(data()[0]), model(data()[0]))
    assert run.plan is None


def test_plans_models_that_call_compiled_functions():
    """Whatever their compiler saves is planned, or the step is refused."""
    compiled = torch.compile(
        lambda x: nn.functional.gelu(x) * torch.sigmoid(x), backend="aot_eager"
    )

    class Gated(nn.Module):
        def forward(self, x):
            return compiled(x)

    def made():
        torch.manual_seed(1)
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), Gated(), nn.Conv2d(8, 10, 3),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip

        def step(x, y):
            model.zero_grad()
            loss_of(model, x, y).backward()
            return [p.grad.clone() for p in model.parameters()]

        return step

    step = made()
    try:
        plan = planned_of(step, *data(), share=0.7)
    except ucudnn.InvalidArgument as error:
        assert "memory: the step" in str(error)
        return
    expected = made()
    for _ in range(3):
        for some, other in zip(plan(*data()), expected(*data())):
            assert torch.allclose(some, other, atol=1e-5)
