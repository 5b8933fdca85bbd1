"""What a recorded step saves, in host memory."""

from __future__ import annotations


import torch

from ucudnn.torch.checks import refuse
from ucudnn.torch.saved.links import Arena, free_host_memory
from ucudnn.torch.saved.storages import bytes_of


class HostCopies:
    """The elements of each saved storage, by number. All steps of one shape use the
    same memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._host: list[torch.Tensor] = []
        self._arenas: list[Arena] = []  # which hold them

    def put(self, number: int, elements: torch.Tensor) -> None:
        if number == len(self._host):
            self._host.append(self._memory(elements))
        host = self._host[number]
        if host.shape != elements.shape or host.dtype != elements.dtype:
            # Of a step that turns out to be of another shape.
            host = self._host[number] = self._memory(elements)
        host.copy_(elements)

    def fetched(self, number: int) -> torch.Tensor:
        """The elements on the device, in memory of their own."""
        host = self._host[number]
        elements = host.to(self._device)
        return elements.clone() if elements is host else elements

    def clear(self) -> None:
        self._host.clear()
        self._arenas.clear()

    def _memory(self, like: torch.Tensor) -> torch.Tensor:
        """Page-locked if possible: all that is saved goes there and back in each
        run."""
        size = bytes_of(like)
        available = free_host_memory()
        if available is not None and size > available:
            raise refuse(
                "memory: the host's memory",
                f"{available} bytes are left",
                f"recording takes another {size} and more; fewer images a step are "
                "accepted",
            )
        try:
            arena = Arena(size, self._device)
        except MemoryError:
            return torch.empty_like(like, device="cpu")
        self._arenas.append(arena)
        return arena.elements(0, size, like.dtype)
