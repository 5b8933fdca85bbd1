"""Who else looks at what PyTorch runs now, and tensors that are more than memory. A
plan runs on addresses, which neither can follow, so both get PyTorch's own operator.
It asks PyTorch by names that are not public (tried on 2.13)."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from ucudnn.torch.convolution.operators import runs_operators

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def is_observed() -> bool:
    """Whether a compiler, a tracer, an exporter, functorch (vmap, grad, jvp),
    forward-mode AD or a TorchDispatchMode follows what this thread runs."""
    return bool(
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or is_transformed()
        or (torch._C._len_torch_dispatch_stack() > 0 and not runs_operators())
    )


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def is_transformed() -> bool:
    """Whether functorch, forward-mode AD or torch.export follows. Dynamo asks while it
    traces, and guards its code by their levels itself."""
    return bool(
        torch.compiler.is_exporting()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
    )


def has_exact_type(*tensors: Any) -> bool:
    """Whether all are tensors, and none a subclass (DTensor, Float8, fakes) or a
    proxy."""
    return all(type(tensor) in _PLAIN for tensor in tensors)


def is_memory(*tensors: Any) -> bool:
    """Whether the tensors are just the elements at their addresses: dense, of no
    subclass, not negated lazily, not batched by is_grads_batched."""
    return has_exact_type(*tensors) and all(
        tensor.layout == torch.strided
        and torch._C._has_storage(tensor)
        and not tensor.is_neg()
        and not tensor._is_zerotensor()
        for tensor in tensors
    )
