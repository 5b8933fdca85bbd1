import gc
from dataclasses import replace

import pytest
import torch
import ucudnn
import ucudnn.torch
from ucudnn.torch.saved import planning
from ucudnn.torch.saved.applying import Applier
from ucudnn.torch.saved.storages import weak_reference

from saved_steps import data, equal, loss_of, network, planned, stepping, trained


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
    whole = ucudnn.torch.memory(step, *data(), budget="1GiB", quiet=True)
    plan = ucudnn.torch.memory(
        step, *data(), budget=int(whole.plain_peak * 0.6), allow="offload", quiet=True
    )
    assert plan.moved and equal(trained(plan, model), expected)
