"""Models as PyTorch's two exporters write them: the convolutions of the file are those that the modules run."""

import collections
import csv
import io
import os
import subprocess
import warnings

import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from resnet20_cifar import resnet20

UCUDNN = os.environ["UCUDNN_BIN_DIR"] + "/ucudnn"


def unit(inputs, outputs, size=3, activation=nn.ReLU, **options):
    options.setdefault("padding", size // 2)
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, bias=False, **options), nn.BatchNorm2d(outputs), activation())


class Excited(nn.Module):
    """Squeeze-and-excitation between SiLUs, as EfficientNet has it, with stochastic depth."""

    def __init__(self):
        super().__init__()
        self.stem = unit(3, 8, activation=nn.SiLU, stride=2)
        self.wide = unit(8, 8, groups=8, activation=nn.Hardswish)
        self.down, self.up, self.head = nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1), nn.Linear(8, 4)

    def forward(self, x):
        x = self.stem(x)
        y = self.wide(x)
        s = F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(y, 1)))))
        y = y * s
        noise = torch.empty(y.size(0), 1, 1, 1).bernoulli_(0.5).div_(0.5)
        return self.head((x + y * noise).mean((2, 3)))


class Shuffled(nn.Module):
    """Halves of the channels, one through a convolution, shuffled: ShuffleNet."""

    optimize = True  # otherwise chunk() is a sequence of tensors, which is refused

    def __init__(self):
        super().__init__()
        self.stem, self.part = unit(3, 8), unit(4, 4, dilation=2, padding=2)
        self.last, self.head = unit(8, 8, 1, groups=2), nn.Linear(8, 4)

    def forward(self, x):
        a, b = self.stem(x).chunk(2, dim=1)
        x = torch.cat((a, self.part(b)), dim=1)
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        return self.head(F.adaptive_avg_pool2d(self.last(x), 1).flatten(1))


class UNet(nn.Module):
    """Up and down again, padded to the size that it was (milesial's U-Net), and interpolated."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = unit(3, 4), unit(4, 4, stride=2), unit(8, 4)
        self.up, self.last = nn.ConvTranspose2d(4, 4, 2, stride=2), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        a = self.a(x)
        up = self.up(self.b(F.max_pool2d(a, 2)))
        h, w = a.size(2) - up.size(2), a.size(3) - up.size(3)
        up = F.pad(up, [w // 2, w - w // 2, h // 2, h - h // 2])
        y = self.c(torch.cat((a, up), dim=1))
        return self.last(F.interpolate(y, scale_factor=1.5, mode="bilinear", align_corners=False))


def convolutions(model, images):
    """The sizes of each convolution that the modules run, and how often."""
    seen = collections.Counter()

    def note(module, inputs, output):
        transposed = isinstance(module, nn.ConvTranspose2d)
        image = output if transposed else inputs[0]
        seen[(image.shape[1], image.shape[2], image.shape[3],
              inputs[0].shape[1] if transposed else output.shape[1], *module.kernel_size, *module.padding,
              *module.stride, module.groups, *module.dilation, int(transposed))] += 1

    hooks = [m.register_forward_hook(note) for m in model.modules() if isinstance(m, nn.modules.conv._ConvNd)]
    model(images)
    for hook in hooks:
        hook.remove()
    return seen


def export(model, images, file, dynamo):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            torch.onnx.export(model, (images,), file, dynamo=True, verbose=False,
                              optimize=getattr(model, "optimize", False),
                              dynamic_shapes=({0: torch.export.Dim("batch")},))
        else:
            torch.onnx.export(model, (images,), file, dynamo=False, input_names=["x"],
                              dynamic_axes={"x": {0: "batch"}}, do_constant_folding=False,
                              training=torch.onnx.TrainingMode.TRAINING)


def run(*arguments):
    done = subprocess.run([UCUDNN, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("kind", [Excited, Shuffled, UNet])
def test_have_the_sizes_that_the_modules_run(kind, dynamo, tmp_path):
    model, images = kind().train(), torch.randn(4, 3, 21, 26)
    file = tmp_path / "model.onnx"
    export(model, images, str(file), dynamo)
    found = collections.Counter()
    for row in csv.DictReader(io.StringIO(run("networks", "convert", file))):
        sizes = [int(row[c]) for c in "C H W K R S pad_h pad_w stride_h stride_w groups".split()]
        dilation = [int(row.get(c) or 1) for c in ("dilation_h", "dilation_w")]
        found[(*sizes, *dilation, int(row.get("transposed") or 0))] += 1
    assert found == convolutions(model, images)
    assert "policy" in run("solve", "memory", "--network", file, "--batch", 8, "--device-model", "K40", "--budget", "1GB")


def test_the_quickstarts_network_is_what_its_source_writes():
    assert onnx.load(os.environ["UCUDNN_TEST_DATA"] + "/../../deploy/resnet20_cifar.onnx") == resnet20()
