"""How the ranks of a job agree."""

from __future__ import annotations

from typing import Any, Callable, Optional, TypeVar

import torch.distributed as dist

from ucudnn.errors import Error, error_of
from ucudnn.torch.checks import refuse

_Value = TypeVar("_Value")


class Ranks:
    """The processes of one process group. Its calls are collective: all ranks
    make them in the same order. They exchange small Python objects over gloo, so
    that they neither wait for a GPU nor disturb NCCL."""

    def __init__(self, group: Optional[Any] = None) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise refuse(
                "share: torch.distributed",
                "not initialised",
                "a process group is accepted: call "
                "torch.distributed.init_process_group() first",
            )
        self.group = group  # None: the default group
        self.rank: int = dist.get_rank(group)
        self.size: int = dist.get_world_size(group)
        if self.rank < 0:
            raise refuse("share: group", "one without this rank", "its own is accepted")
        self.backend: str = str(dist.get_backend(group))
        self._control = group
        # A group of some ranks cannot be made without the others.
        if self.backend != "gloo" and group is None:
            self._control = dist.new_group(backend="gloo")

    def gather(self, value: _Value) -> list[_Value]:
        """Every rank's value, by rank."""
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self._control)
        return values

    def agree(self, compute: Callable[[], _Value]) -> list[_Value]:
        """Every rank's result of `compute`, by rank. If it fails on one rank, it
        fails on all, so that none waits for another."""
        failure: Optional[Exception] = None
        value: Optional[_Value] = None
        told = None
        try:
            value = compute()
        except Error as error:
            least = getattr(error, "least", None)
            failure, told = error, (error.code, str(error), least)
        except Exception as error:
            failure, told = error, (2, f"{type(error).__name__}: {error}", None)
        answers = self.gather((value, told))
        if failure is not None:
            raise failure
        for rank, (_, other) in enumerate(answers):
            if other is not None:
                code, text, least = other
                raise error_of(
                    code, f"rank {rank}: {text}", -1 if least is None else least
                )
        return [answer[0] for answer in answers]  # type: ignore[misc]

    def from_first(self, compute: Callable[[], _Value]) -> _Value:
        """The result of `compute` on rank 0, which alone runs it."""
        results = self.agree(lambda: compute() if self.rank == 0 else None)
        return results[0]  # type: ignore[return-value]
