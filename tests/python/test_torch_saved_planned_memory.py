import random

import numpy
import pytest
import torch
import ucudnn
import ucudnn.torch
from ucudnn.torch.saved import step_memory
from ucudnn.torch.saved.links import HostLink

from saved_steps import (
    data,
    equal,
    network,
    planned,
    planned_of,
    refused,
    settled,
    stepping,
    trained,
)


class Link(HostLink):
    """Copies that take their time beside what is computed."""

    told = 1e6, None

    def rates(self):
        return 1e6, 1e6

    def reached(self):
        return self.told


@pytest.mark.parametrize(
    "told, rates",
    [
        ((1e6, None), [(1e6, 1e6)]),
        ((1.005e6, 0.995e6), [(1e6, 1e6)]),
        ((9e5, None), [(1e6, 1e6), (9e5, 1e6)]),
        ((1.0, 2.0), [(1e6, 1e6), (1.0, 2.0)]),
    ],
)
def test_plans_again_with_the_rates_that_copies_reached(told, rates, monkeypatch):
    plain = network()
    expected = trained(stepping(plain), plain)
    link, asked, best = Link(), [], step_memory.best_plan
    link.told = told

    def asked_for(recording, device, rates, budget, ways):
        asked.append(rates)
        return best(recording, device, rates, budget, ways)

    monkeypatch.setattr(step_memory, "link_of", lambda device: link)
    monkeypatch.setattr(step_memory, "best_plan", asked_for)
    model, plan = planned(0.5, "offload")
    assert asked[-len(rates):] == rates
    assert plan.moved and equal(trained(plan, model), expected)


def test_plans_again_from_what_was_recorded(monkeypatch):
    link = Link()
    link.told = 9e5, None
    monkeypatch.setattr(step_memory, "link_of", lambda device: link)
    _, plan = planned(0.4)
    assert plan.moved and plan.narrowed
    assert int(plan.plain_peak * 0.4) == plan.budget


def test_keeps_a_plan_if_another_needs_more_host_memory(monkeypatch):
    link = Link()
    link.told = 1.0, 1.0
    made = []

    def refused(size, budget):
        made.append(size)
        if len(made) == 3:  # the plain step's, the first, the second
            raise ucudnn.InvalidArgument("too little")

    monkeypatch.setattr(step_memory, "link_of", lambda device: link)
    monkeypatch.setattr(step_memory, "_refuse_host", refused)
    _, plan = planned(0.5, "offload")
    assert len(made) == 4 and plan.pinned_bytes == made[1]


def test_plans_what_was_recorded_again():
    _, plan = planned(0.5)
    again = ucudnn.solve_recorded_step(plan.recorded_step, plan.budget)
    assert again.time_us == plan.predicted_ms * 1e3
    assert again.peak_bytes == plan.predicted_peak
    more = ucudnn.solve_recorded_step(plan.recorded_step, "1GiB")
    assert more.time_us <= again.time_us and more.moved_bytes == 0


def test_measures_the_peak_that_it_predicts():
    for share, allow in ((0.8, "recompute"), (0.6, "offload"), (0.5, "offload")):
        _, plan = planned(share, allow)
        told = plan.check(steps=1)
        assert told.predicted_peak == plan.predicted_peak <= plan.budget
        assert 0.9 * told.predicted_peak <= told.measured_peak
        assert told.measured_peak <= told.predicted_peak
        assert "predicted" in str(told) and "MiB" in repr(plan)


def test_runs_each_step_once_and_puts_nothing_back():
    """The same numbers, in Python and in tensors, as without a plan."""
    told = []
    for plans in (False, True):
        torch.manual_seed(3), random.seed(3), numpy.random.seed(3)
        model, counted = network(), []
        plain = stepping(model)

        def step(x, y):
            counted.append(len(counted))
            return plain(x + random.random() + numpy.random.rand(), y)

        run = step
        if plans:
            run = ucudnn.torch.memory(step, budget="1GiB", quiet=True)
        losses = [float(run(*data())) for _ in range(6)]
        told.append((losses, counted, random.random(), numpy.random.rand()))
    assert told[0] == told[1]


def test_plans_a_small_last_batch_apart_with_evaluation_between():
    batches = [data(8), data(8), data(5)] * 5
    told = []
    for budget in (None, 100000):
        torch.manual_seed(3)
        model = network()
        step = stepping(model)
        losses, plans = [], {}
        for x, y in batches:
            if budget is None:
                losses.append(float(step(x, y)))
            else:
                with ucudnn.torch.memory(
                    budget=budget, allow="offload", quiet=True
                ) as memory:
                    losses.append(float(step(x, y)))
                plans[len(y)] = memory.plan
            model.eval()
            with torch.no_grad():
                losses.append(float(model(x).sum()))
            model.train()
        told.append(losses)
    assert told[0] == told[1]
    assert plans[8].moved and plans[8].predicted_peak <= 100000
    assert 0 < plans[5].predicted_peak < plans[8].predicted_peak


def test_each_place_in_the_code_has_its_plans():
    def made():
        return ucudnn.torch.memory(budget="1GiB", quiet=True)

    assert made() is made()
    assert made() is not ucudnn.torch.memory(budget="1GiB", quiet=True)


def test_goes_on_after_a_step_that_failed():
    model = network()
    step = stepping(model)
    plan = planned_of(step, *data(), share=0.5, allow="offload")

    def fails(x, y):
        torch.nn.functional.cross_entropy(model(x), y)
        raise KeyError("mine")

    within = plan._within
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"), within:
            fails(*data())
        plan(*data())
        assert not plan.unlike


def test_names_the_least_budget_and_keeps_it():
    model = network()
    step = stepping(model)
    with pytest.raises(ucudnn.NoPlan) as refused:
        settled(step, *data(), budget=1000, quiet=True)
    least = refused.value.least
    assert "1000" in str(refused.value)
    plan = settled(step, *data(), budget=least, quiet=True)
    assert plan.predicted_peak <= least


def test_refuses_a_host_budget_that_is_too_small():
    _, plan = planned(0.5, "offload")
    with pytest.raises(ucudnn.InvalidArgument) as error:
        planned(0.5, "offload", host_budget=1000)
    assert "host_budget: 1000 bytes" in str(error.value)
    assert f"the plan moves {plan.pinned_bytes} bytes" in str(error.value)
    _, fits = planned(0.5, "offload", host_budget=plan.pinned_bytes)
    assert fits.pinned_bytes == plan.pinned_bytes


def test_refuses_arguments_it_cannot_read():
    step = stepping(network())
    assert "memory: allow: 'swap'" in refused(step, *data(), allow=("swap",))
    assert "is not a size" in refused(step, *data(), budget="half")
