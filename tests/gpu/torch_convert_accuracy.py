"""How far FP32 results are off double precision: PyTorch's own with
cudnn.benchmark, and those of plans with the workspace that makes them choose
Winograd and Fourier transforms. Both of torch_convert_checks.py's CHECKS print
the errors of both.

The planner admits an algorithm by a sample of its results on two images: at most
1e-5 off, or four times the best (base/accuracy.h).
Among all results there are larger errors than in a sample, since Winograd's
depend on the position within a tile; so a layer's plan may be off by BOUND. That
is far from the algorithms that the planner must leave out, such as Winograd on
5x5 filters, which are off by 9e-4 and more."""

import copy

import torch
import torchvision
from torch import nn
from torch.nn import functional

from torch_common import distance
from ucudnn.torch.convolution.calls import DATA, FILTER, FORWARD, OPERATIONS, record
from ucudnn.torch.convolution.contest import _operands, _run_of
from ucudnn.torch.convolution.converting import open_device
from ucudnn.torch.convolution.planned import PlannedCall
from ucudnn.torch.convolution.swapping import put

TIMES_BEST = 4
BOUND = 1e-4
SAMPLE = 512  # elements, as the planner takes
WORKSPACE = 4 << 30
VGG_LAYERS = ("features.2", "features.19", "features.24")
ALEXNET_LAYERS = ("features.6",)
IMAGES = 2  # of outputs and data gradients; filter gradients need all


def calls_of(model, images):
    return {one.place: one.call for one in record(model, [images], {})}


def exactly(call, name, operands):
    """The result in double precision, of the first IMAGES unless it sums over
    all."""
    taken, weight, out = operands
    rest = (list(call.stride), list(call.padding), list(call.dilation), False,
            [0] * len(call.stride), call.groups)
    step = 8
    count = call.batch if name == FILTER else IMAGES
    parts = []
    for at in range(0, count, step):
        piece = slice(at, min(at + step, count))
        x, dy = taken[piece].double(), out[piece].double()
        if name == FORWARD:
            parts.append(torch.ops.aten.convolution(
                x, weight.double(), None, *rest))
            continue
        wanted = [name == DATA, name == FILTER, False]
        got = torch.ops.aten.convolution_backward(
            dy, x, weight.double(), [weight.shape[0]], *rest, wanted)
        parts.append(got[0] if name == DATA else got[1])
    return torch.stack(parts).sum(0) if name == FILTER else torch.cat(parts)


def errors(result, name, exact):
    """The largest difference, relative to the largest element; and what the planner
    would see of it, the median of several samples."""
    if isinstance(result, tuple):
        result = result[0] if name == DATA else result[1]
    if name != FILTER:
        result = result[:IMAGES]
    off, exact = (result.double() - exact).abs().flatten(), exact.abs().flatten()
    at = torch.randint(off.numel(), (31, SAMPLE), device=off.device)
    sampled = off[at].amax(1) / exact[at].amax(1)
    return float(off.max() / exact.max()), float(sampled.median())


class Benchmark:
    """PyTorch as a careful user runs it; its double precision is not measured."""

    def __init__(self, on):
        self.on = on

    def __enter__(self):
        self.before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = self.on

    def __exit__(self, *error):
        torch.backends.cudnn.benchmark = self.before


def planned_calls():
    """By network and layer, with a plan for each operation."""
    device = open_device(torch.device("cuda:0"))
    told = {}
    for network, batch, layers in (
            ("vgg16", 64, VGG_LAYERS), ("alexnet", 256, ALEXNET_LAYERS)):
        model = getattr(torchvision.models, network)().cuda()
        images = torch.randn(batch, 3, 224, 224, device="cuda")
        calls = calls_of(model, images)
        for layer in layers:
            call = calls[layer]
            told[network, layer] = PlannedCall(call, {
                name: device.plan(call.problem(name), call.batch, WORKSPACE)
                for name in OPERATIONS})
    return told


def layers():
    told, held = [], True
    for (network, layer), planned in planned_calls().items():
        call = planned.call
        operands = _operands(call)
        for name in OPERATIONS:
            with Benchmark(False):
                exact = exactly(call, name, operands)
            with Benchmark(True):
                theirs, _ = errors(
                    _run_of(PlannedCall(call, {}), name, operands)(), name, exact)
            ours, sampled = errors(
                _run_of(planned, name, operands)(), name, exact)
            text = planned.plans[name].text
            told.append(
                f"{network} {layer} {name}: PyTorch {theirs:.1e}, {text} {ours:.1e}"
                f" ({sampled:.1e} in a sample)")
            held &= ours <= max(BOUND, TIMES_BEST * theirs)
            del exact
        del operands
        torch.cuda.empty_cache()
    return held, "; ".join(told)


def network():
    """VGG-16's gradients. A pass takes other branches of ReLU and max pooling
    where two values are within rounding, so they are much further off than any
    layer's results, PyTorch's too."""
    torch.manual_seed(1)
    model = torchvision.models.vgg16().cuda().eval()  # without dropout
    images = torch.randn(64, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (64,), device="cuda")

    def gradients(which, x):
        loss = functional.cross_entropy(which(x), labels[:len(x)])
        return torch.autograd.grad(loss, list(which.parameters()))

    exact = None
    with Benchmark(False):
        precise = copy.deepcopy(model).double()
        for at in range(0, 64, 16):
            loss = functional.cross_entropy(
                precise(images[at:at + 16].double()), labels[at:at + 16])
            part = torch.autograd.grad(loss / 4, list(precise.parameters()))
            exact = part if exact is None else [
                a + b for a, b in zip(exact, part)]
        del precise
    with Benchmark(True):
        theirs = gradients(model, images)
        smooth = smoothed(model)
        smooth_theirs = gradients(smooth, images)
        calls = calls_of(model, images)
        planned = [p for (name, _), p in planned_calls().items() if name == "vgg16"]
        for which in (model, smooth):
            modules = dict(which.named_modules())
            for place, call in calls.items():
                for one in planned:
                    if one.call == call:
                        put(modules[place], (one,))
        ours = gradients(model, images)
        smooth_ours = gradients(smooth, images)
    plain, plans = distance(theirs, exact), distance(ours, exact)
    apart = distance(ours, theirs)
    smooth_apart = distance(smooth_ours, smooth_theirs)
    return (plans <= TIMES_BEST * plain and smooth_apart < 1e-4,
            f"off double precision: PyTorch {plain:.1e}, plans {plans:.1e}; "
            f"{apart:.1e} apart, {smooth_apart:.1e} with softplus and mean pooling")


def smoothed(model):
    """A copy without branches, whose gradients differ as little as its layers'
    results."""
    smooth = copy.deepcopy(model)
    for index, module in enumerate(smooth.features):
        if isinstance(module, nn.ReLU):
            smooth.features[index] = nn.Softplus()
        if isinstance(module, nn.MaxPool2d):
            smooth.features[index] = nn.AvgPool2d(2)
    for index, module in enumerate(smooth.classifier):
        if isinstance(module, nn.ReLU):
            smooth.classifier[index] = nn.Softplus()
    return smooth


CHECKS = {
    "accuracy of layers, against double": layers,
    "accuracy of VGG-16's gradients": network,
}
