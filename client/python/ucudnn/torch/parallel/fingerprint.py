"""Which steps are the same, so that their times may be used again."""

from __future__ import annotations

import hashlib
import re
import types
from typing import Any, Callable, Iterator

import torch

from ucudnn.torch.kept import reachable

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def fingerprint(step: Callable[..., Any]) -> str:
    """A name for what `step` computes: its code, the layers, parameters and
    optimizers that it uses, its tensors' shapes and types, its numbers and texts,
    and PyTorch's settings that decide how fast it is. It does not see what other
    functions of packages do, nor values."""
    digest = hashlib.sha256()
    for line in _facts(step):
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()[:16]


def _facts(step: Callable[..., Any]) -> Iterator[str]:
    cudnn = torch.backends.cudnn
    yield (
        f"{torch.__version__} {cudnn.benchmark} {cudnn.deterministic} "
        f"{cudnn.allow_tf32} {torch.backends.cuda.matmul.allow_tf32} "
        f"{torch.get_default_dtype()}"
    )
    for name, value in reachable(step):
        if isinstance(value, types.FunctionType):
            yield f"{name}: {_code(value.__code__)}"
        elif isinstance(value, torch.Tensor):
            yield f"{name}: {_form(value)}"
        elif isinstance(value, torch.nn.Module):
            yield f"{name}: {_ADDRESS.sub('', repr(value))}"
            for tensor_name, tensor in value.state_dict().items():
                if isinstance(tensor, torch.Tensor):
                    yield f"{name}.{tensor_name}: {_form(tensor)}"
        elif isinstance(value, (bool, int, float, str, torch.dtype)):
            yield f"{name}: {value!r}"
        else:
            yield f"{name}: {type(value).__module__}.{type(value).__qualname__}"


def _form(tensor: torch.Tensor) -> str:
    # The order of strides is the layout.
    return f"{tensor.dtype} {list(tensor.shape)} {list(tensor.stride())}"


def _code(code: types.CodeType) -> str:
    constants = [
        _code(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts
    ]
    return f"{code.co_code.hex()} {code.co_names} {constants}"
