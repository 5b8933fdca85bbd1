"""Which images each rank sees."""

from __future__ import annotations

from typing import Any, Iterator

import torch
from torch.utils.data import DistributedSampler

from ucudnn.torch.checks import refuse, whole_number
from ucudnn.torch.parallel.current import CurrentShares


class ShareSampler(DistributedSampler):
    """Deals each mini-batch out by the shares. Step k of an epoch has the same
    images whatever the shares are and however many ranks there are: those at k B
    to (k + 1) B of the epoch's order, of which each rank takes its part. What is
    left at an epoch's end and makes no whole mini-batch is dropped.

    A DistributedSampler, because frameworks leave those alone. `set_epoch` shuffles
    anew, and resumes within an epoch. Indices come in the order of steps, this
    rank's `shares.batch` of each."""

    def __init__(
        self, dataset: Any, shares: CurrentShares, shuffle: bool = True, seed: int = 0
    ) -> None:
        try:
            images = len(dataset)
        except TypeError:
            raise refuse(
                "sampler: dataset",
                f"a {type(dataset).__name__} without a length",
                "a map-style dataset is accepted",
            ) from None
        if images < shares.global_batch:
            raise refuse(
                "sampler: dataset",
                f"{images} images",
                f"{shares.global_batch}, the mini-batch, or more are accepted",
            )
        super().__init__(
            dataset,
            num_replicas=shares.size,
            rank=shares.rank,
            shuffle=shuffle,
            seed=seed,
            drop_last=True,
        )
        self.shares = shares
        self.first_step = 0
        self._images = images

    @property
    def steps(self) -> int:
        """The steps of a whole epoch, the same on all ranks."""
        return self._images // self.shares.global_batch

    def set_epoch(self, epoch: int, step: int = 0) -> None:
        """Begins with step `step` of epoch `epoch`: call it before each epoch, on
        all ranks alike. Resuming may use other shares or another number of ranks
        than before, but the same mini-batch and seed."""
        whole_number("set_epoch: step", step, 0)
        if step > self.steps:
            raise refuse(
                "set_epoch: step",
                step,
                f"at most {self.steps}, the steps of an epoch, are accepted",
            )
        self.epoch = epoch
        self.first_step = step

    def order(self) -> list[int]:
        """The epoch's order of all images."""
        if not self.shuffle:
            return list(range(self._images))
        generator = torch.Generator()
        generator.manual_seed(self.seed + self.epoch)
        return torch.randperm(self._images, generator=generator).tolist()

    def batches(self, first_step: int) -> Iterator[list[int]]:
        """This rank's images of each step from `first_step` on; empty lists if
        it is idle."""
        order = self.order()
        for step in range(first_step, self.steps):
            begin = step * self.shares.global_batch + self.shares.first_image
            yield order[begin : begin + self.shares.batch]

    def __iter__(self) -> Iterator[int]:
        for batch in self.batches(self.first_step):
            yield from batch

    def __len__(self) -> int:
        return (self.steps - self.first_step) * self.shares.batch
