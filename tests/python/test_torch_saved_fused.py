import pytest
import torch
from ucudnn.torch.kernels import Kernel
from ucudnn.torch.saved import fused as fused_module
from ucudnn.torch.saved.fused import fused, plane_of
from ucudnn.torch.saved.fused_source import NORMALS, THREADS, blocks_of, source_of
from ucudnn.torch.saved.recipes import Recipe
from ucudnn.torch.saved.recorded import Again
from ucudnn.torch.saved.recording import record
from ucudnn.torch.saved.steps import NORMALIZATION, Step
from ucudnn.torch.saved.storages import flat, layout_of
from ucudnn.torch.saved.trying import Trials, _kernels
from ucudnn.torch.saved.values import Source, Value

from host_kernels import HostKernel

RELU = "{0} < 0.0f ? 0.0f : {0}"
SUM = "__fadd_rn({0}, {1})"
@pytest.fixture
def on_the_host(monkeypatch):
    """Runs kernels on the CPU; gives their sources."""
    sources = []

    def kernel(source, name, device):
        sources.append(source)
        return HostKernel(source, name, device)

    monkeypatch.setattr(fused_module, "Kernel", kernel)
    monkeypatch.setattr(fused_module, "processors", lambda device: 2)
    fused_module._kernel.cache_clear()
    yield sources
    fused_module._kernel.cache_clear()


class Example:
    """A normalization of x, another of y, and their sum's ReLU."""

    def __init__(self, shape, dtype, form, twice):
        torch.manual_seed(4)
        self.x, self.y = (
            t.to(dtype).clone(memory_format=form)
            for t in torch.randn(2, *shape).unbind()
        )
        self.twice = twice
        self.constants = [t.clone() for t in torch.rand(4, shape[1]).add(0.5)]
        self.statistics = [t.clone() for t in torch.rand(4, shape[1]).add(0.5)]
        self.saved = [self.x, self.y, *self.statistics]
        self.values = [Value(None, 0) for _ in self.saved]
        for number, value in enumerate(self.values):
            value.saved = number

    def source(self, number):
        return Source(self.values[number], None, layout_of(self.saved[number]))

    def constant(self, number):
        tensor = self.constants[number]
        return Source(None, tensor, layout_of(tensor))

    def recipe(self, last=RELU):
        layout = layout_of(self.x)
        made = [Value(None, 0) for _ in range(4)]
        between = [Source(value, None, layout) for value in made]
        steps = [Step(NORMALIZATION, made[0], None, (
            self.source(0), self.constant(0), self.constant(1), self.source(2),
            self.source(3)))]  # fmt: skip
        if self.twice:
            steps.append(Step(NORMALIZATION, made[1], None, (
                self.source(1), self.constant(2), self.constant(3), self.source(4),
                self.source(5))))  # fmt: skip
        other = between[1] if self.twice else self.source(1)
        steps.append(Step(SUM, made[2], None, (between[0], other)))
        steps.append(Step(last, made[3], None, (between[2],)))
        return Recipe(steps, list(range(len(self.saved) if self.twice else 4)))

    def expected(self):
        """Rounded after each step, as PyTorch's operators do."""

        def normal(x, weight, bias, mean, invstd):
            shape = (1, -1) + (1,) * (x.dim() - 2)
            wide = (x.double() - mean.view(shape)) * (invstd * weight).view(shape)
            return (wide + bias.view(shape)).to(x.dtype)

        first = normal(self.x, *self.constants[:2], *self.statistics[:2])
        other = self.y
        if self.twice:
            other = normal(self.y, *self.constants[2:], *self.statistics[2:])
        return (first + other).relu()


FIRST, LAST = torch.contiguous_format, torch.channels_last


@pytest.mark.parametrize(
    "shape, form, dtype, twice",
    [
        # Vectors that reach into the next channel, and that do not.
        ((4, 3, 5, 5), FIRST, torch.float32, True),
        ((4, 3, 5, 5), FIRST, torch.bfloat16, False),
        ((4, 3, 4, 4), FIRST, torch.float32, False),
        # A last vector that is not full; some rounds of each thread.
        ((3, 5, 3, 7), LAST, torch.float32, False),
        ((40, 24, 8, 8), LAST, torch.bfloat16, True),
        ((7, 12), FIRST, torch.float32, False),
    ],
)
def test_computes_normalizations_sums_and_relu_in_one_pass(
    on_the_host, shape, form, dtype, twice
):
    example = Example(shape, dtype, form, twice)
    ways = fused(example.recipe())
    expected = flat(example.expected())
    most = 1e-6 if dtype == torch.float32 else 1e-2
    for way in ways:
        for _ in range(2):
            found = way.run(lambda number: flat(example.saved[number]))
        assert found.dtype == dtype
        off = (found - expected).abs().max()
        assert float(off) <= most * float(expected.abs().max())
        # Only what rounds otherwise before it is stored.
        assert most < 1e-5 or float((found != expected).float().mean()) < 0.02
    assert len(on_the_host) == len(ways) == len(NORMALS)


def test_takes_weights_of_the_inputs_type(on_the_host):
    example = Example((4, 3, 4, 4), torch.bfloat16, FIRST, False)
    example.constants = [t.to(torch.bfloat16) for t in example.constants]
    found = fused(example.recipe())[0].run(lambda number: flat(example.saved[number]))
    expected = flat(example.expected())
    assert torch.allclose(found.float(), expected.float(), atol=5e-2)


def test_leaves_other_recipes_alone():
    example = Example((4, 3, 5, 5), torch.float32, FIRST, False)
    assert fused(example.recipe())
    assert fused(example.recipe(last="")) == []  # of no known form
    relu = Step(RELU, Value(None, 0), None, (example.source(0),))
    assert fused(Recipe([relu], [0])) == []  # one pass as it is
    example.saved[1] = example.y.contiguous(memory_format=LAST)
    assert fused(example.recipe()) == []  # in another order


def test_refuses_other_types():
    example = Example((4, 3, 5, 5), torch.float64, FIRST, False)
    with pytest.raises(NotImplementedError):
        fused(example.recipe())[0].run(lambda number: flat(example.saved[number]))


def test_knows_where_channels_lie():
    x = torch.randn(4, 3, 5, 6)
    assert plane_of(layout_of(x)) == 30
    assert plane_of(layout_of(x.contiguous(memory_format=LAST))) == 1
    assert plane_of(layout_of(x[:, :, 0, 0].contiguous())) == 1
    assert plane_of(layout_of(x.transpose(2, 3))) is None
    assert plane_of(layout_of(x[1:])) is None
    assert plane_of(layout_of(x[0, 0, 0])) is None


def test_threads_keep_their_channels():
    for channels in (8, 24, 64, 1000, 2039):
        step = blocks_of(1 << 24, 8, channels, 1, 132) * THREADS * 8
        assert step % channels == 0
    assert blocks_of(1 << 24, 8, 64, 49, 132) * THREADS * 8 == 1 << 24


def test_counts_many_elements_with_64_bits():
    text = ["const float y0 = x0;"]
    narrow, wide = (
        source_of(text, "y0", 1, 0, NORMALS[0], torch.float32, False, 1, long) for long in (False, True)
    )
    assert "typedef unsigned Index" in narrow
    assert "typedef unsigned long long Index" in wide


def test_names_the_reason_without_a_compiler():
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises((OSError, RuntimeError, AssertionError)):
        Kernel("", "again", torch.device("cuda", 0))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(8, 8, 1, bias=False)
        self.norm = torch.nn.BatchNorm2d(8)

    def forward(self, x):
        return torch.relu(self.norm(self.convolution(x)) + x)


def test_computes_through_five_blocks(on_the_host, monkeypatch):
    """A deep recipe in one pass, as in the recording of a step on a GPU."""
    apart = {}
    best = Trials.best

    def compared(self, recipe, elements, *like):
        if not recipe.by_element:
            return best(self, recipe, elements, *like)
        ways = fused(recipe)
        assert len(ways) == len(NORMALS)
        result = ways[0].run(self._copies.fetched)
        apart[len(recipe.steps)] = float((result - elements).abs().max())
        return best(self, recipe, elements, *like)

    monkeypatch.setattr(Trials, "best", compared)
    torch.manual_seed(7)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 1), *(Block() for _ in range(6))
    )
    x = torch.randn(2, 3, 8, 8)
    record(lambda: model(x).square().sum().backward(), torch.device("cpu"), True)
    assert sorted(apart) == [3, 6, 9, 12, 15]
    assert max(apart.values()) < 1e-5


def test_compiles_only_what_rounds_as_the_shallow_recipe():
    recipe = Example((2, 3, 4, 4), torch.float32, torch.contiguous_format, True).recipe()
    every = fused(recipe)
    assert [one.normal for one in _kernels(recipe, None)] == list(NORMALS)
    assert [one.normal for one in _kernels(recipe, Again(recipe, 1.0, 0, True))] == list(
        NORMALS
    )
    for one in every:
        (same,) = _kernels(recipe, Again(one, 1.0, 0, True))
        assert same.normal == one.normal
