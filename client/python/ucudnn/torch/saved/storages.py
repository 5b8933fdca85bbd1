"""Storages of tensors: what several saved tensors may share."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef


def key_of(tensor: torch.Tensor) -> int:
    """Unique among storages that live."""
    return int(tensor.untyped_storage()._cdata)


def bytes_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().nbytes())


def weak_reference(tensor: torch.Tensor) -> StorageWeakRef:
    """Of the storage; `expired()` once nothing holds it."""
    return StorageWeakRef(tensor.untyped_storage())


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """All elements of its storage; shares version and memory."""
    count = bytes_of(tensor) // tensor.element_size()
    return tensor.detach().as_strided((count,), (1,), 0)


class Layout(NamedTuple):
    """Where a tensor's elements lie in its storage."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def of(self, elements: torch.Tensor) -> torch.Tensor:
        """The tensor within a storage's elements; a size of -1: all of them."""
        if self.size == (-1,):
            return elements
        begin = elements.storage_offset() + self.offset
        return elements.as_strided(self.size, self.stride, begin)

    def whole(self, tensor: torch.Tensor) -> bool:
        """Whether it covers its storage."""
        return tensor.numel() * tensor.element_size() == bytes_of(tensor)


def layout_of(tensor: torch.Tensor) -> Layout:
    return Layout(tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())
