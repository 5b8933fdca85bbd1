"""Batch normalizations that can be one operation with the sum and the ReLU behind
them, and why others cannot."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import torch

from ucudnn.torch.convolution.calls import wants_determinism
from ucudnn.torch.convolution.observed import is_memory

_ELEMENTS = {
    torch.float16: "HALF", torch.bfloat16: "BF16", torch.float32: "FLOAT",
}  # fmt: skip


class NormCall(NamedTuple):
    """All that the fused operation is prepared for."""

    input: Tuple[int, ...]  # N, C, H, W
    form: torch.memory_format
    dtype: torch.dtype
    device: torch.device
    adds: bool

    @property
    def element(self) -> str:
        """The type; libucudnn_conv reads those of 16 bits."""
        return _ELEMENTS[self.dtype]

    def __str__(self) -> str:
        size = "x".join(map(str, self.input))
        rest = "sum and ReLU" if self.adds else "ReLU"
        layout = "NHWC" if self.form == torch.channels_last else "NCHW"
        return f"{size}, {self.element} {layout}, with {rest}"


def call_of(taken: torch.Tensor, adds: bool) -> NormCall:
    """Of a tensor that has a form."""
    form = form_of(taken)
    assert form is not None
    return NormCall(tuple(taken.shape), form, taken.dtype, taken.device, adds)


def form_of(tensor: torch.Tensor) -> Optional[torch.memory_format]:
    """How its elements lie; none if a normalization of it cannot be fused. Channels
    last float32 cannot; of one pixel or one channel both forms are the same."""
    if tensor.dim() != 4:
        return None
    if tensor.dtype != torch.float32 and tensor.is_contiguous(
        memory_format=torch.channels_last
    ):
        return torch.channels_last
    return torch.contiguous_format if tensor.is_contiguous() else None


def why_not(module: Any) -> str:
    """Why the module cannot take part; "" if it can."""
    kind = type(module)
    if kind is not torch.nn.BatchNorm2d:
        return f"it is a {kind.__name__}"
    if "forward" in module.__dict__:
        return "its forward was replaced"
    return ""


def why_not_now(module: Any, taken: Any) -> str:
    """Why the module's normalization of `taken` cannot be fused as things stand;
    "" if it can."""
    if type(taken) is not torch.Tensor or not is_memory(taken):
        return f"its input is a {type(taken).__name__}"
    if not module.training:
        return "it is in evaluation mode"
    if not torch.is_grad_enabled():
        return "gradients are off"
    if is_checkpointed():
        return "it is in a checkpoint, or under other hooks for saved tensors"
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
        return "it has hooks"
    if module._backward_pre_hooks or torch.nn.modules.module._has_any_global_hook():
        return "it has hooks"
    weight, bias, mean, var = tensors_of(module)
    if weight is None or bias is None:
        return "it has no weight and bias"
    if mean is None or module.momentum is None:
        return "it keeps no moving averages"
    for tensor in (weight, bias, mean, var):
        if not is_memory(tensor) or tensor.device != taken.device:
            return f"it has a {type(tensor).__name__} on {tensor.device}"
        if tensor.dtype != torch.float32:
            return f"its weight's type is {tensor.dtype}"
    if taken.dtype not in _ELEMENTS:
        return f"its input's type is {taken.dtype}"
    if form_of(taken) is None:
        return "its input is neither channels first nor 16 bits and channels last"
    if wants_determinism():
        return "PyTorch is set to deterministic algorithms"
    return ""


def tensors_of(module: Any) -> Tuple[Any, Any, Any, Any]:
    """Weight, bias, and running mean and variance, in a tenth of the time that
    the module takes to tell: each pass asks for those of each normalization."""
    parameters, buffers = module._parameters, module._buffers
    return (
        parameters["weight"], parameters["bias"], buffers["running_mean"],
        buffers["running_var"],
    )  # fmt: skip


def is_checkpointed() -> bool:
    """Whether what runs is computed again, or will be: in a backward pass, or under
    hooks for saved tensors other than those of ucudnn.torch.memory."""
    if torch._C._current_graph_task_id() != -1:
        return True
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return hooks is not None and not hooks[0].__module__.startswith("ucudnn.")
