import pytest

torch = pytest.importorskip("torch")

import copy
import gc
from dataclasses import replace

import ucudnn
import ucudnn.torch
from torch import nn
from ucudnn.torch.saved import planned_memory
from ucudnn.torch.saved.applying import Applier
from ucudnn.torch.saved.describing import merged
from ucudnn.torch.saved.links import HostLink
from ucudnn.torch.saved.recording import Recorder
from ucudnn.torch.saved.storages import weak_reference


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.other = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.relu(self.norm(self.first(x)))
        out = self.other(self.second(out))
        out += x
        return self.relu(out)


def network():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.MaxPool2d(2), Block(8), Block(8), nn.Dropout(0.1),
        nn.Conv2d(8, 8, 1), nn.Sigmoid(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
    )  # fmt: skip


def data(batch=8):
    torch.manual_seed(2)
    return torch.randn(batch, 3, 16, 16), torch.randint(0, 10, (batch,))


def stepping(model, parts=1):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        for images, labels in zip(x.chunk(parts), y.chunk(parts)):
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def trained(step, model, steps=3):
    torch.manual_seed(3)
    losses = [float(step(*data())) for _ in range(steps)]
    return [torch.tensor(losses), *model.state_dict().values()]


def planned(share, allow=("offload", "recompute"), parts=1, **options):
    """A model, and its step's plan within a share of the plain peak."""
    model = network()
    step = stepping(model, parts)
    whole = ucudnn.torch.memory(step, *data(), budget="1GiB", quiet=True)
    return model, ucudnn.torch.memory(
        step, *data(), budget=int(whole.plain_peak * share), allow=allow,
        quiet=True, **options,
    )  # fmt: skip


def equal(some, others):
    return all(torch.equal(a, b) for a, b in zip(some, others))


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("share", [0.8, 0.5])
def test_offload_gives_the_same_bits(share, parts):
    plain = network()
    expected = trained(stepping(plain, parts), plain)
    model, plan = planned(share, "offload", parts)
    assert plan.moved and not plan.recomputed
    assert plan.predicted_peak <= plan.budget
    assert equal(trained(plan, model), expected)


class Link(HostLink):
    """Copies that take their time beside what is computed."""

    told = 1e6, None

    def rates(self):
        return 1e6, 1e6

    def reached(self, step):
        step()
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
    link, asked, best = Link(), [], planned_memory._best
    link.told = told

    def asked_for(recording, device, rates, budget, ways):
        asked.append(rates)
        return best(recording, device, rates, budget, ways)

    monkeypatch.setattr(planned_memory, "link_of", lambda device: link)
    monkeypatch.setattr(planned_memory, "_best", asked_for)
    model, plan = planned(0.5, "offload")
    assert asked[-len(rates):] == rates
    assert plan.moved and equal(trained(plan, model), expected)


def test_plans_again_from_what_was_recorded(monkeypatch):
    link = Link()
    link.told = 9e5, None
    monkeypatch.setattr(planned_memory, "link_of", lambda device: link)
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

    monkeypatch.setattr(planned_memory, "link_of", lambda device: link)
    monkeypatch.setattr(planned_memory, "_refuse_host", refused)
    _, plan = planned(0.5, "offload")
    assert len(made) == 4 and plan.pinned_bytes == made[1]


def test_recomputes_relu_pools_and_normalizations():
    plain = network()
    expected = trained(stepping(plain), plain)
    model, plan = planned(0.75, "recompute")
    assert plan.recomputed and not plan.moved and plan.pinned_bytes == 0
    found = trained(plan, model)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, expected))


def test_computes_again_as_often_as_planned(monkeypatch):
    solve = planned_memory.solve_recorded_step

    def twice(*arguments, **keywords):
        plan = solve(*arguments, **keywords)
        actions = []
        for one in plan.actions:
            again = [replace(one, action="drop"), one]
            actions += [one, *(again if one.action == "recompute" else [])]
        return replace(plan, actions=actions)

    monkeypatch.setattr(planned_memory, "solve_recorded_step", twice)
    test_recomputes_relu_pools_and_normalizations()


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
            plan = ucudnn.torch.memory(
                step, *data(), budget=budget, allow="recompute", quiet=True
            )
        except ucudnn.NoPlan as refused:
            budget = int(str(refused).rpartition(" ")[2])
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
        for recipe in plan._applier._script.recipes.values()
        for step in recipe.steps
        if step.value.call.name == "convolution"
    ]


@pytest.mark.parametrize("cast", [False, True])
def test_computes_convolutions_again(cast, monkeypatch):
    assert "aten::convolution" in computed_again(deep_network(), monkeypatch, cast)


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
    script = planned_memory._script

    def noted(solved):
        told = script(solved)
        read.extend(n for r in told.recipes.values() for n in r.reads if told.stays[n])
        return told

    monkeypatch.setattr(planned_memory, "_script", noted)
    computed_again(model, monkeypatch)
    assert read


def test_computes_planned_convolutions_again(eager, monkeypatch, tmp_path):
    monkeypatch.setenv("UCUDNN_CACHE_DIR", str(tmp_path))
    model = deep_network()
    ucudnn.torch.convert(model, data()[0], quiet=True)
    assert "ucudnn::convolution" in computed_again(model, monkeypatch)


@pytest.mark.parametrize("allow", ["recompute", ("offload", "recompute")])
def test_keeps_the_indices_of_pools_in_16_bits(allow):
    def stepping_on(model):
        def step(x, y):
            loss_of(model, x, y).backward()

        return step

    def pooling():
        torch.manual_seed(1)
        return nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32, 10),
        )  # fmt: skip

    def gradients(run, model):
        run(*data())
        return [p.grad for p in model.parameters()]

    plain = pooling()
    expected = gradients(stepping_on(plain), plain)
    model = pooling()
    step = stepping_on(model)
    whole = ucudnn.torch.memory(step, *data(), budget="1GiB", quiet=True)
    assert whole.narrowed == []
    share = 0.9 if allow == "recompute" else 0.7
    plan = ucudnn.torch.memory(
        step, *data(), budget=int(whole.plain_peak * share), allow=allow, quiet=True
    )
    assert len(plan.narrowed) == 2 and "2 are kept in fewer bits" in str(plan)
    assert plan.plain_peak == whole.plain_peak
    assert equal(gradients(plan, model), expected)
    told = plan.check(steps=1)
    assert told.measured_peak <= told.predicted_peak <= plan.budget


@pytest.mark.parametrize(
    "side, bytes", [(256, 2 if hasattr(torch, "uint16") else 4), (288, 4)]
)
def test_pools_on_large_planes_keep_as_few_bits_as_they_can(side, bytes):
    model = nn.MaxPool2d(2)
    x = torch.randn(1, 1, side, side, requires_grad=True)

    def step():
        model(x).sum().backward()

    whole = ucudnn.torch.memory(step, budget="1GiB", device="cpu", quiet=True)
    plan = ucudnn.torch.memory(
        step, budget=whole.plain_peak - 1, device="cpu", quiet=True
    )
    assert len(plan.narrowed) == 1
    size = (side // 2) ** 2 * (8 - bytes)
    assert whole.plain_peak - plan.predicted_peak == size


def test_deep_recipes_read_nothing_that_is_computed_again(monkeypatch):
    """As residual blocks do otherwise, each the one before it."""

    def chain():
        torch.manual_seed(1)
        return nn.Sequential(
            nn.Conv2d(3, 8, 3), *(Block(8) for _ in range(8)),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
        )  # fmt: skip

    told = {}
    record = Recorder.record

    def recorded(self, run, allow):
        recording = record(self, run, allow)
        told["storages"] = [replace(saved) for saved in recording.storages]
        for saved in recording.storages:
            saved.again = saved.deep
        return recording

    plain = chain()
    expected = trained(stepping(plain), plain)
    model = chain()
    step = stepping(model)
    whole = ucudnn.torch.memory(step, *data(), budget="1GiB", quiet=True)
    monkeypatch.setattr(Recorder, "record", recorded)
    plan = ucudnn.torch.memory(
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


def test_takes_the_faster_of_shallow_and_deep_recipes(monkeypatch):
    times = iter([2000.0, 1000.0])
    plain = planned_memory._solved

    def solved(*arguments):
        return replace(plain(*arguments), time_us=next(times))

    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), Block(8), Block(8), nn.Flatten(), nn.LazyLinear(10)
    )
    step = stepping(model)
    step(*data())
    monkeypatch.setattr(planned_memory, "_solved", solved)
    plan = ucudnn.torch.memory(step, *data(), budget="1GiB", quiet=True)
    assert plan.predicted_ms == 1.0 and next(times, None) is None


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
        assert "predicted" in str(told) and "MiB" in str(plan)


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


def test_changes_nothing_while_it_measures():
    model = network()
    step = stepping(model)
    before = {n: t.clone() for n, t in model.state_dict().items()}
    images, labels = data()
    state = torch.get_rng_state()
    plan = ucudnn.torch.memory(step, images, labels, budget="1GiB", quiet=True)
    plan.check(steps=1)
    assert all(torch.equal(before[n], t) for n, t in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


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


def test_leaves_part_of_a_gpus_budget_to_its_allocator():
    assert planned_memory.without_reserve(1280) == 1260
    for size in (0, 1, 62, 63, 64, 12345678901):
        budget = planned_memory.with_reserve(size)
        assert planned_memory.without_reserve(budget) >= size
        assert budget == 0 or planned_memory.without_reserve(budget - 1) < size


def test_names_the_least_budget_and_keeps_it():
    model = network()
    step = stepping(model)
    with pytest.raises(ucudnn.NoPlan) as refused:
        ucudnn.torch.memory(step, *data(), budget=1000, quiet=True)
    least = int(str(refused.value).rpartition(" ")[2])
    assert "1000" in str(refused.value)
    plan = ucudnn.torch.memory(step, *data(), budget=least, quiet=True)
    assert plan.predicted_peak <= least


def refused(step, *arguments, **options):
    options.setdefault("budget", "1GiB")
    with pytest.raises(ucudnn.InvalidArgument) as error:
        ucudnn.torch.memory(step, *arguments, quiet=True, **options)
    return str(error.value)


def loss_of(model, x, y):
    return nn.functional.cross_entropy(model(x), y)


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


def test_refuses_a_host_budget_that_is_too_small():
    _, plan = planned(0.5, "offload")
    with pytest.raises(ucudnn.InvalidArgument) as error:
        planned(0.5, "offload", host_budget=1000)
    assert "host_budget: 1000 bytes" in str(error.value)
    least = int(str(error.value).partition("moves ")[2].split()[0])
    _, fits = planned(0.5, "offload", host_budget=least)
    assert fits.pinned_bytes <= least


def test_refuses_arguments_it_cannot_read():
    step = stepping(network())
    assert "memory: allow: 'swap'" in refused(step, *data(), allow=("swap",))
    assert "is not a size" in refused(step, *data(), budget="half")


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="no torch.compile")
def test_refuses_compiled_models():
    model = torch.compile(network())
    assert "activation_memory_budget" in refused(stepping(model), *data())


def test_merges_segments_between_which_nothing_planned_happens():
    step = {
        "segments": [
            {
                "time_us": 1 << s,
                "bytes": (s + (20 if s in (6, 7) else 0)) << 10,
                "backward": s >= 7,
            }
            for s in range(12)
        ],
        "tensors": [{"bytes": 8 << 10, "hook": 3, "held": 5, "uses": [8, 9]}],
        "link": {"d2h_bytes_per_us": 1, "h2d_bytes_per_us": 1},
    }
    told, hooks = merged(step)
    # It is saved by hook 3, let go of at 5, and needed from 7 on and until 9.
    assert hooks == [0, 3, 5, 7, 8, 9]
    assert [s["time_us"] for s in told["segments"]] == [1, 14, 48, 192, 256, 512, 3072]
    assert [s["bytes"] >> 10 for s in told["segments"]] == [0, 3, 5, 27, 8, 9, 11]
    assert [s["backward"] for s in told["segments"]] == [False] * 3 + [True] * 4
    assert told["tensors"] == [{"bytes": 8 << 10, "hook": 1, "held": 2, "uses": [4, 5]}]
    assert told["link"] == step["link"]

    def times(one):
        return [
            ucudnn.solve_recorded_step(one, budget).time_us
            for budget in (1 << 20, 30 << 10)
        ]

    assert times(told) == times(step) and times(step)[0] < times(step)[1]
