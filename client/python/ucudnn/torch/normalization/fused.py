"""Runs one fused normalization in place of PyTorch's operators: eagerly, in
autograd's threads, and while a CUDA graph is captured."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Optional, Sequence, Tuple

import torch
from torch.nn import functional

from ucudnn.convolutions import NormBackward, NormForward, Normalization
from ucudnn.torch.convolution.operators import library, runs_operators
from ucudnn.torch.convolution.planned import stream_of
from ucudnn.torch.normalization.calls import NormCall
from ucudnn.torch.normalization.planes import PlaneNorm

_Tensors = Tuple[torch.Tensor, ...]
# By key, for the operator below.
_known: Dict[str, FusedNorm] = {}


class FusedNorm:
    """A prepared normalization of NormCall. Any thread may use it."""

    def __init__(
        self, call: NormCall, prepared: "Normalization | PlaneNorm"
    ) -> None:
        self.call = call
        self._prepared = prepared
        self.key = hashlib.sha256(f"{call} {call.device}".encode()).hexdigest()[:16]
        _known[self.key] = self

    def forward(
        self,
        taken: torch.Tensor,
        addend: Optional[torch.Tensor],
        weight: torch.Tensor,
        bias: torch.Tensor,
        running_mean: torch.Tensor,
        running_var: torch.Tensor,
        momentum: float,
        eps: float,
    ) -> _Tensors:
        """The result, the channels' means and inverse deviations, and what else
        `backward` needs. Updates the running statistics. Raises Error if it does
        not run."""
        prepared = self._prepared
        out, mean, inverse = map(torch.empty_like, (taken, bias, bias))
        reserve = self._bytes(prepared.reserve)
        # Freed here, and given to nobody else before this stream is through.
        workspace = self._bytes(prepared.forward_workspace)
        prepared.forward(
            stream_of(self.call.device),
            NormForward(
                taken.data_ptr(), 0 if addend is None else addend.data_ptr(),
                weight.data_ptr(), bias.data_ptr(), running_mean.data_ptr(),
                running_var.data_ptr(), momentum, eps, out.data_ptr(),
                mean.data_ptr(), inverse.data_ptr(), reserve.data_ptr(),
            ),
            workspace.data_ptr(),
        )  # fmt: skip
        return out, mean, inverse, reserve

    def backward(
        self,
        gradient: torch.Tensor,
        taken: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        mean: torch.Tensor,
        inverse: torch.Tensor,
        reserve: Optional[torch.Tensor],
        eps: float,
    ) -> Tuple[Optional[torch.Tensor], ...]:
        """The gradients of input, addend, weight and bias."""
        prepared = self._prepared
        of_input = torch.empty_like(taken)
        of_addend = torch.empty_like(taken) if self.call.adds else None
        of_weight, of_bias = torch.empty_like(bias), torch.empty_like(bias)
        workspace = self._bytes(prepared.backward_workspace)
        prepared.backward(
            stream_of(self.call.device),
            NormBackward(
                taken.data_ptr(), gradient.data_ptr(), weight.data_ptr(),
                bias.data_ptr(), mean.data_ptr(), inverse.data_ptr(),
                0 if reserve is None else reserve.data_ptr(), eps,
                of_input.data_ptr(),
                0 if of_addend is None else of_addend.data_ptr(),
                of_weight.data_ptr(), of_bias.data_ptr(),
            ),
            workspace.data_ptr(),
        )  # fmt: skip
        return of_input, of_addend, of_weight, of_bias

    def _bytes(self, count: int) -> torch.Tensor:
        return torch.empty(count, dtype=torch.uint8, device=self.call.device)


class NormSumRelu(torch.autograd.Function):
    """apply(input, addend or None, weight, bias, running mean, running variance,
    momentum, eps, FusedNorm)."""

    @staticmethod
    def forward(
        ctx: Any,
        taken: torch.Tensor,
        addend: Optional[torch.Tensor],
        weight: torch.Tensor,
        bias: torch.Tensor,
        *rest: Any,
    ) -> torch.Tensor:
        *numbers, fused = rest
        if runs_operators():
            told = torch.ops.ucudnn.norm_sum_relu(
                taken, addend, weight, bias, *numbers, fused.key
            )
        else:
            told = fused.forward(taken, addend, weight, bias, *numbers)
        out, mean, inverse, reserve = told
        ctx.fused, ctx.eps = fused, numbers[-1]
        ctx.save_for_backward(
            taken, weight, bias, mean, inverse,
            reserve if reserve.numel() else None,
        )  # fmt: skip
        result: torch.Tensor = out
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        gradient = gradient.contiguous(memory_format=ctx.fused.call.form)
        wanted = ctx.needs_input_grad[:4]
        if torch.is_grad_enabled():
            # Somebody differentiates the gradients.
            told = _backward_by_torch(
                ctx.fused, gradient, ctx.saved_tensors, ctx.eps, wanted
            )
        else:
            told = ctx.fused.backward(gradient, *ctx.saved_tensors, ctx.eps)
        return (*(g if w else None for g, w in zip(told, wanted)), *[None] * 5)


def _backward_by_torch(
    fused: FusedNorm,
    gradient: torch.Tensor,
    saved: Any,
    eps: float,
    wanted: Sequence[bool],
) -> Tuple[Optional[torch.Tensor], ...]:
    """The gradients of input, addend, weight and bias, which can be differentiated
    again."""
    taken, weight, bias, *rest = saved
    out = functional.batch_norm(
        taken, None, None, weight, bias, True, 0.0, eps
    )
    with torch.no_grad():
        passed: Optional[torch.Tensor] = (out > 0).to(out.dtype)
        if fused.call.adds:
            # The addend's gradient is 1 where the ReLU let it pass.
            mean, inverse, reserve = rest
            passed = fused.backward(
                torch.ones_like(out), taken, weight, bias, mean, inverse, reserve,
                eps,
            )[1]  # fmt: skip
    gradient = gradient * passed
    three = [wanted[0], wanted[2], wanted[3]]
    inputs = [t for t, w in zip((taken, weight, bias), three) if w]
    told = iter(
        torch.autograd.grad(out, inputs, gradient, create_graph=True)
        if inputs
        else ()
    )
    of_taken, of_weight, of_bias = (next(told) if w else None for w in three)
    return of_taken, gradient, of_weight, of_bias


# --- As an operator, for whoever records what runs.

def _norm_sum_relu(*operands: Any) -> Any:
    *rest, key = operands
    return _known[key].forward(*rest)


library.define(
    "norm_sum_relu(Tensor input, Tensor? addend, Tensor weight, Tensor bias, "
    "Tensor(a!) running_mean, Tensor(b!) running_var, float momentum, float eps, "
    "str key) -> (Tensor, Tensor, Tensor, Tensor)"
)
library.impl("norm_sum_relu", _norm_sum_relu, "CompositeExplicitAutograd")
