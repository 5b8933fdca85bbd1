import pytest
import torch
import ucudnn
import ucudnn.torch

from saved_steps import data, loss_of, network, refused, settled, stepping


def test_refuses_changes_in_place():
    weight = torch.randn(64, 64, requires_grad=True)

    def changes(x, late):
        y = x @ weight
        z = torch.sigmoid(y)
        loss = z.sum()
        if late:
            with torch.no_grad():
                z.mul_(2)
        loss.backward()

    x = torch.randn(64, 64)
    assert "in place" in refused(changes, x, True)
    plan = settled(changes, x, False, budget="1GiB", quiet=True)
    plan(x, False)
    with pytest.raises(ucudnn.InvalidArgument, match="in place"):
        plan(x, True)
    plan(x, False)


def test_follows_shapes_that_vary():
    """Each as without a plan, whatever comes first, and steps that are cut short."""
    told = []
    for plans in (False, True):
        model = network().eval()
        step = stepping(model)
        run = ucudnn.torch.memory(step, budget="1GiB", quiet=True) if plans else step
        told.append([float(run(*data(n))) for n in (8, 6, 8, 8, 6, 8, 7, 6, 8, 6)])
    assert told[0] == told[1]

    def short(x, y):
        return float(loss_of(model, x, y))

    run(*data())
    run._step = short
    assert run(*data()) == short(*data()) and "it ended after" in run.unlike
