"""What a recording of a step consists of, and which steps have none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Optional

import torch

from ucudnn.torch.checks import refuse
from ucudnn.torch.saved.origins import Origin
from ucudnn.torch.saved.recipes import Recipe
from ucudnn.torch.saved.storages import Layout, bytes_of, layout_of


class Kind(NamedTuple):
    """What a hook was called with; the same in every step."""

    pack: int  # the number of the saved tensor
    saves: bool
    storage: int  # the number of its storage; -1: it is left alone
    dtype: torch.dtype
    layout: Layout

    def __str__(self) -> str:
        done = "saves" if self.saves else "needs"
        return (
            f"{done} tensor {self.pack}, {self.dtype} {self.layout.size} with "
            f"strides {self.layout.stride}"
        )


class Again(NamedTuple):
    """How a storage is computed again, and what that takes."""

    recipe: Recipe
    ms: float
    bytes: int  # temporary
    exact: bool  # gives the same bits
    origin: Optional[Origin] = None
    seen: Optional[list[Any]] = None  # of the origin, in the recording


@dataclass
class Saved:
    """A storage that the step saves."""

    bytes: int
    hook: int
    dtype: torch.dtype
    held: int = 0  # the last segment in which other code held it
    stays: bool = False  # other code holds it until it is needed
    uses: list[int] = field(default_factory=list)  # segments
    released: int = 0  # the last segment in which it was in use
    again: Optional[Again] = None
    deep: Optional[Again] = None  # by a deep recipe
    changed: bool = False  # in place, after it was saved
    narrow: Optional[torch.dtype] = None  # holds all its values in fewer bytes
    narrow_ms: float = 0.0  # of each conversion
    is_narrow: bool = False  # it stands for its narrow copy

    def as_narrow(self) -> Saved:
        """Its narrow copy, which no other code holds."""
        assert self.narrow is not None
        elements = self.bytes // self.dtype.itemsize
        return replace(
            self,
            bytes=elements * self.narrow.itemsize,
            dtype=self.narrow,
            held=self.hook,
            is_narrow=True,
        )


@dataclass
class Recording:
    kinds: list[Kind]  # by hook
    storages: list[Saved]
    backward: list[bool]  # by segment
    ms: list[float]
    bytes: list[int]  # by segment: the most in use
    floor: list[int]  # by hook: in use when it returns


def kept(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without the graph that made it, which may be what saves it."""
    return tensor if tensor.is_leaf else tensor.detach()


def left_alone(tensor: torch.Tensor, device: torch.device) -> bool:
    """Parameters stay anyway, and so does what batches are slices of; the others are
    not plain pieces of memory, or numbers."""
    return (
        tensor.dim() == 0
        or tensor.device != device
        or type(tensor) not in (torch.Tensor, torch.nn.Parameter)
        or (tensor.is_leaf and tensor.requires_grad)
        or tensor.layout != torch.strided
        or tensor.is_conj()
        or tensor.is_neg()
        or bytes_of(tensor) == 0
        or bytes_of(tensor) % tensor.element_size() != 0
        or (not tensor.requires_grad and not layout_of(tensor).whole(tensor))
    )


def changed_in_place(dtype: torch.dtype, size: tuple[int, ...]) -> Exception:
    return refuse(
        "memory: the step",
        f"it changes a saved tensor, {dtype} {size}, in place before the backward pass "
        "needs it",
        "a step that leaves saved tensors alone is accepted",
    )
