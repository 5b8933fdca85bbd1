import pytest
import torch
import ucudnn
import ucudnn.torch

from saved_steps import data, loss_of, network, refused, stepping


def test_refuses_graphs_that_are_kept_or_differentiated_twice():
    model = network()

    def retains(x, y):
        loss_of(model, x, y).backward(retain_graph=True)

    def twice(x, y):
        torch.autograd.grad(
            loss_of(model, x, y), list(model.parameters()), create_graph=True
        )

    assert "torch.autograd.backward: retain_graph=True" in refused(retains, *data())
    assert "torch.autograd.grad: create_graph=True" in refused(twice, *data())


def test_refuses_other_hooks():
    model = network()
    step = stepping(model)

    def inside(x, y):
        with torch.autograd.graph.save_on_cpu():
            loss = loss_of(model, x, y)
        loss.backward()

    assert "save_on_cpu" in refused(inside, *data())
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        assert "other hooks are active" in refused(step, *data())
    plan = ucudnn.torch.memory(step, *data(), budget="1GiB", quiet=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        with pytest.raises(ucudnn.InvalidArgument, match="other hooks are active"):
            plan(*data())


def test_refuses_compiled_models():
    model = torch.compile(network())
    assert "activation_memory_budget" in refused(stepping(model), *data())
