import threading

import pytest
import torch
import ucudnn
import ucudnn.torch
from torch import nn
from ucudnn.torch.saved.watching import Watch, hooked

from saved_steps import data, loss_of, network, planned_of, refused, stepping


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


def test_watches_each_thread_by_itself():
    """Two plans whose steps overlap, the first to begin ending first."""
    plain = torch.autograd.backward, torch.autograd.graph.saved_tensors_hooks.__enter__
    turn = [threading.Event() for _ in range(3)]
    failed = []

    def first():
        with hooked(Watch(), lambda x: x, lambda x: x):
            turn[0].set()
            turn[1].wait(60)
        turn[2].set()

    def second():
        turn[0].wait(60)
        with hooked(Watch(), lambda x: x, lambda x: x):
            turn[1].set()
            turn[2].wait(60)
            try:
                with torch.autograd.graph.save_on_cpu():
                    pass
            except ucudnn.InvalidArgument:
                failed.append("hooks")

    threads = [threading.Thread(target=one) for one in (first, second)]
    for one in threads:
        one.start()
    turn[1].wait(60)
    with torch.autograd.graph.save_on_cpu():  # of a thread without a plan
        torch.ones(1, requires_grad=True).exp().backward(retain_graph=True)
    for one in threads:
        one.join()
    assert failed == ["hooks"]
    assert plain == (
        torch.autograd.backward, torch.autograd.graph.saved_tensors_hooks.__enter__
    )  # fmt: skip


def test_refuses_steps_without_a_backward_pass():
    model = network()

    def forward(x):
        return model(x)

    def evaluated(x):
        with torch.no_grad():
            return model(x)

    for step in (forward, evaluated):
        assert "no backward pass" in refused(step, data()[0])


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
