"""What attach() leaves behind. What it does to gradients: test_torch_ranks.py."""

import gc
import weakref

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import ucudnn.torch


@pytest.fixture(autouse=True)
def alone(tmp_path):
    """A process group of this process."""
    dist.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("normalise", [False, True])
def test_keeps_no_model_alive(normalise):
    """Models of earlier trainings would fill the GPU."""
    layers = [torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)]
    model = torch.nn.Sequential(*layers[:2 if normalise else 1])
    shares = ucudnn.torch.share(4, times={"k": {4: 1.0}}, kind="k")
    ddp = shares.attach(DistributedDataParallel(model))
    ddp(torch.ones(4, 3)).sum().backward()
    gone = [weakref.ref(ddp), weakref.ref(layers[0].weight)]
    del ddp, model, shares, layers
    gc.collect()
    assert [found() for found in gone] == [None, None]
