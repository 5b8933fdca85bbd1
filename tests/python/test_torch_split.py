"""ucudnn.torch.split: parts beside the same network split by hand, and what stays."""

import copy
import itertools
import pickle
import random

import pytest
import torch
from torch import nn
from torch.nn import functional

import ucudnn
import ucudnn.torch
from ucudnn.torch.splitting.cuts import NoCut, Step, Window, find_cuts


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, 1, 1)
        self.way = nn.Conv2d(before, after, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = torch.relu(self.norm(self.first(x)))
        y = self.second(y)
        y += self.way(x)
        return functional.relu(y, inplace=True)


class Network(nn.Module):
    """Seven convolutions; the fourth, fifth and sixth end in one tensor."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 5, 1, 2)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.blocks = nn.Sequential(Block(4, 4, 1), Block(4, 6, 2))
        self.last = nn.Conv2d(6, 6, 3, padding="same")
        self.head = nn.Linear(6, 3)

    def forward(self, x, y):
        x = self.blocks(self.pool(self.stem(x)))
        x = functional.adaptive_avg_pool2d(torch.relu(self.last(x)), 1)
        return functional.cross_entropy(self.head(torch.flatten(x, 1)), y)


def made(kind=Network, seed=3):
    torch.manual_seed(seed)
    return kind().double()


def images(count=3, size=24):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(count, 3, size, size, generator=generator).double()
    return x, torch.randint(0, 3, (count,), generator=generator)


def gradients(model, x, y):
    model.zero_grad()
    loss = model(x, y)
    loss.backward()
    return loss.detach(), [p.grad.clone() for p in model.parameters()]


def close(some, others):
    return all(torch.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(some, others))


def by_hand(model, x, y):
    """`Network` split by 2 rows and 1 column at depth 0.4: in two parts up to the first
    block's sum, of 6 of 12 rows. 3x3 windows are cut in the middle, the pool, whose
    padding is 1 of a window of 3 rows with stride 2, before row 11 or 12 of 24: in the
    middle, rounded down, is 11, where its first window behind has none of padding, and
    the last before misses one row."""
    joined = []
    for part, above, below in ((x[:, :, :11], 1, 1), (x[:, :, 11:], 0, 1)):
        z = model.stem(part)
        padded = functional.pad(z, (1, 1, above, below), value=-torch.inf)
        z = functional.max_pool2d(padded, 3, 2)
        block = model.blocks[0]
        z = block.second(torch.relu(block.norm(block.first(z)))) + z
        joined.append(z)
    z = torch.relu(torch.cat(joined, 2))
    z = model.last(model.blocks[1](z))
    z = functional.adaptive_avg_pool2d(torch.relu(z), 1)
    return functional.cross_entropy(model.head(torch.flatten(z, 1)), y)


def test_the_network_equals_one_that_was_split_by_hand():
    model, hand = made(), made()
    told = ucudnn.torch.split(model, *images(), depth=0.4, parts=(2, 1))
    assert (told.convolutions, told.of, told.join) == (3, 7, "add (add)")
    loss, ours = gradients(model, *images())
    expected = by_hand(hand, *images())
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-12)
    assert close(ours, [p.grad for p in hand.parameters()])
    assert torch.equal(model.blocks[0].norm.running_mean, hand.blocks[0].norm.running_mean)
    whole, _ = gradients(made(), *images())
    assert abs(whole - loss) > 1e-6  # it is another network


@pytest.mark.parametrize("parts", [(2, 2), (1, 3), (3, 2)])
@pytest.mark.parametrize("depth", [0.1, 0.5, 1.0])
def test_without_windows_that_cross_a_cut_it_is_the_same_network(depth, parts):
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(
                nn.Conv2d(3, 4, 2, 2), nn.SiLU(), nn.AvgPool2d(2), nn.Conv2d(4, 5, 1),
                nn.GELU(), nn.MaxPool2d(1), nn.Conv2d(5, 3, 1),
            )  # fmt: skip

        def forward(self, x, y):
            return functional.cross_entropy(self.layers(x).mean((2, 3)), y)

    model, whole = made(Plain), made(Plain)
    ucudnn.torch.split(model, *images(), depth=depth, parts=parts)
    (loss, ours), (expected, others) = (gradients(m, *images()) for m in (model, whole))
    assert loss == pytest.approx(expected.item(), rel=1e-12)
    assert close(ours, others)


def test_evaluation_and_what_is_kept_are_those_of_the_whole_network():
    model, whole = made(), made()
    told = ucudnn.torch.split(model, *images(), depth=1, parts=(2, 2))
    assert list(model.state_dict()) == list(whole.state_dict())
    assert close(model.state_dict().values(), whole.state_dict().values())
    assert [n for n, _ in model.named_modules()] == [n for n, _ in whole.named_modules()]
    split = model(*images())
    whole(*images())
    whole.load_state_dict(model.state_dict())
    assert torch.equal(model.eval()(*images()), whole.eval()(*images()))
    unlike, _ = images(2, 40)  # which the split one would refuse
    assert model(unlike, images(2)[1]).shape == ()
    told.revert()
    assert type(model) is Network
    model.train(), whole.train()
    assert torch.equal(model(*images()), whole(*images()))
    assert not torch.equal(model(*images()), split)


def test_layers_and_parameters_are_read_as_they_are_when_it_runs():
    model = made()
    ucudnn.torch.split(model, *images(), depth=0.4, parts=(2, 1))
    other = made(seed=4)
    model.load_state_dict(other.state_dict(), assign=True)
    model.stem, model.head = other.stem, other.head
    assert model(*images()) == by_hand(other, *images())


def test_copies_are_split_and_pickles_whole():
    model = made()
    ucudnn.torch.split(model, *images(), depth=1, parts=(2, 2))
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.stem.weight.add_(1)
    assert other(*images()) != model(*images())
    other.load_state_dict(model.state_dict())
    assert other(*images()) == model(*images())
    assert type(pickle.loads(pickle.dumps(other))) is Network


def test_stochastic_cuts_are_drawn_in_each_step():
    model = made()
    told = ucudnn.torch.split(
        model, *images(size=48), depth=0.4, parts=(2, 1), stochastic=True
    )
    assert "cut anew" in str(told)
    torch.manual_seed(1)
    losses = [model(*images(size=48)).item() for _ in range(12)]
    # Of 24 rows up to 2 to either side, at most.
    assert 2 <= len(set(losses)) <= 5
    torch.manual_seed(1)
    assert [model(*images(size=48)).item() for _ in range(12)] == losses
    with pytest.raises(ucudnn.InvalidArgument, match="compile: the model: split with stoch"):
        ucudnn.torch.compile(model)
    # Dynamo leaves it alone.
    torch.manual_seed(1)
    compiled = torch.compile(model, backend="aot_eager")
    assert compiled(*images(size=48)).item() == losses[0]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UCUDNN_CACHE_DIR", str(tmp_path))


def test_compiled_within_a_budget_it_computes_the_same(cache):
    model, plain = made(), made()
    for one in (model, plain):
        ucudnn.torch.split(one, *images(), depth=0.6, parts=(2, 2))
    torch._dynamo.reset()
    compiled = ucudnn.torch.compile(model, budget="1GiB", compiler="aot_eager")
    compiled(*images()).backward()
    plain(*images())  # the same statistics
    budget = ucudnn.torch.plan_of(model).saved_bytes * 2 // 3
    compiled = ucudnn.torch.compile(model, budget=budget, compiler="aot_eager")
    loss, ours = gradients(compiled, *images())
    plan = ucudnn.torch.plan_of(compiled)
    assert plan.recomputed and plan.saved_bytes <= budget
    expected, others = gradients(plain, *images())
    assert loss == pytest.approx(expected.item(), rel=1e-12)
    assert close(ours, others)
    whole = plain.eval()(*images()).item()
    assert compiled.eval()(*images()).item() == pytest.approx(whole, rel=1e-9)


def test_planned_memory_holds_fewer_tensors_of_a_split_network():
    model, plain = made(), made()
    for one in (model, plain):
        ucudnn.torch.split(one, *images(), depth=0.6, parts=(2, 2))
    for _ in range(5):
        with ucudnn.torch.memory(budget="150KiB", quiet=True) as plan:
            loss, ours = gradients(model, *images())
        expected, others = gradients(plain, *images())
        assert loss == pytest.approx(expected.item(), rel=1e-12)
        assert close(ours, others)
    assert plan.moved or plan.recomputed


def test_ranks_train_it_as_any_other_model(tmp_path):
    torch.distributed.init_process_group(
        "gloo", rank=0, world_size=1, init_method=f"file://{tmp_path}/rendezvous"
    )
    try:
        model, plain = made(), made()
        wrapped = nn.parallel.DistributedDataParallel(model)
        for one in (wrapped, plain):
            ucudnn.torch.split(one, *images(), depth=0.6, parts=(2, 2))
        loss, ours = gradients(wrapped, *images())
        expected, others = gradients(plain, *images())
        assert loss == expected and close(ours, others)
    finally:
        torch.distributed.destroy_process_group()


def test_other_batches_are_accepted_and_other_images_refused():
    model = made()
    ucudnn.torch.split(model, *images(), depth=0.4, parts=(2, 1))
    assert torch.isfinite(model(*images(1)))
    with pytest.raises(ucudnn.InvalidArgument, match=r"of \[26, 26\]; \[24, 24\]"):
        model(*images(3, 26))


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.gate = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1)
        self.last = nn.Conv2d(4, 3, 3)

    def forward(self, x, y):
        x = self.first(x)
        x = x * torch.sigmoid(self.gate(functional.adaptive_avg_pool2d(x, 1)))
        return functional.cross_entropy(self.last(x).mean((2, 3)), y)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 3)

    def forward(self, x, y):
        x = self.layer(x)
        if x.sum() > 0:
            x = -x
        return functional.cross_entropy(x.mean((2, 3)), y)


REFUSED = {
    "split: depth: 0;": (made, dict(depth=0)),
    "split: depth: 1.5;": (made, dict(depth=1.5)),
    "split: depth: 1, after which": (lambda: made(Branchless), {}),
    "split: parts: 4;": (made, dict(parts=4)),
    "split: parts: 0;": (made, dict(parts=(0, 2))),
    "split: parts: 1 x 1;": (made, dict(parts=(1, 1))),
    "split: parts: 9 x 9;": (made, dict(parts=(9, 9))),
    "7 parts of ": (made, dict(parts=(7, 1))),
    "split: the model: in evaluation": (lambda: made().eval(), {}),
    "split: the model: TraceError": (lambda: made(Branches), {}),
    r"split: adaptive_avg_pool2d \(adaptive_avg_pool2d\): it may read more": (
        lambda: made(Attends), {},
    ),
}  # fmt: skip


class Branchless(nn.Module):
    """Whose last convolution has no image."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 3, 3), nn.Conv1d(3, 3, 1)

    def forward(self, x, y):
        return functional.cross_entropy(self.last(self.first(x).flatten(2)).mean(2), y)


@pytest.mark.parametrize("told", REFUSED)
def test_what_cannot_be_split_is_refused_by_name(told):
    make, options = REFUSED[told]
    model = make()
    with pytest.raises(ucudnn.InvalidArgument, match=told):
        ucudnn.torch.split(model, *images(), **{"depth": 1, "parts": (2, 2), **options})
    assert type(model) is type(make())


def test_a_split_model_is_not_split_again_nor_reverted_twice():
    model = made()
    told = ucudnn.torch.split(model, *images(), depth=0.4, parts=(2, 1))
    with pytest.raises(ucudnn.InvalidArgument, match="split already"):
        ucudnn.torch.split(model, *images(), depth=0.4, parts=(2, 1))
    told.revert()
    with pytest.raises(ucudnn.InvalidArgument, match="changed since"):
        told.revert()


def outputs_of(window, size):
    return (size + window.before + window.after - window.extent) // window.stride + 1


def solutions(steps, sizes, last, place):
    """By trying all."""
    ranges = [range(1, size) for size in sizes]
    ranges[last] = [place]
    for cuts in itertools.product(*ranges):
        for step in steps:
            low, high = step.window.cuts_for(cuts[step.output])
            if not low <= cuts[step.input] <= high:
                break
        else:
            yield cuts


def test_cuts_are_found_exactly_where_there_are_some():
    numbers = random.Random(11)
    found = missed = 0
    for _ in range(400):
        windows = [
            Window(extent, numbers.randint(1, 2), *(numbers.randrange(extent) for _ in "ba"))
            for extent in (numbers.randint(1, 4) for _ in range(3))
        ]
        sizes = [numbers.randint(6, 12)]
        for window in windows[:2]:
            sizes.append(outputs_of(window, sizes[-1]))
        # As the way around a block of layers.
        around = windows[2]._replace(stride=windows[0].stride * windows[1].stride)
        if min(sizes) < 2 or outputs_of(around, sizes[0]) != sizes[2]:
            continue
        steps = [Step(0, 1, windows[0]), Step(1, 2, windows[1]), Step(0, 2, around)]
        place = numbers.randrange(1, sizes[2])
        every = list(solutions(steps, sizes, 2, place))
        try:
            cuts = find_cuts(steps, dict(enumerate(sizes)), 2, place)
        except NoCut:
            assert not every
            missed += 1
        else:
            assert tuple(cuts[n] for n in range(3)) in every
            found += 1
    assert found > 20 and missed > 1


def test_padding_stands_for_what_windows_lack_at_inner_edges():
    whole = Window(3, 1, 1, 1)
    assert whole.cuts_for(3) == (2, 4)
    assert whole.pads((0, 3), (0, 3), 6) == (1, 1)
    assert whole.pads((0, 4), (0, 3), 6) == (1, 0)
    assert whole.pads((4, 6), (3, 6), 6) == (2, 1)
