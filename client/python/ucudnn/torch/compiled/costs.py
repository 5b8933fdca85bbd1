"""How long a node of a graph takes on a device, measured once for each operator and
shape and kept in the folder of ucudnn's caches, `torch/nodes/KIND.json`."""

from __future__ import annotations

import functools
import logging
import math
import operator
from typing import Any, Callable, Iterable

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ucudnn.torch.compiled import private
from ucudnn.torch.devices import find_device, same_randomness
from ucudnn.torch.parallel.cache import StepCache
from ucudnn.torch.profiling import out_of_memory
from ucudnn.torch.saved.links import link_of
from ucudnn.torch.timing import besides, times_of

_log = logging.getLogger("ucudnn.torch.compile")

# A kernel takes at least this long beside others (H100: 1.5 to 3 us).
_KERNEL_US = 2.0
# Of the copy that tells the rate of memory: twice what a GPU's cache holds.
_COPIED = {"cuda": 128 << 20, "cpu": 8 << 20}
# Whole numbers are places in tensors or seeds: what has many of them is not run with
# others, but counted by its bytes.
_MOST_NUMBERS = 16


def bytes_of(value: Any) -> int:
    """Of a tensor without memory, or of all in a tuple."""
    return sum(
        math.prod(one.shape) * one.element_size()
        for one in tree_leaves(value)
        if isinstance(one, torch.Tensor)
    )


class Costs:
    """Of one device; `save` keeps what was measured."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._kind = find_device(device).kind
        self._us = self._cached()
        self._new = False
        self._rate = self._known("copy", self._copy)

    def moved(self, size: int) -> float:
        """Microseconds of a kernel that reads and writes so many bytes at all."""
        return max(_KERNEL_US, size / self._rate) if size else 0.0

    def of(self, node: Any) -> float:
        """Microseconds of an operator that Inductor does not fuse."""
        value = node.meta.get("val")
        size = bytes_of(value) + sum(
            bytes_of(one.meta.get("val")) for one in node.all_input_nodes
        )
        if size == 0 or node.target is operator.getitem:
            return 0.0
        if not _runs_alone(node):
            return self.moved(size)
        return self._known(_key(node), lambda: self._run(node, size))

    def workspace(self, node: Any) -> int:
        """Bytes of a GPU's memory that such an operator takes besides operands and
        results, as convolutions' algorithms do."""
        if self.device.type != "cuda" or not _runs_alone(node):
            return 0
        return int(self._known(f"workspace of {_key(node)}", lambda: self._taken(node)))

    def link(self) -> tuple[float, float]:
        """Bytes a microsecond to the host, and back."""
        rates = functools.lru_cache(link_of(self.device).rates)
        return (
            self._known("to the host", lambda: rates()[0]),
            self._known("from the host", lambda: rates()[1]),
        )

    def save(self) -> None:
        if self._new:
            self._new = False
            us = {**self._cached(), **self._us}
            StepCache().write_json("nodes", self._kind, us)

    def _cached(self) -> dict[str, float]:
        told = StepCache().read_json("nodes", self._kind)
        try:
            return {str(key): float(us) for key, us in told.items() if float(us) > 0}
        except (ValueError, TypeError, AttributeError):
            return {}

    def _known(self, key: str, measure: Any) -> float:
        if key not in self._us:
            with private.outside(), same_randomness(self.device):
                self._us[key] = measure()
            self._new = True
        return self._us[key]

    def _copy(self) -> float:
        """Bytes read and written in a microsecond."""
        size = _COPIED.get(self.device.type, _COPIED["cpu"])
        source = torch.zeros(size, dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)
        copy = {"copy": lambda: target.copy_(source)}
        return 2 * size / (times_of(copy, self.device)["copy"].ms * 1e3)

    def _run(self, node: Any, size: int) -> float:
        try:
            run = {"node": self._runs(node)}
            return times_of(run, self.device, rounds=3)["node"].ms * 1e3
        except Exception as error:  # of an operator that needs other values
            if not out_of_memory(error):
                _log.debug("%s was not measured: %s", node.target, error)
            return self.moved(size)

    def _taken(self, node: Any) -> float:
        """At least 1."""
        try:
            return max(1.0, besides(self.device, self._runs(node)))
        except Exception as error:
            _log.debug("%s was not measured: %s", node.target, error)
            return 1.0

    def _runs(self, node: Any) -> Callable[[], Any]:
        positional, named = tree_map(self._real, (node.args, node.kwargs))
        return lambda: node.target(*positional, **named)

    def _real(self, argument: Any) -> Any:
        if not isinstance(argument, torch.fx.Node):
            return argument
        return tree_map(self._tensor, argument.meta["val"])

    def _tensor(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        real = torch.empty_strided(
            value.shape, value.stride(), dtype=value.dtype, device=value.device
        )
        # Not zeros, on which a GPU takes less power and is faster.
        return real.normal_() if value.is_floating_point() else real.zero_()


def _runs_alone(node: Any) -> bool:
    """Whether it can be measured by itself, on any values."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    tensors = [
        one
        for one in tree_leaves([n.meta.get("val") for n in node.all_input_nodes])
        if isinstance(one, torch.Tensor)
    ]
    return all(
        t.is_floating_point() or math.prod(t.shape) <= _MOST_NUMBERS for t in tensors
    )


def _key(node: Any) -> str:
    def spoken(argument: Any) -> str:
        if isinstance(argument, torch.fx.Node):
            return _shapes(argument.meta.get("val"))
        return str(argument)

    arguments: Iterable[Any] = tree_leaves((node.args, node.kwargs))
    flags = (
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
    )
    return f"{node.target}({', '.join(map(spoken, arguments))}) {flags}"


def _shapes(value: Any) -> str:
    return " ".join(
        f"{str(one.dtype).partition('.')[2]}{list(one.shape)}/{list(one.stride())}"
        for one in tree_leaves(value)
        if isinstance(one, torch.Tensor)
    )
