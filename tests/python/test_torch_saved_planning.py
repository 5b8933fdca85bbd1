
from dataclasses import replace

import torch
import ucudnn
import ucudnn.torch
from torch import nn
from ucudnn.torch.saved import planning

from saved_steps import Block, data, settled, stepping


def test_takes_the_faster_of_shallow_and_deep_recipes(monkeypatch):
    times = iter([2000.0, 1000.0])
    plain = planning._solved

    def solved(*arguments):
        return replace(plain(*arguments), time_us=next(times))

    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), Block(8), Block(8), nn.Flatten(), nn.LazyLinear(10)
    )
    step = stepping(model)
    step(*data())
    monkeypatch.setattr(planning, "_solved", solved)
    plan = settled(step, *data(), budget="1GiB", quiet=True)
    assert plan.predicted_ms == 1.0 and next(times, None) is None


def test_leaves_part_of_a_gpus_budget_to_its_allocator():
    assert planning.without_reserve(1280) == 1260
    for size in (0, 1, 62, 63, 64, 12345678901):
        budget = planning.with_reserve(size)
        assert planning.without_reserve(budget) >= size
        assert budget == 0 or planning.without_reserve(budget - 1) < size
