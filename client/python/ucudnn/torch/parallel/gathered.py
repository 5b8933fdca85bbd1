"""Rows of all ranks, whose shares may differ."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


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
