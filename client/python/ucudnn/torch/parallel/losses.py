"""The kinds of losses, and the weight that each rank's gradients need.

| `loss` | a rank's loss is | weight of its gradients |
|---|---|---|
| "images" | the mean over its own images | its images / mini-batch |
| "sum" | the sum over its own images | 1 |
| "items" | the mean over its own n items | n / sum of n, by count(n) |
| "ranks" | already normalised over all ranks | 1 / ranks, as under plain DDP |
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Any, Iterator, Optional

import torch
import torch.distributed as dist

from ucudnn.torch.checks import one_of
from ucudnn.torch.nested import tensors_in

LOSSES = ("images", "sum", "items", "ranks")
_STEPS = 2  # that are looked at
# Their ranks agree between any two steps whether to go on.
_AGREEING = ("lightning.pytorch", "pytorch_lightning")


def check_loss(loss: Optional[str]) -> None:
    """Raises InvalidArgument for kinds that there are not."""
    if loss is not None:
        one_of("attach: loss", loss, LOSSES)


def weight_of(
    loss: Optional[str], batch: int, global_batch: int, ranks: int
) -> Optional[float]:
    """The weight of a rank's gradients; None if only count() can tell it. An idle
    rank's sum has none, because it may be no number."""
    if loss == "items":
        return None
    if loss == "sum":
        return 1.0 if batch else 0.0
    if loss == "ranks":
        return 1 / ranks
    return batch / global_batch


class LossCheck:
    """Watches the first steps of a model whose kind of loss was not named, and
    warns once of what a mean over a rank's images would not do: exchanges with
    other ranks, and rows of the model's output without a gradient. `exchanges` tells
    whether the model itself makes some, as SyncBatchNorm does."""

    def __init__(self, groups: list[Any], exchanges: bool) -> None:
        self._groups = groups
        self._expected = exchanges
        self._between = not any(name in sys.modules for name in _AGREEING)
        self._steps = 0
        self._exchanges = 0
        self._mark: Optional[int] = None  # how many exchanges there had been
        self.active = self._sequence() is not None

    def end(self) -> None:
        """Nothing is left to tell."""
        self.active = False

    def before_forward(self) -> None:
        self._look()
        # DDP's own exchanges are in later passes.
        if not self._steps and not self._expected:
            self._set_mark()

    def after_forward(self, output: Any) -> None:
        """`output` is the model's."""
        self._look()
        self._set_mark()
        for tensor in tensors_in(output):
            if tensor.requires_grad:
                tensor.register_hook(self._on_gradient)

    def _on_gradient(self, gradient: Optional[torch.Tensor]) -> None:
        if not self.active:
            return
        self._look()
        if gradient is None or self._steps or gradient.dim() < 2:
            return
        # The classes are the second dimension of images, else the last.
        of_rows = gradient.detach().ne(0).any(1 if gradient.dim() == 4 else -1)
        empty = of_rows.numel() - int(of_rows.sum())
        if 0 < empty < of_rows.numel():
            self._warn(
                f"{empty} of {of_rows.numel()} rows of the model's output have no "
                "gradient, as where labels are ignored; a mean over the others "
                'needs loss="items" and shares.count(how many)'
            )

    def after_exchange(self) -> None:
        """The last gradients of a step are being summed, in a backward pass."""
        self._steps += 1
        if self._steps < _STEPS:
            if self._between:
                # What DDP itself exchanges as the pass ends does not count.
                torch.autograd.Variable._execution_engine.queue_callback(self._set_mark)
        elif self._exchanges:
            self._warn(
                f"there were {self._exchanges} exchanges among the ranks in "
                f"{_STEPS} steps; a loss that is divided by a sum over all "
                'ranks, or computed on all ranks\' rows, needs loss="ranks"'
            )
        else:
            self.end()

    @contextlib.contextmanager
    def ours(self) -> Iterator[None]:
        """Exchanges within do not count."""
        before = self._sequence() if self.active else None
        yield
        after = self._sequence() if self.active else None
        if self._mark is not None and before is not None and after is not None:
            self._mark += after - before

    def _set_mark(self) -> None:
        self._mark = self._sequence()

    def _look(self) -> None:
        now = self._sequence()
        if self._mark is not None and now is not None:
            self._exchanges += now - self._mark
        self._mark = None

    def _sequence(self) -> Optional[int]:
        """The number of exchanges so far; None if a backend does not count."""
        try:
            return sum(g._get_sequence_number_for_group() for g in self._groups)
        except (AttributeError, RuntimeError):
            return None

    def _warn(self, what: str) -> None:
        self.end()
        warnings.warn(
            "attach: loss: not given, so gradients are weighed by images, but "
            f'{what}. loss="images" says that each rank\'s loss is the mean over '
            "its own images, and ends this warning",
            stacklevel=2,
        )


def groups_of(group: Any) -> list[Any]:
    """A process group and the default one."""
    default = dist.group.WORLD
    return [group] if group is default else [group, default]
