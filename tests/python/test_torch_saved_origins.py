"""What is computed again is what the step has made in this call, or refused."""

import pytest

import torch

import ucudnn
import ucudnn.torch
from saved_steps import planned_of
from torch import nn
from torch.nn import functional as F


def layers(*first):
    torch.manual_seed(1)
    return nn.Sequential(
        *first, nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
        nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.LeakyReLU(0.1),
        nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5),
    )  # fmt: skip


def batch(seed, **options):
    torch.manual_seed(seed)
    x = torch.randn(8, 3, 32, 32) * (1 + seed) + seed
    return x.requires_grad_(**options), torch.randint(0, 5, (8,))


def gradients(model, forward=None):
    """A step that returns them."""
    forward = forward or model

    def step(x, y):
        model.zero_grad()
        F.cross_entropy(forward(x), y).backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    return step


def again(step, *example):
    """A plan that computes much again."""
    plan = planned_of(step, *example, share=0.01, allow="recompute")
    assert plan.recomputed
    return plan


def close(some, others):
    return all(torch.allclose(a, b, atol=1e-5, rtol=1e-4) for a, b in zip(some, others))


def test_takes_no_argument_for_a_parameter():
    model = layers(nn.BatchNorm2d(3))
    step = gradients(model)
    plan = again(step, *batch(1))
    assert close(plan(*batch(7)), step(*batch(7)))


@pytest.mark.parametrize("change", [
    lambda model: model.load_state_dict(layers().state_dict(), assign=True),
    lambda model: setattr(model[1], "bias", nn.Parameter(torch.ones(4))),
    lambda model: model.__setitem__(4, nn.BatchNorm2d(4)),
    lambda model: setattr(model[5], "negative_slope", 0.2),
    lambda model: model[1].eval(),
    lambda model: model[1].requires_grad_(False),
])  # fmt: skip
def test_follows_models_that_were_changed_since(change):
    """Within the step that is the first to differ, and by a new plan."""
    model = layers()
    step = gradients(model)
    plan = again(step, *batch(1, requires_grad=False))
    plan(*batch(2, requires_grad=False))
    change(model)
    told = []
    for _ in range(5):
        expected = step(*batch(2, requires_grad=False))
        assert close(plan(*batch(2, requires_grad=False)), expected)
        told.append(plan.unlike)
    assert told[0] and told[1:] == 4 * [""] and plan.settled


def test_follows_parameters_that_change_between_steps():
    model = layers()
    step = gradients(model)
    plan = again(step, *batch(1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    assert close(plan(*batch(2)), step(*batch(2)))


def test_refuses_parameters_that_change_between_forward_and_backward():
    """The second part of a batch, after an update by the first; PyTorch does not save
    biases, and takes it."""
    model = layers()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.endswith("bias") or parameter.dim() == 4)
    amount = [None]

    def step(x, y):
        model.zero_grad()
        one, two = (F.cross_entropy(model(z), y) for z in (x, x * 1.5))
        one.backward()
        if amount[0] is not None:
            with torch.no_grad():
                model[1].bias.add_(amount[0])
        two.backward()

    plan = again(step, *batch(1, requires_grad=False))
    plan(*batch(2, requires_grad=False))
    amount[0] = 5.0
    with pytest.raises(ucudnn.InvalidArgument, match="changes a parameter in place"):
        plan(*batch(2, requires_grad=False))


@pytest.mark.parametrize("scaled", [
    lambda x, by: x * by, lambda x, by: x + by, lambda x, by: x / by,
    lambda x, by: F.leaky_relu(x, by / 10),
    lambda x, by: F.hardtanh(x, -by, by),
    lambda x, by: F.pad(x, (1, 1, 1, 1), value=by),
    lambda x, by: torch.sigmoid(x)[..., int(by):int(by) + 16] + x[..., :16],
    lambda x, by: x[..., int(by):int(by) + 16].clone() + x[..., :16],
])  # fmt: skip
def test_takes_no_number_of_the_recording_for_that_of_a_call(scaled):
    """A factor that warms up, a slope, a random crop."""
    model = layers()
    by = [1.0]

    def forward(x):
        for layer in model[:4]:
            x = layer(x)
        for layer in model[4:]:
            x = scaled(layer(x), by[0]) if layer is model[4] else layer(x)
        return x

    step = gradients(model, forward)
    plan = again(step, *batch(1))
    assert close(plan(*batch(2)), step(*batch(2)))
    by[0] = 3.0
    for _ in range(2):
        expected = step(*batch(2))
        assert close(plan(*batch(2)), expected)


def test_computes_nothing_again_by_numbers_that_vary_while_recording():
    model = layers()
    drawn = iter(range(1, 1000))

    def forward(x):
        x = F.leaky_relu(model[:5](x), 1 / next(drawn))
        return model[6:](x)

    step = gradients(model, forward)
    plan = again(step, *batch(1))
    drawn = iter([7, 7])
    assert close(plan(*batch(2)), step(*batch(2)))


def test_looks_at_functions_with_numbers_of_their_own():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, by):
            ctx.by = by
            return x.mul(by)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.by, None

    model = layers()
    by = [1.0]

    def forward(x):
        x = model[:5](x)
        return model[6:](F.relu(Scaled.apply(x, by[0])))

    step = gradients(model, forward)
    plan = again(step, *batch(1))
    by[0] = -2.0
    assert close(plan(*batch(2)), step(*batch(2)))
