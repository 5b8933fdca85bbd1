"""What ucudnn.torch.split does to accuracy (Split-CNN 5.2): small networks trained on
drawn images of 32 x 32 places, whole and split, each with several seeds. A row of JSON
for each training:

    python3 tests/bench/split_accuracy.py [--seeds 3] [--epochs 8] [--images 800]

Each image has one of six figures, of some size, place, contrast and background, under
noise. A test image is as likely to be cut as a training one, but is computed whole.
"""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional

import ucudnn.torch

CLASSES = 6
SIZE = 32
# Depth, parts and whether cuts are drawn anew in each step; None: whole.
CELLS = [None, (0.5, (2, 2), False), (0.5, (2, 2), True), (1, (2, 2), False),
         (1, (2, 2), True)]  # fmt: skip


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(after) for _ in range(2))
        self.way = nn.Conv2d(before, after, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = self.norms[1](self.second(torch.relu(self.norms[0](self.first(x)))))
        return torch.relu(y + self.way(x))


def resnet():
    """Ten convolutions."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 16, 1), Residual(16, 16, 1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, CLASSES),
    )  # fmt: skip


def vgg():
    """Six convolutions."""
    layers, before = [], 3
    for width in (8, 16, 16):
        for _ in range(2):
            layers += [nn.Conv2d(before, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU()]
            before = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(16 * 16, 32), nn.ReLU(), nn.Linear(32, CLASSES)
    )


def drawn(count, seed):
    """Images and classes."""
    random = torch.Generator().manual_seed(seed)

    def some(low, high):
        return low + (high - low) * torch.rand(count, 1, 1, generator=random)

    kind = torch.randint(CLASSES, (count,), generator=random)
    size = some(5, 11)
    rows, columns = (torch.arange(SIZE).float() - some(11, 21) for _ in range(2))
    rows = rows.transpose(1, 2)
    x, y = columns / size, rows / size
    square = torch.maximum(x.abs(), y.abs())
    radius = (x.square() + y.square()).sqrt()
    figures = torch.stack([
        radius < 1, (radius < 1) & (radius > 0.55), square < 0.9,
        (square < 0.9) & (square > 0.5), (torch.minimum(x.abs(), y.abs()) < 0.25) & (square < 1),
        (y.abs() < 0.9) & (x.abs() < (0.9 - y) / 1.8),
    ])  # fmt: skip
    image = figures[kind, torch.arange(count)].float() * some(0.6, 1.5) + some(-1, 1)
    colours = 1 + 0.3 * torch.randn(count, 3, 1, 1, generator=random)
    noise = torch.randn(count, 3, SIZE, SIZE, generator=random)
    return image[:, None] * colours + 0.3 * noise, kind


NETWORKS = {"resnet": resnet, "vgg": vgg}
RATE = 0.01  # the largest


def trained(name, cell, seed, options):
    torch.manual_seed(seed)
    model = NETWORKS[name]()
    x, y = drawn(options.images, seed)
    if cell is not None:
        depth, parts, stochastic = cell
        ucudnn.torch.split(model, x[:2], depth=depth, parts=parts, stochastic=stochastic)
    steps = options.epochs * (len(x) // options.batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps)
    begun = time.process_time()
    for _ in range(options.epochs):
        order = torch.randperm(len(x))
        for at in range(0, len(x) - options.batch + 1, options.batch):
            chosen = order[at : at + options.batch]
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x[chosen]), y[chosen])
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        x, y = drawn(options.images, 1000 + seed)
        right = (model(x).argmax(1) == y).float().mean().item()
    return {
        "network": name, "depth": cell[0] if cell else 0,
        "parts": list(cell[1]) if cell else [1, 1],
        "stochastic": bool(cell and cell[2]), "seed": seed, "accuracy": round(right, 4),
        "loss": round(loss.item(), 4), "seconds": round(time.process_time() - begun, 1),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("seeds", 3), ("epochs", 8), ("images", 800), ("batch", 50)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    for seed in range(options.seeds):
        for name in NETWORKS:
            for cell in CELLS:
                print(json.dumps(trained(name, cell, seed, options)), flush=True)


if __name__ == "__main__":
    main()
