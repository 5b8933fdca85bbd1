#!/usr/bin/env python3
"""PyTorch's own ways to train in less memory, beside ours.

    tests/gpu/memory_torch.py -o FILE --seconds S NETWORK:BATCH:PRECISION...

For each row: plain, checkpointing by block, and activations saved on the host
(torch.autograd.graph.save_on_cpu with pinned memory). A line of JSON each: the
median step of five, and the most memory allocated. Nothing begins after S
seconds.
"""

import argparse
import json
import statistics
import time

import torch
import torchvision
from torch.utils.checkpoint import checkpoint_sequential

WAYS = ["plain", "checkpoint", "save_on_cpu"]


def blocks_of(name, model):
    """The model as a sequence of blocks, of which checkpoints keep the inputs."""
    if name.startswith("resnet"):
        stem = torch.nn.Sequential(model.conv1, model.bn1, model.relu,
                                   model.maxpool)
        parts = [stem]
        for layer in (model.layer1, model.layer2, model.layer3, model.layer4):
            parts += list(layer)
        return torch.nn.Sequential(*parts), torch.nn.Sequential(
            model.avgpool, torch.nn.Flatten(), model.fc)
    return model.features, torch.nn.Sequential(
        model.avgpool, torch.nn.Flatten(), model.classifier)


def replace_in_place(module):
    """A checkpoint keeps its part's input, which nothing may overwrite."""
    for part in module.modules():
        if isinstance(part, torch.nn.ReLU):
            part.inplace = False


def measure(row, way, steps=5):
    name, batch, precision = row.split(":")
    tf32 = precision == "TF32"
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    torch.cuda.empty_cache()
    model = getattr(torchvision.models, name)().cuda()
    if way == "checkpoint":
        replace_in_place(model)
    body, head = blocks_of(name, model)
    images = torch.randn(int(batch), 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (int(batch),), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def forward():
        if way == "checkpoint":
            parts = 5 if name != "resnet50" else 16
            parts = min(parts, len(body))
            return head(checkpoint_sequential(body, parts, images,
                                              use_reentrant=False))
        return head(body(images))

    def step():
        optimizer.zero_grad(set_to_none=True)
        if way == "save_on_cpu":
            with torch.autograd.graph.save_on_cpu(pin_memory=True):
                loss = torch.nn.functional.cross_entropy(forward(), labels)
        else:
            loss = torch.nn.functional.cross_entropy(forward(), labels)
        loss.backward()
        optimizer.step()

    for _ in range(2):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(steps):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        step()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return {"row": row, "way": way,
            "step_us": statistics.median(times) * 1e3,
            "peak_bytes": torch.cuda.max_memory_allocated(),
            "torch": torch.__version__}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="+")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    begun = time.monotonic()
    with open(args.output, "w", encoding="utf-8") as output:
        for row in args.rows:
            for way in WAYS:
                if time.monotonic() - begun > args.seconds:
                    result = {"row": row, "way": way, "not_run": True}
                else:
                    try:
                        result = measure(row, way)
                    except Exception as error:  # a row that fails is a result
                        result = {"row": row, "way": way, "error": str(error)}
                output.write(json.dumps(result) + "\n")
                output.flush()


if __name__ == "__main__":
    main()
