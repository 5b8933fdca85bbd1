import pytest
import torch
import ucudnn
import ucudnn.torch

from saved_steps import data, loss_of, network, refused, stepping


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
    plan = ucudnn.torch.memory(changes, x, False, budget="1GiB", quiet=True)
    plan(x, False)
    with pytest.raises(ucudnn.InvalidArgument, match="in place"):
        plan(x, True)
    plan(x, False)


def test_refuses_shapes_that_vary():
    model = network()
    step = stepping(model)
    sizes = iter([8, 6])
    why = refused(lambda: step(*data(next(sizes))))
    assert "memory: the step" in why and "accepted" in why
    plan = ucudnn.torch.memory(step, *data(), budget="1GiB", quiet=True)
    with pytest.raises(ucudnn.InvalidArgument) as error:
        plan(*data(6))
    assert "(6, 3, 16, 16)" in str(error.value)
    assert "(8, 3, 16, 16)" in str(error.value)
    plan(*data())

    def short(x, y):
        return float(loss_of(model, x, y))

    plan._step = short
    with pytest.raises(ucudnn.InvalidArgument, match="it ended after"):
        plan(*data())
