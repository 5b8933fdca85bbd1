"""Operators by which a compiled graph has its values leave for the host and return.

    host = leave(value)          the copy begins, once value is there
    host = left(host, value)     value may be freed, once the copy is done
    value = fetch(host, device)  memory is taken, and the copy back begins
    value = arrived(value, host) value may be read

What they return is the same memory in `left` and `arrived`, which wait, on the stream
that computes. Between the others copies run beside it.
"""

from __future__ import annotations

from typing import Any

import torch

from ucudnn.torch.convolution.operators import library
from ucudnn.torch.saved.links import link_of

# By device: HostLink or CudaLink.
_links: dict[torch.device, Any] = {}

# Addresses of what left a CPU, where both are the same memory; check() clears it.
seen_on_host: set[int] = set()


def _link(device: torch.device) -> Any:
    if device not in _links:
        _links[device] = link_of(device)
    return _links[device]


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """From a tensor's first element to its last: Inductor leaves gaps between rows."""
    lengths = ((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride()))
    return tensor.as_strided((1 + sum(lengths) if tensor.numel() else 0,), (1,))


def _leave(value: torch.Tensor) -> torch.Tensor:
    host = torch.empty_strided(
        value.shape, value.stride(), dtype=value.dtype, device="cpu",
        pin_memory=value.device.type == "cuda",
    )  # fmt: skip
    _link(value.device).copy(host.data_ptr(), _flat(value), _flat(host))
    if value.device.type == "cpu":
        seen_on_host.add(host.data_ptr())
    return host


def _left(host: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    _link(value.device).copied(host.data_ptr())
    return host


def _fetch(host: torch.Tensor, device: torch.device) -> torch.Tensor:
    flat = _link(device).fetch(host.data_ptr(), _flat(host))
    return flat.as_strided(host.shape, host.stride())


def _arrived(value: torch.Tensor, host: torch.Tensor) -> torch.Tensor:
    _link(value.device).arrived(host.data_ptr())
    return value


def _on(value: torch.Tensor, device: Any) -> torch.Tensor:
    return torch.empty_strided(
        value.shape, value.stride(), dtype=value.dtype, device=device
    )


for _schema, _kernel, _fake in (
    ("leave(Tensor value) -> Tensor", _leave, lambda value: _on(value, "cpu")),
    ("left(Tensor(a) host, Tensor value) -> Tensor(a)", _left, lambda h, value: h),
    ("fetch(Tensor host, Device device) -> Tensor", _fetch, _on),
    ("arrived(Tensor(a) value, Tensor host) -> Tensor(a)", _arrived, lambda v, h: v),
):
    _name = _schema.partition("(")[0]
    library.define(_schema, tags=(torch.Tag.flexible_layout,))
    library.impl(_name, _kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"ucudnn::{_name}", _fake, lib=library)
