"""PyTorch: steps within a budget of memory, mini-batches shared unevenly among unlike
GPUs, and planned convolutions.

>>> model = ucudnn.torch.compile(model, budget="16GiB")

Then train as with torch.compile: what the backward pass needs is kept, or computed
again, as planned.

>>> import ucudnn.torch
>>> shares = ucudnn.torch.share(256, step=step)   # on all ranks
>>> ddp = shares.attach(DistributedDataParallel(model, device_ids=[gpu]))
>>> sampler = shares.sampler(dataset)
>>> loader = DataLoader(dataset, shares.batch, sampler=sampler, drop_last=True)

Then train as with plain DistributedDataParallel: gradients are means over the
whole mini-batch, whatever each rank's share of it. Batches and budgets of memory
together: share(256, model=model, loss=loss, budget={"H200": "64GiB", "L40S": "24GiB"}).

>>> ucudnn.torch.convert(model, images)           # as you train: in autocast

Then train as before: modules whose convolutions are faster by plan run the plan.

>>> train = ucudnn.torch.memory(step, budget="16GiB")

Then call `train` instead of `step`: after three steps saved tensors move to the host
and back, or are computed again, as planned.
Needs PyTorch 2.11 or later; `import ucudnn` alone does not import torch.
"""

from ucudnn.torch.compiled.backend import backend, compile, plan_of
from ucudnn.torch.compiled.plans import CompiledCheck, CompiledPlan, PlannedValue
from ucudnn.torch.compiled.private import register, warn_untried
from ucudnn.torch.convolution.conversion import Conversion
from ucudnn.torch.convolution.converting import convert
from ucudnn.torch.convolution.networks import network
from ucudnn.torch.parallel.loader import ShareLoader
from ucudnn.torch.parallel.sampler import ShareSampler
from ucudnn.torch.parallel.shares import Shares
from ucudnn.torch.parallel.sharing import share
from ucudnn.torch.profiling import StepProfile, profile
from ucudnn.torch.saved.planned_memory import memory
from ucudnn.torch.saved.plans import MemoryCheck, MemoryPlan
from ucudnn.torch.saved.step_memory import StepMemory
from ucudnn.torch.splitting.split import Split, split

__all__ = [
    "CompiledCheck", "CompiledPlan", "Conversion", "MemoryCheck", "MemoryPlan",
    "PlannedValue", "ShareLoader", "ShareSampler", "Shares", "Split", "StepMemory",
    "StepProfile", "compile", "convert", "memory", "network", "plan_of", "profile",
    "share", "split",
]  # fmt: skip

register("ucudnn", backend)
warn_untried()
