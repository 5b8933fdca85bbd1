"""One of two ranks on the CPU over gloo, for the scripts torch_*ranks.py, which
are run as SCRIPT RANK RANKS FOLDER (the fixture `ranks` of conftest.py).

`run` runs scenarios on all ranks together, and writes what each rank saw to
FOLDER/RANK.json.
"""

import datetime
import json
import sys
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ucudnn
import ucudnn.torch

RANK, RANKS, FOLDER = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
BATCH = 8
KIND = ("fast", "slow")[RANK]
# 6 + 2 images take 6 ms on both.
TIMES = {"fast": {1: 1.0, 8: 8.0}, "slow": {1: 3.0, 8: 24.0}}


def shared(batch=BATCH, times=TIMES, **options):
    return ucudnn.torch.share(batch, times=times, kind=KIND, **options)


def network():
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)
    ).double()


def images(steps=3, batch=BATCH):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(steps * batch, 5, generator=generator).double()
    y = torch.randint(0, 3, (steps * batch,), generator=generator)
    return TensorDataset(x, y)


def descend(model):
    """Plain gradient descent: an optimizer that divides by the gradient's size
    would hide a wrong scale."""
    return torch.optim.SGD(model.parameters(), lr=0.5)


def loss_of(model, x, y):
    return nn.functional.cross_entropy(model(x), y)


def train(model, batches, loss=loss_of):
    optimizer = descend(model)
    for x, y in batches:
        optimizer.zero_grad()
        loss(model, x, y).backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


def alone(dataset=None, batch=BATCH, model=None, loss=loss_of):
    """The weights that one process with whole mini-batches gets."""
    loader = DataLoader(dataset or images(), batch)
    return train(model or network(), loader, loss)


def difference(some, others):
    return max((a - b).abs().max().item() for a, b in zip(some, others))


def loader_of(shares, dataset=None):
    sampler = shares.sampler(dataset or images(), shuffle=False)
    return DataLoader(
        sampler.dataset, shares.batch, sampler=sampler, drop_last=True
    )


def refusal(run):
    try:
        run()
    except ucudnn.Error as error:
        return f"{type(error).__name__}: {error}"
    return None


def run(scenarios):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", rank=RANK, world_size=RANKS,
        init_method=f"file://{FOLDER}/rendezvous",
        timeout=datetime.timedelta(seconds=60),
    )  # fmt: skip
    told = {}
    for scenario in scenarios:
        try:
            told[scenario.__name__] = scenario()
        except Exception:
            told[scenario.__name__] = traceback.format_exc()
            # The other rank may wait in another call: nothing more can be run.
            break
        finally:
            (FOLDER / f"{RANK}.json").write_text(json.dumps(told))
