"""Copies of saved tensors to the host and back."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Optional, Sequence

import torch

from ucudnn.torch.timing import mark, ms_between, times_of

# Rates of copies that are within this part of each other count as the same.
_SAME_RATE = 0.01

# Bytes a microsecond to the host, and from it.
Rates = tuple[float, float]
Reached = tuple[Optional[float], Optional[float]]  # none: that is not known


class Arena:
    """One piece of host memory, page-locked for a GPU; its pages count from the
    first byte to the last, without an allocator's rounding."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.size = size
        self._device = device
        self._locked = 0
        self._bytes = torch.empty(size, dtype=torch.uint8, device="cpu")
        if device.type == "cuda" and size:
            cudart = torch.cuda.cudart()
            with torch.cuda.device(device):
                status = cudart.cudaHostRegister(self._bytes.data_ptr(), size, 0)
            if int(status) != 0:
                raise MemoryError(
                    f"{size} bytes of host memory cannot be page-locked: {status}"
                )
            self._locked = self._bytes.data_ptr()

    def elements(self, offset: int, size: int, dtype: torch.dtype) -> torch.Tensor:
        return self._bytes[offset : offset + size].view(dtype)

    def close(self) -> None:
        """After the copies that are under way: a replayed step's may be far
        behind."""
        if self._locked:
            torch.cuda.synchronize(self._device)
            torch.cuda.cudart().cudaHostUnregister(self._locked)
            self._locked = 0

    def __del__(self) -> None:
        self.close()


class HostLink:
    """On the CPU: the device's memory is the host's, and copies are done at
    once."""

    def copy(self, number: int, source: torch.Tensor, host: torch.Tensor) -> None:
        host.copy_(source)

    def copied(self, number: int) -> None:
        """What is enqueued from now on waits for the copy."""

    def fetch(self, number: int, host: torch.Tensor) -> torch.Tensor:
        return host.clone()

    def arrived(self, number: int) -> None:
        """What is enqueued from now on waits for the fetch."""

    def rates(self) -> Rates:
        """Of copies by themselves."""
        return _rates(torch.device("cpu"), 1 << 22)

    def time_copies(self) -> None:
        """Nothing is computed beside copies."""

    def reached(self) -> Reached:
        return None, None


class CudaLink:
    """A stream for each direction. Memory is taken and released on the stream
    that computes: it waits for a copy before the copied tensor is released, and
    for a fetch before the fetched one is used, so no stream but its own ever
    owns memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._out = torch.cuda.Stream(device)
        self._in = torch.cuda.Stream(device)
        self._ready = torch.cuda.Event()
        # While copies are timed: their bytes, beginnings and ends, by stream.
        self._laps: Optional[dict[torch.cuda.Stream, list[tuple[int, Any, Any]]]]
        self._laps = None
        self._copied: dict[int, torch.cuda.Event] = {}
        self._arrived: dict[int, torch.cuda.Event] = {}

    def copy(self, number: int, source: torch.Tensor, host: torch.Tensor) -> None:
        self._enqueue(self._out, host, source)
        event = self._copied.setdefault(number, torch.cuda.Event())
        event.record(self._out)

    def copied(self, number: int) -> None:
        torch.cuda.current_stream(self._device).wait_event(self._copied[number])

    def fetch(self, number: int, host: torch.Tensor) -> torch.Tensor:
        taken = torch.empty(host.shape, dtype=host.dtype, device=self._device)
        self._enqueue(self._in, taken, host)
        event = self._arrived.setdefault(number, torch.cuda.Event())
        event.record(self._in)
        return taken

    def arrived(self, number: int) -> None:
        torch.cuda.current_stream(self._device).wait_event(self._arrived[number])

    def _enqueue(
        self, stream: torch.cuda.Stream, into: torch.Tensor, source: torch.Tensor
    ) -> None:
        self._ready.record(torch.cuda.current_stream(self._device))
        stream.wait_event(self._ready)
        with torch.cuda.stream(stream):
            if self._laps is None:
                into.copy_(source, non_blocking=True)
                return
            begin = mark(self._device)
            into.copy_(source, non_blocking=True)
            size = into.numel() * into.element_size()
            self._laps[stream].append((size, begin, mark(self._device)))

    def time_copies(self) -> None:
        """From now on, until `reached`."""
        self._laps = {self._out: [], self._in: []}

    def reached(self) -> Reached:
        """By the copies that were timed. Waits for them."""
        laps, self._laps = self._laps or {}, None
        torch.cuda.synchronize(self._device)
        out, back = (_rate(laps.get(stream, ())) for stream in (self._out, self._in))
        return out, back

    def rates(self) -> Rates:
        """Of copies by themselves."""
        return _rates(self._device, 1 << 27)


def link_of(device: torch.device) -> "HostLink | CudaLink":
    return CudaLink(device) if device.type == "cuda" else HostLink()


def _rates(device: torch.device, size: int) -> Rates:
    arena = Arena(size, device)
    host = arena.elements(0, size, torch.uint8)
    there = torch.zeros_like(host, device=device)
    copies = {
        "out": lambda: host.copy_(there, non_blocking=True),
        "back": lambda: there.copy_(host, non_blocking=True),
    }
    ms = {name: max(one.ms, 1e-6) for name, one in times_of(copies, device).items()}
    arena.close()
    return size / ms["out"] / 1e3, size / ms["back"] / 1e3


def _rate(laps: Sequence[tuple[int, Any, Any]]) -> Optional[float]:
    us = sum(ms_between(begin, end) for _, begin, end in laps) * 1e3
    return sum(size for size, _, _ in laps) / us if us > 0 else None


def other_rates(rates: Rates, reached: Reached) -> Optional[Rates]:
    """The rates with what was reached; none if that is the same."""
    out, back = (was if now is None else now for was, now in zip(rates, reached))
    if all(abs(now - was) <= _SAME_RATE * was for was, now in zip(rates, (out, back))):
        return None
    return out, back


def free_host_memory(root: str = "/") -> Optional[int]:
    """Bytes that the host can give this process, within the limits of its container
    or job (cgroups, both versions); none if it does not tell."""
    free = _cgroup_limits(root)
    with contextlib.suppress(OSError):
        for line in _lines(root, "proc/meminfo"):
            if line.startswith("MemAvailable:"):
                free.append(int(line.split()[1]) * 1024)
    return min(free, default=None)


def _cgroup_limits(root: str) -> list[int]:
    """What the memory limits leave, of this process's group and those above it."""
    groups: dict[str, str] = {}  # by the list of controllers
    mounts: list[tuple[str, str, str]] = []
    with contextlib.suppress(OSError):
        for line in _lines(root, "proc/self/cgroup"):
            _, controllers, group = line.rstrip("\n").split(":", 2)
            groups.update((name, group) for name in controllers.split(","))
        for line in _lines(root, "proc/self/mountinfo"):
            mount, _, told = line.partition(" - ")
            kind, _, options = told.split()[:3]
            if kind == "cgroup2" or "memory" in options.split(","):
                begin, place = mount.split()[3:5]
                mounts.append((kind, begin, place))
    left = []
    for kind, begin, place in mounts:
        new = kind == "cgroup2"
        group = groups.get("" if new else "memory", "/")
        path = os.path.relpath(group, begin)
        if path.startswith(".."):  # told from outside of this container
            path = "."
        while True:
            folder = os.path.join(place, path)
            with contextlib.suppress(OSError, ValueError):
                left.append(_left_in(root, folder, new))
            if path in (".", ""):
                break
            path = os.path.dirname(path)
    return left


def _left_in(root: str, folder: str, new: bool) -> int:
    """Raises ValueError if there is no limit: it is "max"."""
    names = ("memory.max", "memory.current", "inactive_file")
    if not new:
        names = (
            "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        )  # fmt: skip
    limit, used = (
        int(_lines(root, os.path.join(folder, name))[0]) for name in names[:2]
    )
    for line in _lines(root, os.path.join(folder, "memory.stat")):
        name, _, size = line.partition(" ")
        if name == names[2]:  # files that the kernel drops when memory is short
            used -= int(size)
    return max(0, limit - max(0, used))


def _lines(root: str, path: str) -> list[str]:
    with open(os.path.join(root, path.lstrip("/")), encoding="utf-8") as file:
        return file.readlines()
