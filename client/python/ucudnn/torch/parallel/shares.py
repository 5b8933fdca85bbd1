"""What share() returns: each rank's part of the mini-batch, and its use."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Optional

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ucudnn.torch.checks import refuse
from ucudnn.torch.devices import Device
from ucudnn.torch.parallel import checks
from ucudnn.torch.parallel.attached import Attached
from ucudnn.torch.parallel.current import CurrentShares
from ucudnn.torch.parallel.hook import Hook, scale
from ucudnn.torch.parallel.loader import ShareLoader
from ucudnn.torch.parallel.ranks import Ranks
from ucudnn.torch.parallel.sampler import ShareSampler
from ucudnn.torch.parallel.sources import Source


class Shares(CurrentShares):
    """Each rank's share of every mini-batch. Made by share(); the ranks are those
    of its process group. One thread at a time uses it. Calls named collective are
    made by all ranks, in the same order."""

    def __init__(self, ranks: Ranks, device: Device, source: Source) -> None:
        super().__init__(ranks.rank, source.plan())
        self._ranks = ranks
        self._device = device
        self._source = source
        self._attached: Optional[Attached] = None

    @property
    def device_kind(self) -> str:
        """The kind of this rank's device; ranks of one kind share times."""
        return self._device.kind

    def attach(
        self,
        model: Any,
        hook: Optional[Hook] = None,
        state: Any = None,
        *,
        loader: Optional[Any] = None,
        images: Optional[Callable[..., int]] = None,
        overlap: bool = True,
    ) -> Any:
        """Makes DDP weigh gradients by the shares; returns `model`.

        Registers one communication hook: each bucket of gradients times
        batch / global_batch, summed over the ranks. So with losses that are means
        over each rank's images, gradients are means over the mini-batch. `hook`,
        a communication hook of your own, runs after the weighing, with `state`; it
        must average over the ranks, as all of PyTorch's do.

        Each training pass is checked to have this rank's images: as many as the
        first dimension of the model's first tensor, or as `images` says, which
        gets the model's arguments. Several passes under no_sync() may make up a
        share, or several shares a step. `loader` is checked as check() does.

        With `overlap` gradients are exchanged while others are computed: by NCCL,
        and with unlike shares, in a group of their own whose kernels occupy few
        multiprocessors while they wait for other ranks. Without, after the
        backward pass.

        Refuses models that are not a DistributedDataParallel of the same ranks,
        or that have a communication hook. Attach at most one model; a model of
        several parts goes into one DDP.
        """
        ddp = checks.ddp_of(model)
        if self._attached is not None:
            raise refuse(
                "attach: model",
                "a second one",
                "one model of the shares is accepted",
            )
        if loader is not None:
            self.check(loader)
        else:
            checks.refuse_unchecked_loader()
        self._refuse_other_ranks(ddp)
        checks.refuse_unlike_passes(ddp, self._plan)
        if hook is not None and not overlap:
            raise refuse(
                "attach: overlap",
                "False with a hook, which exchanges gradients itself",
                "one of both is accepted",
            )
        unlike = len(set(self.batches)) > 1
        attached = Attached(
            ddp, self._device.device, hook, state, images, overlap, unlike
        )
        attached.adopt(self._own, self.weight)
        self._attached = attached
        return model

    def _refuse_other_ranks(self, ddp: DistributedDataParallel) -> None:
        group = ddp.process_group
        there = (dist.get_rank(group), dist.get_world_size(group))
        if there != (self.rank, self.size):
            raise refuse(
                "attach: model",
                f"its process group has this as rank {there[0]} of {there[1]}",
                f"the group of share() is accepted, with rank {self.rank} of "
                f"{self.size}",
            )

    def check(self, loader: Any) -> Any:
        """Refuses a DataLoader that does not load this rank's share; returns
        it."""
        checks.refuse_wrapped_loader(loader)
        if not isinstance(loader.sampler, ShareSampler) or (
            loader.sampler.shares is not self
        ):
            raise refuse(
                "check: loader.sampler",
                f"a {type(loader.sampler).__name__}",
                "sampler=shares.sampler(dataset) is accepted",
            )
        if loader.batch_size != self.batch:
            raise refuse(
                "check: loader.batch_size",
                loader.batch_size,
                f"shares.batch, {self.batch}, is accepted",
            )
        return loader

    def sampler(
        self, dataset: Any, shuffle: bool = True, seed: int = 0
    ) -> ShareSampler:
        """This rank's images of each step, for a DataLoader with
        batch_size=shares.batch and drop_last=True. See ShareSampler."""
        return ShareSampler(dataset, self, shuffle, seed)

    def loader(
        self,
        dataset: Any,
        shuffle: bool = True,
        seed: int = 0,
        **options: Any,
    ) -> ShareLoader:
        """A loader that follows the shares where they change, and that serves an
        idle rank. `options` are DataLoader's. See ShareLoader."""
        return ShareLoader(self.sampler(dataset, shuffle, seed), **options)

    def micro_batches(self, *tensors: Any) -> Iterator[Any]:
        """Splits a batch, given as tensors whose first dimension is the image,
        into `micro_steps` equal parts, and yields each: a tensor, or a tuple if
        several are given. Call backward() on each part's mean loss; the attached
        model exchanges gradients after the last one. Whole, if one pass does.
        """
        attached = self._needs_attached("micro_batches")
        parts = self.micro_steps
        images = tensors[0].shape[0]
        if images not in (self.batch, 0):
            raise refuse(
                "micro_batches: tensors",
                f"{images} images",
                f"{self.batch}, this rank's share, are accepted",
            )
        split = [tensor.chunk(parts) for tensor in tensors]
        for part, taken in enumerate(zip(*split)):
            with attached.part(parts, last=part == parts - 1):
                yield taken[0] if len(taken) == 1 else taken

    def mean(self, tensor: torch.Tensor) -> torch.Tensor:
        """Collective: the mean over the mini-batch of what is on each rank the
        mean over its own images, such as a loss to print. A new tensor."""
        result = tensor.detach().clone()
        scale(result, self.weight)
        dist.all_reduce(result, group=self._ranks.group)
        return result

    def count(self, n: Any) -> torch.Tensor:
        """Collective: the next gradients are weighed by `n`, a number or a tensor,
        instead of by images: for losses that are means over n items of this rank,
        such as tokens or labelled pixels. Call it once a step, before the pass
        that exchanges gradients. Returns the sum over all ranks. Does not wait for
        the device. If the step has several passes, divide each one's sum of losses
        by this rank's whole n."""
        attached = self._needs_attached("count")
        own = torch.as_tensor(
            n, dtype=torch.float64, device=self._device.device
        ).detach()
        total = own.clone()
        dist.all_reduce(total, group=self._ranks.group)
        attached.count(own / total.clamp(min=1e-300))
        return total

    def _needs_attached(self, place: str) -> Attached:
        if self._attached is None:
            raise refuse(
                place, "no model is attached", "attach(ddp) before is accepted"
            )
        return self._attached

    def report(self, ms: Optional[float] = None) -> None:
        """Reports how long this rank computed in its last step, in milliseconds,
        without waiting for other ranks: under DDP all ranks' whole steps last
        equally long, whatever the shares. Without `ms` the time is taken from the
        attached model: from the first forward pass to the last gradient. Does not
        wait."""
        if ms is None:
            times = self._needs_attached("report").own_time.take_ms()
        else:
            if not 0 <= ms < float("inf"):
                raise refuse(
                    "report: ms", ms, "a time from 0 up is accepted"
                )
            times = [ms]
        for time in times:
            self._source.report(time)

    def refresh(self) -> bool:
        """Collective, between two steps: adopts other shares if there is reason
        to, on all ranks or on none, and tells whether it did. Costs an exchange of
        a few bytes among the hosts. Afterwards `batch`, `first_image` and the
        others have changed, and loaders with the old batch must be made anew;
        shares.loader() follows by itself."""
        plan = self._source.replan()
        if plan is None:
            return False
        if self._attached is not None:
            checks.refuse_unlike_passes(self._attached.ddp, plan)
        self._adopt(plan)
        if self._attached is not None:
            self._attached.adopt(self._own, self.weight)
        return True
