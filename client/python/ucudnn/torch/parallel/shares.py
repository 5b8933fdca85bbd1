"""What share() returns: each rank's part of the mini-batch, and its use."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Callable, ContextManager, Iterator, Optional

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ucudnn.torch.checks import refuse
from ucudnn.torch.devices import Device
from ucudnn.torch.parallel import checks
from ucudnn.torch.parallel.attached import Attached
from ucudnn.torch.parallel.batch import part_of
from ucudnn.torch.parallel.current import CurrentShares
from ucudnn.torch.parallel.functions import Gathered
from ucudnn.torch.parallel.hook import Hook, scale
from ucudnn.torch.parallel.loader import ShareLoader
from ucudnn.torch.parallel.losses import check_loss
from ucudnn.torch.parallel.ranks import Ranks
from ucudnn.torch.parallel.sampler import ShareSampler
from ucudnn.torch.parallel.sources import Source


class Shares(CurrentShares):
    """Each rank's share of every mini-batch. Made by share(); the ranks are those
    of its process group. One thread at a time uses it. Calls named collective are
    made by all ranks, in the same order."""

    def __init__(
        self, ranks: Ranks, device: Device, source: Source, model: Any = None
    ) -> None:
        super().__init__(ranks.rank, source.plan())
        self._ranks = ranks
        self._device = device
        self._source = source
        self._attached: Optional[Attached] = None
        self.model = model
        """Compiled within this rank's budget, if share was given a model."""

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
        loss: Optional[str] = None,
        loader: Optional[Any] = None,
        images: Optional[Callable[..., int]] = None,
        overlap: bool = True,
    ) -> Any:
        """Makes DDP weigh gradients by the shares; returns `model`.

        Registers one communication hook, which multiplies each bucket of gradients
        by this rank's weight and sums it over the ranks. `loss` says what each
        rank's loss is, and so what the weight must be: "images", the mean over its
        own images (batch / global_batch); "sum", the sum over them (1); "items",
        the mean over its own n items, where count(n) is called in each step
        (n / their sum); or "ranks", already normalised over all ranks, as plain
        DDP needs it (1 / ranks). Gradients are then those of one process with the
        whole mini-batch. Without `loss` it is "images", count() is accepted in each
        step, and the first steps warn if they look like another kind. `hook`, a
        communication hook of your own, runs after the weighing, with `state`; it
        must average over the ranks, as all of PyTorch's do.

        Each training pass is checked to have this rank's images: as many as the
        first dimension of the model's first tensor, or as `images` says, which
        gets the model's arguments. Lists of images need it. Several passes under
        no_sync() may make up a share, or several shares a step. `loader` is
        checked as check() does.

        If DDP broadcasts buffers, such as BatchNorm's statistics, all ranks have
        those of the rank with most images (the first of several) after each
        exchange of gradients, instead of rank 0's before each pass.

        With `overlap` gradients are exchanged while others are computed: by NCCL,
        and with unlike shares, in a group of their own whose kernels occupy few
        multiprocessors while they wait for other ranks. Without, after the
        backward pass.

        Raises InvalidArgument for models that are not a DistributedDataParallel of
        the same ranks (compiled before or after, or not), or that have a
        communication hook. Attach at most one model; a model of
        several parts goes into one DDP.
        """
        check_loss(loss)
        ddp = checks.ddp_of(model)
        if self._attached is not None:
            raise refuse(
                "attach: model", "a second one", "one model of the shares is accepted"
            )
        if loader is not None:
            self.check(loader)
        else:
            checks.refuse_unchecked_loader()
        self._refuse_other_ranks(ddp)
        checks.refuse_unlike_passes(ddp, self._plan)
        checks.refuse_other_statistics(ddp)
        if hook is not None and not overlap:
            raise refuse(
                "attach: overlap",
                "False with a hook, which exchanges gradients itself",
                "one of both is accepted",
            )
        unlike = len(set(self.batches)) > 1
        attached = Attached(
            ddp, self._device.device, hook, state, images, overlap, unlike, loss
        )
        attached.adopt(self.rank, self._plan.ranks)
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
        self, dataset: Any, shuffle: bool = True, seed: int = 0, **options: Any
    ) -> ShareLoader:
        """A loader that follows the shares where they change, and that serves an
        idle rank. `options` are DataLoader's. See ShareLoader."""
        return ShareLoader(self.sampler(dataset, shuffle, seed), **options)

    def micro_batches(self, *batch: Any) -> Iterator[Any]:
        """Splits a batch into `micro_steps` equal parts, and yields each: a value, or
        a tuple if several are given. Each is a tensor whose first dimension is the
        image, a list or tuple with an item for each image, or a dictionary of them.
        Call backward() on each part's loss; the attached model exchanges gradients
        after the last one. Means over images are averaged over the parts, and
        losses of other kinds added up. Whole, if one pass does. Raises
        InvalidArgument if a value has other than `batch` images.
        """
        attached = self._needs_attached("micro_batches")
        parts = self.micro_steps
        size = self.batch // parts
        for index in range(parts):
            part = slice(index * size, (index + 1) * size)
            taken = tuple(part_of(value, self.batch, part) for value in batch)
            with attached.part(parts, last=index == parts - 1):
                yield taken[0] if len(taken) == 1 else taken

    def mean(self, tensor: torch.Tensor, n: Any = None) -> torch.Tensor:
        """Collective: the mean over the mini-batch of what is on each rank the
        mean over its own images, such as a loss to print; or over its own `n` items,
        a number or a tensor; n=1 averages over the ranks. A new tensor."""
        with self._uncounted():
            weight: Any = self.weight
            if n is not None:
                weight, total = self._part_of_all("mean", n)
            result = tensor.detach().clone()
            scale(result, weight)
            dist.all_reduce(result, group=self._ranks.group)
        return result

    def count(self, n: Any) -> torch.Tensor:
        """Collective: the next gradients are weighed by `n`, a number or a tensor,
        instead of by images: for losses that are means over n items of this rank,
        such as tokens or labelled pixels. count(1) is for a loss that is normalised
        over all ranks already. Call it once a step, before its first backward pass.
        Returns the sum over all ranks. Does not wait for the device. If the step
        has several passes, divide each one's sum of losses by this rank's whole n.
        Raises InvalidArgument if `n` is not one number from 0 up, or if attach() was
        told of another kind of loss."""
        attached = self._needs_attached("count")
        attached.refuse_count()
        with self._uncounted():
            factor, total = self._part_of_all("count", n)
        attached.count(factor)
        return total

    def gather(self, rows: torch.Tensor) -> torch.Tensor:
        """Collective, in the backward pass too: the rows of all ranks' images, in the
        mini-batch's order, for losses of each image against all, which
        loss="ranks" weighs. `rows` has this rank's, `batch` of them.

        Gradients of all ranks' losses reach the rows, as by
        torch.distributed.nn.functional.all_gather, which takes equal shares only.
        Raises InvalidArgument on another number of rows, or if they have gradients
        and an attached model was told of another kind of loss."""
        attached = self._attached
        graded = rows.requires_grad and torch.is_grad_enabled()
        if graded and attached is not None and attached.loss != "ranks":
            raise refuse(
                "gather",
                f"a model attached with loss={attached.loss!r}",
                'attach(ddp, loss="ranks") is accepted',
            )
        if rows.dim() == 0 or rows.shape[0] != self.batch:
            raise refuse(
                "gather: rows",
                f"a tensor of shape {tuple(rows.shape)}",
                f"one with {self.batch} rows, this rank's share, is accepted",
            )
        return Gathered.apply(
            rows, self.first_image, self.global_batch, self._ranks.group
        )

    def _part_of_all(self, place: str, n: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """This rank's part of the sum of all ranks' n, and the sum."""
        own = torch.as_tensor(
            n, dtype=torch.float64, device=self._device.device
        ).detach()
        known = not isinstance(n, torch.Tensor)  # others may be on a busy device
        if own.numel() != 1 or (known and not 0 <= n < float("inf")):
            raise refuse(f"{place}: n", n, "one number from 0 up is accepted")
        total = own.reshape(()).clone()
        dist.all_reduce(total, group=self._ranks.group)
        return own.reshape(()) / total.clamp(min=1e-300), total

    def _uncounted(self) -> ContextManager[None]:
        """Exchanges within say nothing of a job's loss."""
        attached = self._attached
        return nullcontext() if attached is None else attached.check.ours()

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
                raise refuse("report: ms", ms, "a time from 0 up is accepted")
            times = [ms]
        for time in times:
            self._source.report(time)

    def finish(self) -> None:
        """Tells the coordinator that the job has ended, where it has one; within some
        seconds. A program's end does so, too."""
        self._source.finish()

    def refresh(self) -> bool:
        """Collective, between two steps (else InvalidArgument): adopts other shares if there is reason
        to, on all ranks or on none, and tells whether it did. Costs an exchange of
        a few bytes among the hosts. Afterwards `batch`, `first_image` and the
        others have changed, and loaders with the old batch must be made anew;
        shares.loader() follows by itself."""
        if self._attached is not None and self._attached.accumulating:
            raise refuse(
                "refresh",
                "between two passes of a step, whose gradients are not exchanged "
                "yet",
                "between two steps is accepted",
            )
        with self._uncounted():
            plan = self._source.replan()
        if plan is None:
            return False
        if self._attached is not None:
            checks.refuse_unlike_passes(self._attached.ddp, plan)
        self._adopt(plan)
        if self._attached is not None:
            self._attached.adopt(self.rank, plan.ranks)
        return True
