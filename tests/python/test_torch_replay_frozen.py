import pytest

import torch

from torch import nn
from ucudnn.torch.replay.frozen import Frozen

SCALE = 1.0
OFFSET = torch.zeros(2)


def made():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.1))
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    return model, optimizer


def step():
    return SCALE * OFFSET


def frozen():
    model, optimizer = made()
    return model, optimizer, Frozen(step, [model, optimizer])


def test_sees_no_change_where_values_alone_change():
    model, optimizer, was = frozen()
    model.load_state_dict(made()[0].state_dict())
    optimizer.param_groups[0]["lr"] = 0.2
    model[0].weight.grad = torch.ones(2, 2)
    with torch.no_grad():
        OFFSET.add_(1)
    assert was.changed() == ""


@pytest.mark.parametrize(
    "change, name",
    [
        (lambda model, _: model[1].eval(), "1.training"),
        (lambda model, _: model[0].bias.requires_grad_(False), "0.bias"),
        (lambda model, _: setattr(model[2], "p", 0.5), "2.p"),
        (lambda model, _: setattr(model[1], "momentum", None), "1.momentum"),
        (
            lambda model, _: model.load_state_dict(
                made()[0].state_dict(), assign=True
            ),
            "0.weight",
        ),
        (lambda model, _: setattr(model[0].weight, "data", torch.ones(2, 2)),
         "0.weight"),
        (lambda model, _: model.append(nn.ReLU()), "3"),
        (lambda model, _: model.pop(2), "2"),
        (lambda model, _: model.__setitem__(0, nn.Linear(2, 2)), "0"),
        (
            lambda model, optimizer: optimizer.add_param_group(
                {"params": model[1].parameters()}
            ),
            "param_groups[1]",
        ),
        (
            lambda model, optimizer: optimizer.param_groups[0]["params"].append(
                model[1].bias
            ),
            "param_groups[0]",
        ),
    ],
)  # fmt: skip
def test_names_what_is_not_as_it_was(change, name):
    model, optimizer, was = frozen()
    change(model, optimizer)
    assert was.changed() == name


@pytest.mark.parametrize("name, value", [
    ("SCALE", 2.0), ("SCALE", torch.ones(2)), ("OFFSET", torch.zeros(2)),
])
def test_names_what_the_step_names(name, value, monkeypatch):
    _, _, was = frozen()
    monkeypatch.setitem(globals(), name, value)
    assert was.changed() == name


def test_leaves_out_globals_that_are_named_as_attributes(monkeypatch):
    """A loop's `loss`, where the step reads `outputs.loss`."""
    def step(outputs):
        return outputs.loss

    monkeypatch.setitem(globals(), "loss", 1.0)
    was = Frozen(step, [])
    monkeypatch.setitem(globals(), "loss", 2.0)
    assert was.changed() == ""
