"""Loads this rank's images, also where the shares change or are empty."""

from __future__ import annotations

import copy
from typing import Any, Callable, Iterator, Optional

from torch.utils.data import DataLoader, default_collate

from ucudnn.torch.checks import refuse
from ucudnn.torch.parallel.batch import emptied
from ucudnn.torch.parallel.sampler import ShareSampler

_OURS = ("batch_size", "sampler", "batch_sampler", "shuffle", "drop_last")


class ShareLoader:
    """What DataLoader(dataset, shares.batch, sampler=shares.sampler(dataset),
    drop_last=True) loads; and moreover: after `shares.refresh()` adopted new
    shares, the epoch goes on with them at the next step; and an idle rank gets
    batches of no images, which a model takes part with. `options` are those of
    DataLoader."""

    def __init__(self, sampler: ShareSampler, **options: Any) -> None:
        for name in _OURS:
            if name in options:
                raise refuse(
                    f"loader: {name}",
                    repr(options[name]),
                    "DataLoader's other options are accepted; the shares decide "
                    "this one",
                )
        self.sampler = sampler
        collate: Optional[Callable[..., Any]] = options.pop("collate_fn", None)
        self._collate = collate or default_collate
        self._options = options

    def set_epoch(self, epoch: int, step: int = 0) -> None:
        """See ShareSampler."""
        self.sampler.set_epoch(epoch, step)

    def __len__(self) -> int:
        """The steps that are left in the epoch."""
        return self.sampler.steps - self.sampler.first_step

    def __iter__(self) -> Iterator[Any]:
        step = self.sampler.first_step
        shares = self.sampler.shares
        while step < self.sampler.steps:
            revision = shares.revision
            for batch in self._loader(step):
                step += 1
                yield batch
                if shares.revision != revision:
                    break

    def _loader(self, first_step: int) -> DataLoader[Any]:
        idle = self.sampler.shares.batch == 0
        return DataLoader(
            self.sampler.dataset,
            batch_sampler=_Batches(self.sampler, first_step),
            collate_fn=_Empty(self._collate) if idle else self._collate,
            **self._options,
        )


class _Batches:
    """A batch sampler. An idle rank loads one image, for its shape."""

    def __init__(self, sampler: ShareSampler, first_step: int) -> None:
        self._sampler = sampler
        self._first_step = first_step

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self._sampler.batches(self._first_step):
            yield batch or [0]

    def __len__(self) -> int:
        return self._sampler.steps - self._first_step


class _Empty:
    """Collates one image, and keeps none."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self._collate = collate

    def __call__(self, images: Any) -> Any:
        twice = copy.deepcopy(images) + copy.deepcopy(images)
        return emptied(self._collate(images), self._collate(twice))
