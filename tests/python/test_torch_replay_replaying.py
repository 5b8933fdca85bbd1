"""With graphs that a stand-in captures; no GPU is needed."""

import contextlib
import warnings

import pytest
import saved_steps
import torch
import ucudnn
import ucudnn.torch
from torch.optim import SGD, Adam, NAdam
from ucudnn.torch.replay import replaying
from ucudnn.torch.replay.capturing import Captured
from ucudnn.torch.replay.carried import parameters_of, state_of
from ucudnn.torch.saved import planned_step

from saved_steps import (
    data,
    equal,
    loss_of,
    network,
    planned_of,
    refused,
    settled,
    trained,
)


class Graph:
    """Runs the step, and writes its results where the captured one's were."""

    def __init__(self, run, result, objects, before):
        self.run, self.result, self.objects = run, result, objects
        self.gradients = [(p, p.grad) for p in parameters_of(objects)]
        self.state = state_of(objects)
        self.replays = 0
        # Capturing computes nothing.
        for tensor in (result, *(one.tensor for one in self.state)):
            if all(tensor is not one.tensor for one in before):
                tensor.fill_(float("nan"))

    def replay(self):
        self.replays += 1
        self.result.copy_(self.run())
        for parameter, gradient in self.gradients:
            if parameter.grad is not gradient:
                gradient.copy_(parameter.grad)
        for one in self.state:
            if one.now is not one.tensor:
                one.tensor.copy_(one.now)


class StandIn:
    peak = 12345

    def __init__(self, device):
        self.graphs, self.waits = [], False
        StandIn.last = self

    def warm_up(self, run):
        run()

    @contextlib.contextmanager
    def without_waiting(self):
        self.waits = True
        try:
            yield
        finally:
            self.waits = False

    def give_back(self):
        pass

    def capture(self, run):
        before = state_of(StandIn.objects)
        result = run()
        self.graphs.append(Graph(run, result, StandIn.objects, before))
        return Captured(self.graphs[-1], result)


@pytest.fixture(autouse=True)
def captured(monkeypatch):
    monkeypatch.setattr(replaying, "Capturing", StandIn)
    monkeypatch.setattr(planned_step, "refuse_without_gpu", lambda device: None)
    return monkeypatch


def momentum(parameters):
    return SGD(parameters, lr=0.1, momentum=0.9, dampening=0.5)


def made(kind=momentum, **zero):
    model = network()
    optimizer = kind(model.parameters())

    def step(x, y):
        optimizer.zero_grad(**zero)
        loss = loss_of(model, x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    StandIn.objects = [model, optimizer]
    return model, optimizer, step


def plan_of(step, **options):
    options = {"budget": "1GiB", "quiet": True, "graphs": True, **options}
    return settled(step, *data(), **options)


def replays():
    return [graph.replays for graph in StandIn.last.graphs]


@pytest.mark.parametrize("kind", [momentum, Adam, NAdam])
@pytest.mark.parametrize("to_none", [False, True])
def test_trains_as_the_step_does(kind, to_none):
    model, _, step = made(kind, set_to_none=to_none)
    expected = trained(step, model)
    model, optimizer, step = made(kind, set_to_none=to_none)
    plan = plan_of(step, budget=250000, allow="offload")
    assert plan.replayed and plan.moved and not optimizer.state
    assert equal(trained(plan, model), expected)
    assert replays() == [2]  # the first step makes the state
    assert all(p.grad is not None for p in model.parameters())


def test_captures_one_graph_if_the_state_is_there():
    model, _, step = made()
    trained(step, model)
    expected = trained(step, model)
    model, _, step = made()
    trained(step, model)
    plan = plan_of(step)
    assert equal(trained(plan, model), expected) and replays() == [3]


def test_returns_the_graphs_tensors():
    _, _, step = made(lambda parameters: SGD(parameters, lr=0.1))
    plan = plan_of(step)
    first = plan(*data())
    value = first.clone()
    assert plan(*data()) is first and not torch.equal(first, value)


def test_takes_state_that_is_loaded_later():
    model, optimizer, step = made()
    trained(step, model)
    states = [value.state_dict() for value in (model, optimizer)]
    states = torch.load(saved(states))
    expected = trained(step, model)
    model, optimizer, step = made()
    plan = plan_of(step)
    trained(plan, model)
    model.load_state_dict(states[0])
    optimizer.load_state_dict(states[1])
    assert equal(trained(plan, model), expected)
    kept = [one.tensor for one in StandIn.last.graphs[-1].state]
    assert all(
        values["momentum_buffer"] is tensor
        for values, tensor in zip(optimizer.state.values(), kept)
    )


def saved(states):
    import io
    file = io.BytesIO()
    torch.save(states, file)
    file.seek(0)
    return file


def test_enqueues_a_step_whose_state_was_removed():
    model, optimizer, step = made()
    trained(step, model, 1)
    start = torch.load(saved(model.state_dict()))
    optimizer.state.clear()
    expected = trained(step, model)
    model, optimizer, step = made()
    trained(step, model, 1)
    plan = plan_of(step)
    model.load_state_dict(start)
    optimizer.state.clear()
    assert equal(trained(plan, model), expected) and replays() == [2]


def test_adds_to_gradients_that_are_there():
    """A step that leaves setting them to zero to its caller."""
    def adding():
        model = network()
        StandIn.objects = [model]

        def step(x, y):
            loss = loss_of(model, x, y)
            loss.backward()
            return loss.detach()

        return model, step

    def summed(model, step):
        torch.manual_seed(3)
        told = []
        for call in range(5):
            if call == 3:
                model.zero_grad(set_to_none=True)
            step(*data())
            told += [p.grad.clone() for p in model.parameters()]
        return told

    model, step = adding()
    expected = summed(model, step)
    model, step = adding()
    plan = plan_of(step)
    assert all(p.grad is None for p in model.parameters())
    assert equal(summed(model, plan), expected) and replays() == [5]


def test_leaves_other_gradients_alone():
    model, _, step = made()
    other = torch.nn.Linear(2, 2)
    other(torch.ones(1, 2)).sum().backward()
    plan = plan_of(step, keep=[other])
    other.zero_grad(set_to_none=True)
    plan(*data())
    assert other.weight.grad is None


def test_trains_as_the_step_does_while_it_records_and_captures():
    model, _, step = made()
    expected = trained(step, model, 8)
    model, _, step = made()
    run = ucudnn.torch.memory(
        step, budget="1GiB", quiet=True, graphs=True, device="cpu"
    )
    assert equal(trained(run, model, 8), expected)
    assert run.replayed and replays() == [5]
    told = run.check(*data(), steps=2)
    assert told.measured_peak == StandIn.peak and replays() == [7]


def test_tells_whether_it_is_replayed():
    _, _, step = made()
    plan, other = plan_of(step), plan_of(step, graphs=False)
    assert plan.replayed and "replayed as a CUDA graph" in str(plan)
    assert not other.replayed and "replayed" not in str(other)


def test_refuses_other_arguments():
    _, _, step = made()
    plan = plan_of(step)
    with pytest.raises(ucudnn.InvalidArgument) as error:
        plan(*data(4))
    assert "memory: argument 0: torch.float32 (4, 3, 16, 16)" in str(error.value)
    with pytest.raises(ucudnn.InvalidArgument):
        plan(data()[0])


def enqueued(step, model, optimizer):
    """The warning."""
    before = [t.clone() for t in model.state_dict().values()]
    with pytest.warns(UserWarning) as told:
        plan = plan_of(step)
    assert len(told) == 1 and told[0].filename == saved_steps.__file__  # which calls it
    assert not plan.replayed
    assert equal(before, model.state_dict().values()) and not optimizer.state
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = trained(plan, model)
    other, _, plain = made()
    assert equal(found, trained(plain, other))
    assert plan.check(*data(), steps=1).measured_peak > 0
    return str(told[0].message)


def test_enqueues_a_step_that_waits():
    model, optimizer, step = made()

    def waiting(x, y):
        loss = step(x, y)
        if StandIn.last is not None and StandIn.last.waits:
            raise RuntimeError("called a synchronizing CUDA operation")
        return loss.item()

    StandIn.last = None
    text = enqueued(waiting, model, optimizer)
    assert "RuntimeError: called a synchronizing CUDA operation" in text
    assert "without .item()" in text and "capturable=True" in text


def test_enqueues_a_step_that_cannot_be_captured(captured):
    def fails(self, run):
        run()
        raise RuntimeError("Attempting CUDA graph capture")

    captured.setattr(StandIn, "capture", fails)
    model, optimizer, step = made()
    assert "Attempting CUDA graph capture" in enqueued(step, model, optimizer)


class Counting(SGD):
    def step(self, closure=None):
        group = self.param_groups[0]
        group["steps"] = group.get("steps", 0) + 1
        return super().step(closure)


class Replacing(SGD):
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            self.state[p]["square"] = p.grad * p.grad
        return super().step(closure)


@pytest.mark.parametrize("kind, reason", [
    (Counting, "counts in Python's numbers"),
    (Replacing, "makes new tensors of state in each step"),
])
def test_enqueues_a_step_whose_optimizer_a_replay_would_not_follow(kind, reason):
    _, _, step = made(lambda parameters: kind(parameters, lr=0.1))
    with pytest.warns(UserWarning, match=reason):
        assert not plan_of(step).replayed


def trained_at_two_rates(step, model, optimizer):
    told = [step(*data()).clone()]
    optimizer.param_groups[0]["lr"] = 0.01
    told += [step(*data()).clone() for _ in range(2)]
    return [*told, *(p.detach().clone() for p in model.parameters())]


def test_captures_again_when_a_learning_rate_changes():
    model, optimizer, step = made()
    expected = trained_at_two_rates(step, model, optimizer)
    model, optimizer, step = made()
    plan = plan_of(step)
    before = StandIn.last
    assert equal(trained_at_two_rates(plan, model, optimizer), expected)
    assert [graph.replays for graph in before.graphs] == [0]
    assert StandIn.last is not before and replays() == [2]


def test_enqueues_from_then_on_what_cannot_be_captured_again(captured):
    model, optimizer, step = made()
    expected = trained_at_two_rates(step, model, optimizer)
    model, optimizer, step = made()
    plan = plan_of(step)

    def fails(self, run):
        raise RuntimeError("no more graphs")

    captured.setattr(StandIn, "capture", fails)
    with pytest.warns(UserWarning, match="enqueued: RuntimeError: no more graphs"):
        assert equal(trained_at_two_rates(plan, model, optimizer), expected)
    assert not plan.replayed


def add_group(model, optimizer):
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]})


def freeze_dropout(model, _):
    model[6].p = 0.2


def replace_head(model, optimizer):
    """As long as no recipe reads it, a plan fits the new one."""
    for parameter in model[-1].parameters():
        optimizer.state.pop(parameter, None)
    head = torch.nn.Linear(8, 10)
    with torch.no_grad():
        for some, other in zip(head.parameters(), model[-1].parameters()):
            some.copy_(other.flip(0))
    model[-1] = head
    optimizer.param_groups[0]["params"][-2:] = list(head.parameters())


@pytest.mark.parametrize("change", [add_group, freeze_dropout, replace_head])
def test_captures_again_when_the_model_changes(change):
    def told(step, model, optimizer):
        losses = [step(*data()).clone()]
        change(model, optimizer)
        losses += [step(*data()).clone() for _ in range(2)]
        return [*losses, *(p.detach().clone() for p in model.parameters())]

    model, optimizer, step = made()
    torch.manual_seed(3)
    expected = told(step, model, optimizer)
    model, optimizer, step = made()
    plan = plan_of(step, allow="offload")
    before = StandIn.last
    torch.manual_seed(3)
    assert equal(told(plan, model, optimizer), expected)
    assert plan.replayed and StandIn.last is not before


@pytest.mark.parametrize("change, name", [
    (lambda model: model[1].eval(), "1.training"),
    (lambda model: model[0].requires_grad_(False), "0.weight"),
    (lambda model: model.load_state_dict(network().state_dict(), assign=True),
     "0.weight"),
])  # fmt: skip
def test_refuses_a_model_that_no_longer_fits_the_plan(change, name):
    """Which the replays would not notice."""
    model, _, step = made()
    plan = planned_of(step, *data(), share=0.01, allow="recompute", graphs=True)
    assert plan.replayed and plan.recomputed
    plan(*data())
    change(model)
    with pytest.raises(ucudnn.InvalidArgument) as error:
        plan(*data())
    assert f"memory: {name} has changed since the step was captured" in str(error.value)


def test_enqueues_a_step_that_would_be_captured_in_each_call():
    """As by a schedule with another rate in each call."""
    def told(step, optimizer):
        losses = []
        for call in range(8):
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + call)
            losses.append(step(*data()).clone())
        return losses

    torch.manual_seed(3)
    _, optimizer, step = made()
    expected = told(step, optimizer)
    torch.manual_seed(3)
    _, optimizer, step = made()
    plan = plan_of(step)
    with pytest.warns(UserWarning, match="an option of an optimizer changes from call"):
        assert equal(told(plan, optimizer), expected)
    assert not plan.replayed


def test_refuses_devices_without_graphs(captured):
    captured.undo()
    _, _, step = made()
    text = refused(step, *data(), graphs=True)
    assert text == "memory: graphs: True on cpu; a GPU is accepted"
