"""What makes a pass on a rank without images take part in DDP's sums."""

from __future__ import annotations

from typing import Any

import torch
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
