import pytest
import torch
from torch.nn import functional
from ucudnn.errors import Error
from ucudnn.torch.normalization import planes
from ucudnn.torch.normalization.calls import call_of
from ucudnn.torch.normalization.fused import FusedNorm
from ucudnn.torch.normalization.plane_source import source_of, width_of

from host_kernels import HostKernel

EPS, MOMENTUM = 1e-5, 0.1


@pytest.fixture
def on_the_host(monkeypatch):
    """Runs the kernels on the CPU."""
    monkeypatch.setattr(planes, "Kernel", HostKernel)
    monkeypatch.setattr(planes, "processors", lambda device: 3)
    planes._kernels.cache_clear()
    yield
    planes._kernels.cache_clear()


class Operands:
    def __init__(self, shape, dtype, adds, mean=0.5):
        torch.manual_seed(3)
        self.x = torch.randn(shape).add(mean).to(dtype)
        self.gradient = torch.randn(shape).to(dtype)
        self.addend = torch.randn(shape).to(dtype) if adds else None
        self.weight = torch.rand(shape[1]) - 0.3
        self.bias = torch.rand(shape[1]) - 0.5
        self.statistics = [torch.rand(shape[1]), torch.rand(shape[1])]

    def by_plan(self):
        call = call_of(self.x, self.addend is not None)
        fused = FusedNorm(call, planes.PlaneNorm(call))
        running = [t.clone() for t in self.statistics]
        out, mean, inverse, reserve = fused.forward(
            self.x, self.addend, self.weight, self.bias, *running, MOMENTUM, EPS
        )
        gradients = fused.backward(
            self.gradient, self.x, self.weight, self.bias, mean, inverse, reserve,
            EPS,
        )  # fmt: skip
        return out, gradients, running, (mean, inverse)

    def expected(self):
        """In double precision."""
        tensors = [self.x, self.addend, self.weight, self.bias]
        x, addend, weight, bias = (
            t if t is None else t.double().requires_grad_() for t in tensors
        )
        running = [t.double() for t in self.statistics]
        out = functional.batch_norm(x, *running, weight, bias, True, MOMENTUM, EPS)
        out = torch.relu(out if addend is None else out + addend)
        wanted = [t for t in (x, addend, weight, bias) if t is not None]
        told = list(torch.autograd.grad(out, wanted, self.gradient.double()))
        if addend is None:
            told.insert(1, None)
        return out.detach(), told, running


def close(some, other, off):
    """Within `off` of the largest one."""
    return float((some.double() - other).abs().max() / other.abs().max()) <= off


# Packs of four elements and of one; parts of a channel that differ in size, and
# one part; more threads than elements.
SHAPES = [(5, 3, 16, 20), (7, 2, 15, 15), (3, 40, 8, 8), (2, 3, 3, 3)]


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_is_batch_norm_with_what_follows(on_the_host, shape, adds):
    operands = Operands(shape, torch.float32, adds)
    out, gradients, running, _ = operands.by_plan()
    expected, others, statistics = operands.expected()
    assert close(out, expected, 1e-6)
    for one, other in zip(gradients, others):
        assert (one is None) == (other is None)
        assert one is None or close(one, other, 1e-5)
    for one, other in zip(running, statistics):
        assert close(one, other, 1e-6)


@pytest.mark.parametrize("adds", [False, True])
def test_rounds_bfloat16_once(on_the_host, adds):
    operands = Operands((4, 3, 8, 12), torch.bfloat16, adds)
    out, gradients, _, _ = operands.by_plan()
    expected, others, _ = operands.expected()
    assert close(out, expected, 2**-8)
    assert close(gradients[0], others[0], 2**-6)


def test_does_not_cancel_where_the_mean_is_large(on_the_host):
    operands = Operands((4, 2, 16, 16), torch.float32, False, mean=1000.0)
    _, _, _, (mean, inverse) = operands.by_plan()
    x = operands.x.double()
    variance = x.var((0, 2, 3), unbiased=False)
    assert close(mean, x.mean((0, 2, 3)), 1e-7)
    assert close(inverse, (variance + EPS).rsqrt(), 1e-5)


def test_rounds_as_recipes_do(on_the_host):
    """So memory plans compute the same bits again."""
    operands = Operands((4, 3, 8, 8), torch.float32, True)
    out, _, _, statistics = operands.by_plan()
    mean, inverse = (t.view(1, -1, 1, 1) for t in statistics)
    weight, bias = (t.view(1, -1, 1, 1) for t in (operands.weight, operands.bias))
    first = (weight * (operands.x - mean)).double() * inverse + bias
    assert torch.equal(out, torch.relu(first.float() + operands.addend))


def test_passes_what_is_not_a_number_on(on_the_host):
    operands = Operands((2, 2, 4, 4), torch.float32, False)
    operands.x[1, 0, 2, 3] = float("nan")
    out, gradients, _, _ = operands.by_plan()
    assert bool(out[:, 0].isnan().all()) and not bool(out[:, 1].isnan().any())
    assert not bool(gradients[0][:, 1].isnan().any())


def test_reads_packs_that_lie_in_one_plane():
    assert width_of(torch.float32, 56 * 56) == 4
    assert width_of(torch.float16, 56 * 56) == 8
    assert width_of(torch.float16, 14 * 14) == 4
    assert width_of(torch.float32, 7 * 7) == 1


def test_names_the_reason_without_a_gpu():
    call = call_of(torch.zeros(1, 1, 2, 2), False)
    with pytest.raises(Error, match="channels first, its kernels: cpu is no GPU"):
        planes.PlaneNorm(call)


def test_refuses_more_elements_than_it_counts():
    call = call_of(torch.empty(1, 1, 1, 1), False)._replace(
        input=(2, 1024, 1024, 1024)
    )
    with pytest.raises(Error, match="more than 2147483647 elements"):
        planes.PlaneNorm(call)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("adds", [False, True])
def test_has_all_kernels_in_one_source(dtype, adds):
    source = source_of(dtype, 4, adds)
    for name in ("moments", "forward", "reduce", "backward"):
        assert source.count(f" {name}(\n") == 1
