"""SyncBatchNorm under uneven shares.

Its backward pass sums gradients over the ranks, each of them the gradient of a mean
over that rank's own images. The sums are right only if those have been weighed
before, and the hook weighs what comes out at the end. So each layer's gradients
are multiplied by the rank's weight where they enter it and divided by it where
they leave:

    loss -> ... -> w g -> [SyncBatchNorm's sums] -> w g' -> g' -> ... -> hook: w g'
"""

from __future__ import annotations

from typing import Any, Callable

import torch

Factor = Callable[[], Any]  # the weight of the next gradients, when asked


class _Scaled(torch.autograd.Function):
    """The identity, whose gradient is multiplied or divided by a factor that is
    looked up in the backward pass. What goes in is viewed, because others may
    use it too; what comes out stays the same tensor, because later layers may
    write to it."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, factor: Factor, divide: bool) -> Any:
        ctx.factor, ctx.divide = factor, divide
        if divide:
            return tensor.view_as(tensor)
        ctx.mark_dirty(tensor)
        return tensor

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return scaled(gradient, ctx.factor(), ctx.divide), None, None


def scaled(gradient: torch.Tensor, factor: Any, divide: bool) -> torch.Tensor:
    """A multiple of a gradient; zero if the factor is."""
    if isinstance(factor, torch.Tensor):
        safe = torch.where(factor == 0, torch.ones_like(factor), factor)
        result = gradient / safe if divide else gradient * safe
        return result.to(gradient.dtype).masked_fill(factor == 0, 0.0)
    if factor == 0:
        return torch.zeros_like(gradient)
    return gradient / factor if divide else gradient * factor


def synchronised_in(model: torch.nn.Module) -> list[torch.nn.SyncBatchNorm]:
    return [m for m in model.modules() if isinstance(m, torch.nn.SyncBatchNorm)]


def named_synchronised(name: str) -> bool:
    """Whether a class of this name synchronises statistics, as those of others do."""
    return "SyncBatchNorm" in name or "SyncBN" in name


def weigh_synchronised(model: torch.nn.Module, factor: Factor) -> None:
    """Weighs the gradients within each SyncBatchNorm of a model."""
    for module in synchronised_in(model):
        # The compiler would keep the factor of the step that it compiles.
        module.register_forward_pre_hook(torch.compiler.disable(_entering(factor)))
        module.register_forward_hook(torch.compiler.disable(_leaving(factor)))
        # Its own parameters' gradients are taken between the two.
        for parameter in module.parameters(recurse=False):
            if parameter.requires_grad:
                parameter.register_hook(_leaving_parameter(factor))


def _entering(factor: Factor) -> Callable[..., Any]:
    def enter(module: Any, inputs: Any) -> Any:
        if not module.training or not inputs[0].requires_grad:
            return None
        return (_Scaled.apply(inputs[0], factor, True), *inputs[1:])

    return enter


def _leaving_parameter(factor: Factor) -> Callable[..., Any]:
    def leave(gradient: Any) -> Any:
        if gradient is None:  # of a rank without images
            return None
        return scaled(gradient, factor(), divide=True)

    return leave


def _leaving(factor: Factor) -> Callable[..., Any]:
    def leave(module: Any, inputs: Any, output: torch.Tensor) -> Any:
        if not module.training or not output.requires_grad:
            return None
        return _Scaled.apply(output, factor, False)

    return leave
