"""PyTorch: mini-batches shared unevenly among unlike GPUs, and planned
convolutions.

>>> import ucudnn.torch
>>> shares = ucudnn.torch.share(256, step=step)   # on all ranks
>>> ddp = shares.attach(DistributedDataParallel(model, device_ids=[gpu]))
>>> sampler = shares.sampler(dataset)
>>> loader = DataLoader(dataset, shares.batch, sampler=sampler, drop_last=True)

Then train as with plain DistributedDataParallel: gradients are means over the
whole mini-batch, whatever each rank's share of it.

>>> ucudnn.torch.convert(model, images)           # as you train: in autocast

Then train as before: modules whose convolutions are faster by plan run the plan.
Needs PyTorch 1.13 or later; `import ucudnn` alone does not import torch.
"""

from ucudnn.torch.converting import Conversion, convert
from ucudnn.torch.loader import ShareLoader
from ucudnn.torch.networks import network
from ucudnn.torch.profiling import StepProfile, profile
from ucudnn.torch.sampler import ShareSampler
from ucudnn.torch.sharing import share
from ucudnn.torch.shares import Shares

__all__ = [
    "Conversion",
    "ShareLoader",
    "ShareSampler",
    "Shares",
    "StepProfile",
    "convert",
    "network",
    "profile",
    "share",
]
