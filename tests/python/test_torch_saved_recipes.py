import copy
from dataclasses import replace

import pytest
import torch
import ucudnn
import ucudnn.torch
from torch import nn
from ucudnn.torch.saved import step_memory
from ucudnn.torch.saved.applying import Applier
from ucudnn.torch.saved.recording import Recorder

from saved_steps import Block, data, settled, stepping, trained


def deep_network():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
        nn.Conv2d(8, 16, 1, bias=False), nn.BatchNorm2d(16),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip


def computed_again(model, monkeypatch, cast=False):
    """The names of the convolutions that a plan computes again, which does as the
    plain step. What recipes read of unplanned tensors is gone at the end."""

    def step(x, y):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=cast):
            loss = nn.functional.cross_entropy(model(x).float(), y)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=0.1)
        return loss.detach()

    before = copy.deepcopy(model.state_dict())
    expected = [t.clone() for t in trained(step, model)]
    model.load_state_dict(before)
    plan, budget = None, 1
    while plan is None:  # the least that is named depends on measured times
        try:
            plan = settled(
                step, *data(), budget=budget, allow="recompute", quiet=True
            )
        except ucudnn.NoPlan as refused:
            budget = refused.least
    held = []
    clear = Applier._clear

    def clearing(self):
        held.append([n for n in self._held if self._script.sources[n]])
        clear(self)

    monkeypatch.setattr(Applier, "_clear", clearing)
    found = trained(plan, model)
    assert held and not any(held)
    most = 2e-2 if cast else 1e-5
    assert all(torch.allclose(a, b, atol=most) for a, b in zip(found, expected))
    return [
        step.value.call.func._schema.name
        for again in plan._within._last.applier._script.recipes.values()
        for step in again.recipe.steps
        if step.value.call.name == "convolution"
    ]


@pytest.mark.parametrize("cast", [False, True])
def test_computes_convolutions_again(cast, monkeypatch):
    assert "aten::convolution" in computed_again(deep_network(), monkeypatch, cast)


def test_computes_planned_convolutions_again(eager, monkeypatch, tmp_path):
    monkeypatch.setenv("UCUDNN_CACHE_DIR", str(tmp_path))
    model = deep_network()
    ucudnn.torch.convert(model, data()[0], quiet=True)
    assert "ucudnn::convolution" in computed_again(model, monkeypatch)


@pytest.mark.parametrize("planned", [False, True])
def test_computes_again_from_what_other_code_holds(
    planned, eager, monkeypatch, tmp_path
):
    """Here from the images, which the caller has: the first layer's output, since
    the second's, which takes as much, is much dearer to compute again."""
    monkeypatch.setenv("UCUDNN_CACHE_DIR", str(tmp_path))
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(8, 8, 21, padding=10), nn.Tanh(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
    )  # fmt: skip
    if planned:
        ucudnn.torch.convert(model, data()[0], quiet=True)
    read = []
    script = step_memory.script_of

    def noted(solved):
        told = script(solved)
        read.extend(n for r in told.recipes.values() for n in r.recipe.reads if told.stays[n])
        return told

    monkeypatch.setattr(step_memory, "script_of", noted)
    computed_again(model, monkeypatch)
    assert read


def test_deep_recipes_read_nothing_that_is_computed_again(monkeypatch):
    """As residual blocks do otherwise, each the one before it."""

    def chain():
        torch.manual_seed(1)
        return nn.Sequential(
            nn.Conv2d(3, 8, 3), *(Block(8) for _ in range(8)),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
        )  # fmt: skip

    told, add = {}, Recorder.add

    def recorded(self, one):
        recording = add(self, one)
        if recording is None:
            return None
        told["storages"] = [replace(saved) for saved in recording.storages]
        for saved in recording.storages:
            saved.again = saved.deep
        return recording

    plain = chain()
    expected = trained(stepping(plain), plain)
    model = chain()
    step = stepping(model)
    whole = settled(step, *data(), budget="1GiB", quiet=True)
    monkeypatch.setattr(Recorder, "add", recorded)
    plan = settled(
        step, *data(), budget=int(whole.plain_peak * 0.75), allow="recompute", quiet=True
    )
    storages = told["storages"]
    again = [saved for saved in storages if saved.again is not None]
    deep = [saved for saved in storages if saved.deep is not None]
    assert sum(saved.deep is None for saved in again) == 1  # of 8 blocks, after 5
    blocks = [s for s in deep if s.deep.recipe.by_element]
    for saved in blocks:
        read = [storages[n].deep for n in saved.deep.recipe.reads]
        assert all(one is None or not one.recipe.by_element for one in read)
    assert any(
        storages[n].again in (s.again for s in blocks)
        for s in blocks
        for n in s.again.recipe.reads
    )
    assert max(len(saved.deep.recipe.steps) for saved in blocks) == 5 * 3
    found = trained(plan, model)
    assert plan.recomputed
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, expected))
