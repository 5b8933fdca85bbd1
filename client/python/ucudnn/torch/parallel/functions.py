"""Functions of autograd for ranks of unlike shares: a pass on no images takes part in
DDP's sums, and a loss sees all ranks' rows."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map_only


class _Using(torch.autograd.Function):
    """A tensor, as if it depended on parameters: their gradients are zero."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, *parameters: Any) -> Any:
        ctx.parameters = parameters
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return (gradient, *map(torch.zeros_like, ctx.parameters))


def using_all_parameters(output: Any, ddp: DistributedDataParallel) -> Any:
    """`output`, as if all parameters of the model were used. DDP waits for the
    gradient of each on all ranks, and a pass on no images may use fewer."""
    parameters = [
        parameter
        for name, parameter in ddp.module.named_parameters()
        if parameter.requires_grad and name not in ddp.parameters_to_ignore
    ]

    def used(tensor: torch.Tensor) -> Any:
        if not tensor.is_floating_point():
            return tensor
        return _Using.apply(tensor, *parameters)

    return tree_map_only(torch.Tensor, used, output)


class Gathered(torch.autograd.Function):
    """Each rank's rows in their place among all. A row's gradient is the sum of all
    ranks'. Collective, both ways."""

    @staticmethod
    def forward(ctx: Any, rows: Any, first: int, total: int, group: Any) -> Any:
        ctx.group, ctx.part = group, slice(first, first + rows.shape[0])
        # A sum, because gathering takes as many rows of each rank.
        gathered = rows.new_zeros((total, *rows.shape[1:]))
        gathered[ctx.part] = rows
        dist.all_reduce(gathered, group=group)
        return gathered

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(gradient, group=ctx.group)
        return gradient[ctx.part], None, None, None
