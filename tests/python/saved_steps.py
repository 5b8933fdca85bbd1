"""A small model, its training steps, and their plans of ucudnn.torch.memory."""

import pytest
import torch
import ucudnn
import ucudnn.torch
from torch import nn

from ucudnn.torch.kept import stateful, unchanged


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.other = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.relu(self.norm(self.first(x)))
        out = self.other(self.second(out))
        out += x
        return self.relu(out)


def network():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.MaxPool2d(2), Block(8), Block(8), nn.Dropout(0.1),
        nn.Conv2d(8, 8, 1), nn.Sigmoid(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
    )  # fmt: skip


def data(batch=8):
    torch.manual_seed(2)
    return torch.randn(batch, 3, 16, 16), torch.randint(0, 10, (batch,))


def loss_of(model, x, y):
    return nn.functional.cross_entropy(model(x), y)


def stepping(model, parts=1):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        for images, labels in zip(x.chunk(parts), y.chunk(parts)):
            loss = loss_of(model, images, labels)
            loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def trained(step, model, steps=3):
    torch.manual_seed(3)
    losses = [float(step(*data())) for _ in range(steps)]
    return [torch.tensor(losses), *model.state_dict().values()]


def settled(step, *example, keep=(), **options):
    """A step that is planned, by calls after which all is as before."""
    run = ucudnn.torch.memory(step, *example, keep=keep, **options)
    with unchanged(stateful(step, keep), torch.device("cpu")):
        for _ in range(12):
            run(*example)
            if run.settled:
                return run
    raise AssertionError(f"it is not settled: {run.unlike or run}")


def planned(share, allow=("offload", "recompute"), parts=1, **options):
    """A model, and its step's plan within a share of the plain peak."""
    model = network()
    step = stepping(model, parts)
    whole = settled(step, *data(), budget="1GiB", quiet=True)
    return model, settled(
        step, *data(), budget=int(whole.plain_peak * share), allow=allow,
        quiet=True, **options,
    )  # fmt: skip


def refused(step, *arguments, **options):
    """Why there is no plan for the step."""
    options.setdefault("budget", "1GiB")
    with pytest.raises(ucudnn.InvalidArgument) as error:
        settled(step, *arguments, quiet=True, **options)
    return str(error.value)


def equal(some, others):
    return all(torch.equal(a, b) for a, b in zip(some, others))


def planned_of(step, *example, share, **options):
    """The step's plan within a share of the plain peak, or the least there is, which
    depends on the times that were measured."""
    options = {"quiet": True, **options}
    whole = settled(step, *example, budget="1GiB", **options)
    budget = int(whole.plain_peak * share)
    while True:
        try:
            return settled(step, *example, budget=budget, **options)
        except ucudnn.NoPlan as refused:
            assert refused.least > budget
            budget = refused.least
