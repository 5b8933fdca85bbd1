"""How ucudnn.torch.compile follows what steps on a GPU take, with a GPU that is made
up."""

import logging

import pytest
import torch
from compiled_models import Cnn, Training, images

import ucudnn
import ucudnn.torch
from ucudnn.torch.compiled import backend, job, memory, private
from ucudnn.torch.compiled.costs import Costs
from ucudnn.torch.convolution import contest

BUDGET = 700_000
MORE = 200_000  # bytes that passes take beyond what is predicted


class Event:
    def elapsed_time(self, other):
        return 25.0

    def synchronize(self):
        pass


class MadeUp(memory.Watch):
    """Passes take MORE than the graphs tell, and the rest of the step little."""

    def __init__(self, device):
        super().__init__(device)
        self._gpu = True

    def _event(self):
        return Event()

    def _reset(self):
        return 1000

    def _note(self, peaks, graph):
        forward = peaks is self._forward
        told = graph.job.choice.predicted
        known = self.around.forward if forward else self.around.backward
        parts = told.forward if forward else told.backward
        peaks[graph] = parts[0] - self.around.base + MORE - known.get(0, 0)


@pytest.fixture(autouse=True)
def gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("UCUDNN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(job, "Watch", MadeUp)
    torch._dynamo.reset()


def planned(budget, **options):
    return Training(
        Cnn,
        lambda model: ucudnn.torch.compile(
            model, budget=budget, compiler="aot_eager", **options
        ),
    )


def test_plans_again_until_the_measured_peak_is_within_the_budget(caplog):
    caplog.set_level(logging.INFO, "ucudnn.torch.compile")
    reference = planned(None)
    losses = [reference(*images()) for _ in range(20)]
    torch._dynamo.reset()
    training = planned(BUDGET)
    told = [training(*images())]
    first = ucudnn.torch.plan_of(training.model)
    told += [training(*images()) for _ in range(19)]
    last = ucudnn.torch.plan_of(training.model)
    assert told == losses
    assert last.saved_bytes < first.saved_bytes - MORE / 2
    assert last.predicted_peak_bytes <= BUDGET
    assert last.measured_peak_bytes == pytest.approx(last.predicted_peak_bytes, 0.01)
    assert len(caplog.records) == 2  # plans
    assert last.settled and not first.settled
    with torch.no_grad():
        training.compiled(*images())
    assert ucudnn.torch.plan_of(training.model).settled  # no step changed


def test_a_smaller_batch_between_does_not_end_the_measuring():
    """As an epoch's last, before the plan of the others is settled."""
    training = planned(BUDGET)
    plans = []
    for count in [8] * 12, [3], [8] * 12:
        for images_of_step in count:
            training(*images(images_of_step))
        plans.append(ucudnn.torch.plan_of(training.model))
    first, short, second = plans
    assert not first.settled and first.measured_peak_bytes > BUDGET
    assert short.measured_peak_bytes is None and not short.settled
    assert second.settled and second.measured_peak_bytes <= BUDGET
    assert second.saved_bytes == first.saved_bytes


def test_what_was_never_measured_is_not_settled():
    training = planned(BUDGET)
    for _ in range(12):
        for count in (8, 8, 3):
            training(*images(count))
    job_of = backend._jobs[training.model]
    assert not job_of.watching
    assert not ucudnn.torch.plan_of(training.model).settled


def test_cuda_graphs_follow_a_plan_that_was_measured_without_them():
    reference = planned(None)
    losses = [reference(*images()) for _ in range(40)]
    torch._dynamo.reset()
    training = planned(BUDGET)
    told = [training(*images())]
    planning = backend._jobs[training.model]
    planning.options[private.CUDA_GRAPHS] = True
    (graph,) = planning._planned
    layouts = []  # with and without CUDA graphs
    for _ in range(39):
        told.append(training(*images()))
        layouts.append((graph.captured, graph.layout))
    assert told == losses
    assert graph.captured and not layouts[0][0]
    last = [layout for captured, layout in layouts if not captured][-1]
    assert {layout for captured, layout in layouts if captured} == {last}
    plan = ucudnn.torch.plan_of(training.model)
    assert plan.settled
    assert plan.measured_peak_bytes == plan.predicted_peak_bytes <= BUDGET


@pytest.mark.parametrize("gains", [True, False])
def test_convolutions_stay_planned_if_whole_steps_are_faster(monkeypatch, gains):
    monkeypatch.setattr(contest, "_LEAST_GAIN", -1e9)
    training = planned(BUDGET, workspace_limit="1MiB")
    used = []

    def elapsed(*_):
        return 20.0 if used[-1] == gains else 25.0

    monkeypatch.setattr(Event, "elapsed_time", elapsed)
    convolutions = backend._jobs[training.model].convolutions
    for _ in range(60):
        used.append(convolutions.used)
        training(*images())
    plan = ucudnn.torch.plan_of(training.model)
    assert plan.settled
    assert plan.convolutions == gains
    assert used[0] and False in used


def test_the_time_of_a_step_counts_what_is_not_in_the_graphs():
    training = planned(BUDGET)
    training(*images())
    before = ucudnn.torch.plan_of(training.model)
    for _ in range(19):
        training(*images())
    after = ucudnn.torch.plan_of(training.model)
    # Each event is 25 ms after the one before: those around both passes count.
    assert after.predicted_ms == pytest.approx(50.0, rel=0.1)
    assert after.predicted_ms > after.plain_ms
    assert before.predicted_ms != after.predicted_ms


def test_a_measured_peak_that_no_plan_holds_is_refused():
    training = planned(BUDGET)
    training(*images())
    least = ucudnn.torch.plan_of(training.model).predicted_peak_bytes
    torch._dynamo.reset()
    training = planned(least // 3)
    with pytest.raises(ucudnn.NoPlan) as refused:
        for _ in range(12):
            training(*images())
    assert refused.value.least > least // 3


def test_an_optimizers_state_is_expected_before_it_exists(monkeypatch):
    used = 5000
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: used)
    weights = torch.zeros(1000, requires_grad=True)
    batch = torch.zeros(250)
    device = torch.device("cuda", 0)
    around = memory.surroundings([weights, batch, 3], device)
    assert around.base == used + 2 * 4000
    assert around.after == 2 * 4000  # gradients, and what the optimizer needs
    used = 5000 + 2 * 4000  # it exists
    assert memory.surroundings([weights, batch, 3], device).base == used


def test_workspaces_count_where_their_operators_run(monkeypatch):
    """Of the first convolution more than of all others."""
    told = []

    def plan(workspace):
        torch._dynamo.reset()
        monkeypatch.setattr(Costs, "workspace", workspace)
        training = planned(1 << 40)
        training(*images())
        (graph,) = backend._jobs[training.model]._planned
        told.append(graph.described)

    def first(_, node):
        convolves = node.target is torch.ops.aten.convolution.default
        return MORE if convolves and node.args[1].meta["val"].shape[1] == 3 else 0

    plan(lambda *_: 0)
    plan(first)
    for passes in ("forward", "backward"):
        more = [
            b.bytes - a.bytes for a, b in zip(*(getattr(one, passes) for one in told))
        ]
        assert more.count(0) == len(more) - (passes == "forward"), more
    without, counted = (one.values for one in told)
    first_layer = [
        b.recipe.bytes - a.recipe.bytes
        for a, b in zip(without, counted)
        if a.recipe and [n for n in a.recipe.nodes if first(None, n)]
    ]
    assert first_layer and all(0 < more <= MORE for more in first_layer)
