"""Tensors within other values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Iterator

import torch


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Those within lists, tuples and dictionaries, or `value` itself. Must not be a
    closure that calls itself: such a cycle would keep the tensors' graph until Python
    collects garbage, and with it the parameters' accumulators on this stream, which
    then break the capture of a CUDA graph on another."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
