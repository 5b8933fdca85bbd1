"""Hooks for the saved tensors of a running step."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Optional

import torch
from torch.autograd.graph import saved_tensors_hooks

from ucudnn.torch.checks import refuse, under_hooks

Hook = Callable[[Any], Any]


class Failed:
    """What hooks have raised: autograd passes exceptions on without their type."""

    def __init__(self) -> None:
        self.error: Optional[BaseException] = None

    def note(self, error: BaseException) -> BaseException:
        self.error = self.error or error
        return error


@contextlib.contextmanager
def hooked(failed: Failed, pack: Hook, unpack: Hook) -> Iterator[None]:
    """Within it the tensors that autograd saves go through the hooks, but for those
    within other hooks, as of a checkpoint. Refuses to be within other hooks: a tensor
    goes through one pair alone."""
    if under_hooks():
        raise refuse(
            "memory: saved_tensors_hooks",
            "other hooks are active",
            "a step outside of them is accepted",
        )
    with saved_tensors_hooks(pack, unpack):
        try:
            yield
        except BaseException:
            if failed.error is not None:
                raise failed.error from None
            raise


def in_backward() -> bool:
    """Whether this thread runs a backward pass, whoever began it."""
    return torch._C._current_graph_task_id() != -1


def refuse_in_backward(tensor: torch.Tensor) -> None:
    """A plan is of one pass forward and one back."""
    if in_backward():
        raise refuse(
            "memory: the backward pass",
            f"it saves {tensor.dtype} {tuple(tensor.shape)}",
            "a backward pass without double backward is accepted",
        )
