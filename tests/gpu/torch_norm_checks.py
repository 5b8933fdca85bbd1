"""Checks of normalizations fused with the sum and the ReLU behind them, for
torch_convert_checks.py: on the current GPU, in half precision, channels last, and
channels first."""

import contextlib
import copy

import torch
from torch import nn

import ucudnn
import ucudnn.torch
from torch_common import distance, warm_up
from ucudnn.torch.normalization import contest
from ucudnn.torch.normalization.fused import FusedNorm

# The most that fused gradients may be off those in FP32, of what PyTorch's are.
_MOST_OFF = 1.25


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.other = nn.BatchNorm2d(channels)

    def forward(self, x):
        out = torch.relu_(self.norm(self.first(x)))
        out = self.other(self.second(out))
        out += x
        return torch.relu_(out)


def network(form=torch.channels_last):
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), Block(64),
        Block(64), nn.MaxPool2d(2), nn.Conv2d(64, 128, 3), nn.BatchNorm2d(128),
        nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(128, 10),
    ).cuda().to(memory_format=form)  # fmt: skip


NORMS = 6


def images(form=torch.channels_last):
    torch.manual_seed(2)
    return torch.randn(32, 3, 32, 32, device="cuda").contiguous(memory_format=form)


@contextlib.contextmanager
def counting():
    """The fused normalizations that run within, forward."""
    runs, plain = [], FusedNorm.forward

    def forward(self, *operands):
        runs.append(self.call)
        return plain(self, *operands)

    FusedNorm.forward = forward
    try:
        yield runs
    finally:
        FusedNorm.forward = plain


def converted(model, x, dtype):
    """However slow they are: results are checked here."""
    least, contest._LEAST_GAIN = contest._LEAST_GAIN, -1e9
    try:
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            done = ucudnn.torch.convert(
                model, x, seconds=0, normalizations=True, quiet=True)
    finally:
        contest._LEAST_GAIN = least
    assert len(done._fused) == NORMS, str(done)
    done.apply()
    return done


def gradients(model, x, dtype):
    with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
        loss = model(x).float().square().mean()
    return torch.autograd.grad(loss, list(model.parameters()))


def as_exact_as_pytorch(dtype, form=torch.channels_last):
    def check():
        plain, x = network(form), images(form)
        double = copy.deepcopy(plain).double()
        exact = [g.float() for g in gradients(double, x.double(), torch.float32)]
        model = copy.deepcopy(plain)
        done = converted(model, x, dtype)
        with counting() as runs:
            off = distance(gradients(model, x, dtype), exact)
        torchs = distance(gradients(plain, x, dtype), exact)
        statistics = max(
            float((a - b).abs().max() / b.abs().max()) for a, b in zip(
                model.buffers(), plain.buffers()) if b.is_floating_point())
        model.eval(), plain.eval()
        with torch.no_grad():
            # What evaluation gives depends on the statistics.
            apart = float((model(x) - plain(x)).abs().max())
        done.revert()
        held = (len(runs) == NORMS and off <= _MOST_OFF * torchs
                and statistics < 1e-2 and type(model[1]) is nn.BatchNorm2d)
        return held, (f"{len(runs)} ran; gradients {off:.1e} off double "
                      f"precision, PyTorch's "
                      f"{torchs:.1e}; statistics {statistics:.1e} apart, evaluated "
                      f"{apart:.1e}")
    return check


def steps_of(model, x):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad(set_to_none=True)
        # No casts are kept from before a graph is captured.
        with torch.autocast("cuda", torch.float16, cache_enabled=False):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def captured(form=torch.channels_last):
    losses = []
    for use_graph in (False, True):
        model, x = network(form), images(form)
        converted(model, x, torch.float16)
        step = steps_of(model, x)
        warm_up(step)
        if not use_graph:
            losses.append([float(step()) for _ in range(5)])
            continue
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), counting() as runs:
            loss = step()
        replayed = []
        for _ in range(5):
            graph.replay()
            replayed.append(float(loss))
        losses.append(replayed)
    off = max(abs(a - b) / abs(a) for a, b in zip(*losses))
    return off < 1e-3 and len(runs) == NORMS, f"losses {off:.1e} off"


def twice_differentiated():
    def second(model, x):
        x = x.clone().requires_grad_()
        with torch.autocast("cuda", torch.float16):
            out = model(x).float().square().sum()
        grad, = torch.autograd.grad(out, x, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), list(model.parameters()))

    plain, x = network(), images()
    model = copy.deepcopy(plain)
    converted(model, x, torch.float16)
    off = distance(second(model, x), second(plain, x))
    return off < 5e-2, f"{off:.1e} off"


def computed_again(form=torch.channels_last):
    """A memory plan computes fused results again, and nothing else changes."""
    model, x = network(form), images(form)
    converted(model, x, torch.float16)
    step = steps_of(model, x)
    start = copy.deepcopy(model.state_dict())
    expected = [float(step()) for _ in range(3)]
    model.load_state_dict(start)
    keep = {"keep": (model,), "quiet": True, "allow": "recompute"}
    try:
        plan = ucudnn.torch.memory(step, budget=1 << 20, **keep)
    except ucudnn.NoPlan as error:
        least = error.least
        plan = ucudnn.torch.memory(step, budget=least, **keep)
    model.load_state_dict(start)
    with counting() as runs:
        told = [float(plan()) for _ in range(3)]
    off = max(abs(a - b) / abs(b) for a, b in zip(told, expected))
    held = off < 1e-3 and bool(plan.recomputed) and len(runs) == 3 * NORMS
    return held, (f"losses {off:.1e} off, {len(plan.recomputed)} computed again; the "
                  f"same bits: {plan.exact}")


def compiled():
    """The compiler gets PyTorch's normalizations, which it fuses itself."""
    plain, x = network(), images()
    model = copy.deepcopy(plain)
    converted(model, x, torch.float16)
    torch._dynamo.reset()
    faster = torch.compile(model, backend="aot_eager", fullgraph=True)
    with counting() as runs:
        off = distance(gradients(faster, x, torch.float16),
                       gradients(plain, x, torch.float16))
    return not runs and off < 1e-2, f"{off:.1e} off, {len(runs)} fused"


CHECKS = {
    "fused normalizations, half": as_exact_as_pytorch(torch.float16),
    "fused normalizations, bfloat16": as_exact_as_pytorch(torch.bfloat16),
    "fused normalizations, FP32 NCHW": as_exact_as_pytorch(
        torch.float32, torch.contiguous_format),
    "fused normalizations, half NCHW": as_exact_as_pytorch(
        torch.float16, torch.contiguous_format),
    "fused normalizations, CUDA graph": captured,
    "fused normalizations, CUDA graph, NCHW": lambda: captured(
        torch.contiguous_format),
    "fused normalizations, memory plan": computed_again,
    "fused normalizations, memory plan, NCHW": lambda: computed_again(
        torch.contiguous_format),
    "fused normalizations, double backward": twice_differentiated,
    "fused normalizations, torch.compile": compiled,
}
