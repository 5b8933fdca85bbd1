import gc
import threading
from dataclasses import replace

import pytest
import torch
import ucudnn
import ucudnn.torch
from ucudnn.torch.saved import planning
from ucudnn.torch.saved.applying import Applier
from ucudnn.torch.saved.storages import weak_reference

from saved_steps import (
    data,
    equal,
    loss_of,
    network,
    planned,
    planned_of,
    settled,
    stepping,
    trained,
)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("share", [0.8, 0.5])
def test_offload_gives_the_same_bits(share, parts):
    plain = network()
    expected = trained(stepping(plain, parts), plain)
    model, plan = planned(share, "offload", parts)
    assert plan.moved and not plan.recomputed
    assert plan.predicted_peak <= plan.budget
    assert equal(trained(plan, model), expected)


def test_recomputes_relu_pools_and_normalizations():
    plain = network()
    expected = trained(stepping(plain), plain)
    model, plan = planned(0.75, "recompute")
    assert plan.recomputed and not plan.moved and plan.pinned_bytes == 0
    found = trained(plan, model)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, expected))


def test_computes_again_as_often_as_planned(monkeypatch):
    solve = planning.solve_recorded_step

    def twice(*arguments, **keywords):
        plan = solve(*arguments, **keywords)
        actions = []
        for one in plan.actions:
            again = [replace(one, action="drop"), one]
            actions += [one, *(again if one.action == "recompute" else [])]
        return replace(plan, actions=actions)

    monkeypatch.setattr(planning, "solve_recorded_step", twice)
    test_recomputes_relu_pools_and_normalizations()


def test_moves_each_storage_once(monkeypatch):
    copied = []
    plain = Applier._copy

    def copy(self, number):
        copied.append(number)
        plain(self, number)

    monkeypatch.setattr(Applier, "_copy", copy)
    _, plan = planned(0.4, "offload")
    copied.clear()
    plan(*data())
    assert sorted(copied) == plan.moved
    assert plan.pinned_bytes <= 1.02 * plan.moved_bytes + 512 * len(copied)


def test_storages_are_gone_while_they_are_away(monkeypatch):
    """Counted apart from the plan's own accounting, at every release."""
    freed = []
    plain = Applier._drop

    def drop(self, number):
        reference = weak_reference(self._held[number])
        plain(self, number)
        freed.append((number, reference.expired()))

    monkeypatch.setattr(Applier, "_drop", drop)
    _, plan = planned(0.5, "offload")
    plan(*data())
    away = dict(reversed(freed))  # the first release: the one that frees
    assert plan.moved and all(away[number] for number in plan.moved)


def test_nothing_waits_for_the_garbage_collector(monkeypatch):
    dropped = []
    plain = Applier._drop

    def drop(self, number):
        dropped.append(weak_reference(self._held[number]))
        plain(self, number)

    monkeypatch.setattr(Applier, "_drop", drop)
    _, plan = planned(0.75, "recompute")
    gc.collect()
    gc.disable()
    try:
        plan(*data())
        assert plan.recomputed and all(one.expired() for one in dropped)
    finally:
        gc.enable()


def test_plans_steps_of_several_updates():
    def stepping_often(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            for images, labels in zip(x.chunk(2), y.chunk(2)):
                optimizer.zero_grad()
                loss = loss_of(model, images, labels)
                loss.backward()
                optimizer.step()
            return loss.detach()

        return step

    plain, model = network(), network()
    expected = trained(stepping_often(plain), plain)
    step = stepping_often(model)
    whole = settled(step, *data(), budget="1GiB", quiet=True)
    plan = settled(
        step, *data(), budget=int(whole.plain_peak * 0.6), allow="offload", quiet=True
    )
    assert plan.moved and equal(trained(plan, model), expected)


@pytest.mark.parametrize("example", ["slice", "whole"])
def test_takes_slices_of_a_data_set_on_the_device(example):
    """Which is no storage of the step, and from which calls take other batches."""
    torch.manual_seed(4)
    images, labels = torch.randn(64, 3, 16, 16), torch.randint(0, 10, (64,))
    plain, model = network(), network()
    expected, step = stepping(plain), stepping(model)
    first = images[8:16], labels[8:16]
    if example == "whole":
        first = [one.clone() for one in first]
    plan = planned_of(step, *first, share=0.01, allow="recompute")
    sizes = [one["bytes"] for one in plan.recorded_step["tensors"]]
    assert plan.recomputed and max(sizes) < images.nbytes
    for begin in (0, 24, 56):
        batch = images[begin:begin + 8], labels[begin:begin + 8]
        torch.manual_seed(5)
        told = expected(*batch)
        torch.manual_seed(5)
        assert torch.allclose(plan(*batch), told, atol=1e-5)
    for some, other in zip(model.parameters(), plain.parameters()):
        assert torch.allclose(some, other, atol=1e-5)


def test_keeps_its_own_memory_off_the_default_device():
    step, batch = stepping(network()), data()
    torch.set_default_device("meta")
    try:
        plan = planned_of(step, *batch, share=0.5, allow="offload")
        plan(*batch)
    finally:
        torch.set_default_device(None)
    assert plan.moved


def test_runs_two_plans_in_two_threads():
    models = [network().eval() for _ in range(3)]  # dropout would share its numbers
    steps = [stepping(model) for model in models]
    plans = [planned_of(step, *data(), share=0.5) for step in steps[:2]]
    losses = {}

    def train(which, step):
        losses[which] = [float(step(*batch)) for _ in range(5)]

    batch = data()
    threads = [
        threading.Thread(target=train, args=one) for one in enumerate(plans)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    train(2, steps[2])
    for which in range(2):
        assert losses[which] == pytest.approx(losses[2], abs=1e-4)


def test_takes_no_tensor_for_another_of_its_shape():
    """In each layer two convolutions of one tensor, and later of two."""
    torch.manual_seed(1)
    convolutions = [torch.nn.Conv2d(8, 8, 3, padding=1) for _ in range(10)]
    flipped = [False]

    def step(x):
        for one in convolutions:
            one.zero_grad()
        for one, two in zip(convolutions[::2], convolutions[1::2]):
            other = x.flip(0) if flipped[0] else x
            x = torch.sigmoid(one(x) + two(other))
        x.sum().backward()
        return [one.weight.grad.clone() for one in convolutions]

    x = torch.randn(4, 8, 16, 16)
    plan = planned_of(step, x, share=0.01, allow="offload")
    assert plan.moved
    plan(x)
    flipped[0] = True
    for why in ("saves another tensor's memory", ""):
        assert all(map(torch.allclose, plan(x), step(x)))
        assert why in plan.unlike
