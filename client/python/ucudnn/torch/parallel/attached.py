"""A DDP with the hook that weighs its gradients."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any, Callable, Iterator, Optional

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ucudnn.torch.checks import refuse, whole_number
from ucudnn.torch.parallel.batch import images_of
from ucudnn.torch.parallel.checks import refuse_capture, refuse_join
from ucudnn.torch.parallel.functions import using_all_parameters
from ucudnn.torch.parallel.hook import Hook, HookState, OwnTime, narrow
from ucudnn.torch.parallel.losses import LossCheck, groups_of, weight_of
from ucudnn.torch.parallel.planning import RankShare
from ucudnn.torch.parallel.synchronised import synchronised_in, weigh_synchronised


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    found = weakref.WeakMethod(method)

    def call() -> None:
        bound = found()
        if bound is not None:
            bound()

    return call


class Attached:
    """Weighs the gradients of one DDP, and checks what it is fed."""

    def __init__(
        self,
        ddp: DistributedDataParallel,
        device: torch.device,
        hook: Optional[Hook],
        state: Any,
        images: Optional[Callable[..., int]],
        overlap: bool,
        unlike: bool,
        loss: Optional[str],
    ) -> None:
        self.ddp = ddp
        self.loss = loss
        self._device = device
        self._images = images
        self._share = RankShare(0, 0, 1, None)
        self._seen = 0  # images since gradients were last exchanged
        self.accumulating = False  # passes whose gradients are not exchanged yet
        self.own_time = OwnTime(device)
        # Two groups whose kernels may wait at once for the same rank could
        # wait for each other.
        synchronised = bool(synchronised_in(ddp.module))
        group = ddp.process_group
        if unlike and overlap and hook is None and not synchronised:
            group = narrow(group)
        self._state = HookState(group, hook, state, overlap)
        self._state.on_end = self.own_time.end
        # DDP keeps its hook where Python's garbage collector does not look, so
        # a hook that held the DDP would keep the model for ever.
        self._state.after_end = _weakly(self._after_exchange)
        try:
            ddp.register_comm_hook(self._state, HookState.reduce)
        except (RuntimeError, TypeError, ValueError) as error:
            raise refuse(
                "attach: model",
                f"it takes no communication hook: {error}",
                "a DistributedDataParallel without one is accepted; pass yours "
                "to attach(ddp, hook, state)",
            ) from error
        weigh_synchronised(ddp.module, self._state.part)
        # One rank's buffers, such as BatchNorm's statistics, are everybody's: DDP
        # copies rank 0's before a pass, this the source's after the exchange.
        self._source = 0
        hooked = hasattr(ddp, "buffer_hook")
        self._copies = ddp.will_sync_module_buffers() and not hooked
        self.check = LossCheck(
            groups_of(ddp.process_group), exchanges=synchronised or hooked
        )
        if loss is not None:
            self.check.end()
        if self._copies:
            ddp._register_buffer_comm_hook(None, lambda state, buffers: None)
        # The compiler does not look into what it would compile for each step.
        ddp.register_forward_pre_hook(
            torch.compiler.disable(self._forward), with_kwargs=True
        )
        ddp.register_forward_hook(torch.compiler.disable(self._after_forward))

    def adopt(self, rank: int, shares: list[RankShare]) -> None:
        """Weighs gradients from now on by these shares of all ranks."""
        batches = [share.batch for share in shares]
        self._share = shares[rank]
        self._source = batches.index(max(batches))
        self._state.weight = weight_of(
            self.loss, batches[rank], sum(batches), len(batches)
        )
        self._seen = 0

    def refuse_count(self) -> None:
        """Raises InvalidArgument if no count can weigh the next gradients."""
        if self.loss not in (None, "items"):
            raise refuse(
                "count",
                f"attach was told loss={self.loss!r}",
                'loss="items" is accepted',
            )
        if self._state.weighed:
            raise refuse(
                "count",
                "after a backward pass of the step, in which SyncBatchNorm was "
                "weighed without it",
                "before the step's first backward pass is accepted",
            )

    def count(self, factor: torch.Tensor) -> None:
        """Weighs the next gradients by `factor`, a scalar on the device."""
        self._state.counted = factor
        self.check.end()

    @contextlib.contextmanager
    def part(self, parts: int, last: bool) -> Iterator[None]:
        """One of `parts` equal passes, of which the last exchanges gradients."""
        if not last:
            with self.ddp.no_sync():
                yield
            return
        # Other losses of several passes add up; means over images are averaged.
        if self.loss in (None, "images"):
            self._state.micro_steps = parts
        try:
            yield
        finally:
            self._state.micro_steps = 1

    def _after_exchange(self) -> None:
        self.accumulating = False
        if self.check.active:
            self.check.after_exchange()
        if not self._copies:
            return
        ignored = self.ddp.parameters_to_ignore
        # As data, since autograd may have kept a buffer for a backward pass.
        buffers = [
            buffer.data
            for name, buffer in self.ddp.module.named_buffers()
            if name not in ignored
        ]
        dist._broadcast_coalesced(
            self._state.group, buffers, self.ddp.broadcast_bucket_size, self._source
        )

    def _after_forward(self, module: Any, args: Any, output: Any) -> Any:
        if not (module.training and torch.is_grad_enabled()):
            return output
        if self.check.active:
            self.check.after_forward(output)
        if self._share.batch == 0 and not module.find_unused_parameters:
            return using_all_parameters(output, module)
        return output

    def _forward(self, module: Any, args: Any, kwargs: Any) -> None:
        if not (module.training and torch.is_grad_enabled()):
            return
        refuse_join(self.ddp)
        if self._device.type == "cuda":
            refuse_capture()
        if not module.require_backward_grad_sync:
            self.accumulating = True
        if self.check.active:
            self.check.before_forward()
        self.own_time.forward()
        share = self._share
        # Other losses of an idle rank have no weight, whatever they are of.
        if share.batch == 0 and self.loss != "ranks":
            return
        if self._images is None:
            images = images_of(args, kwargs)
        else:
            images = whole_number("attach: images=", self._images(*args, **kwargs), 0)
        if images == share.batch == 0:
            return
        most = share.batch // share.micro_steps
        if images > most and share.micro_steps > 1:
            raise refuse(
                "attach: the model's input",
                f"{images} images, which do not fit in this rank's memory",
                f"{share.micro_steps} passes are accepted: for part in "
                "shares.micro_batches(images, labels)",
            )
        self._seen += images
        if not module.require_backward_grad_sync and images <= most:
            return
        seen, self._seen = self._seen, 0
        if images > most or seen == 0 or seen % share.batch:
            raise refuse(
                "attach: the model's input",
                f"{seen} images on this rank, whose share is {share.batch}",
                "DataLoader(dataset, shares.batch, sampler=shares.sampler(dataset)"
                ", drop_last=True) is accepted; passes under no_sync() that sum to "
                "the share; or attach(..., images=) where the first dimension is "
                "not the image",
            )
