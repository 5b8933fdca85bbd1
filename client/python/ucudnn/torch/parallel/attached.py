"""A DDP with the hook that weighs its gradients."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, Callable, Iterator, Optional

import torch
from torch.nn.parallel import DistributedDataParallel

from ucudnn.torch.checks import refuse
from ucudnn.torch.parallel.checks import refuse_join
from ucudnn.torch.parallel.hook import (
    Hook,
    HookState,
    OwnTime,
    narrow,
    weighted_sum,
)
from ucudnn.torch.parallel.planning import RankShare
from ucudnn.torch.parallel.synchronised import weigh_synchronised


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
    ) -> None:
        self.ddp = ddp
        self._device = device
        self._images = images
        self._share = RankShare(0, 0, 1, None)
        self._seen = 0  # images since gradients were last exchanged
        self.own_time = OwnTime(device)
        # Two groups whose kernels may wait at once for the same rank could
        # wait for each other.
        waits_alone = not any(
            isinstance(module, torch.nn.SyncBatchNorm)
            for module in ddp.module.modules()
        )
        group = ddp.process_group
        if unlike and overlap and hook is None and waits_alone:
            group = narrow(group)
        self._state = HookState(group, hook, state, overlap)
        self._state.on_end = self.own_time.end
        try:
            ddp.register_comm_hook(self._state, weighted_sum)
        except (RuntimeError, TypeError, ValueError) as error:
            raise refuse(
                "attach: model",
                f"it takes no communication hook: {error}",
                "a DistributedDataParallel without one is accepted; pass yours "
                "to attach(ddp, hook, state)",
            ) from error
        weigh_synchronised(ddp.module, self._state.part)
        register = ddp.register_forward_pre_hook
        if "with_kwargs" in inspect.signature(register).parameters:
            register(self._forward, with_kwargs=True)
        else:  # before PyTorch 2.0
            register(self._forward)

    def adopt(self, share: RankShare, weight: float) -> None:
        """Weighs gradients from now on by this share."""
        self._share = share
        self._state.weight = weight
        self._seen = 0

    def count(self, factor: torch.Tensor) -> None:
        """Weighs the next gradients by `factor`, a scalar on the device."""
        self._state.counted = factor

    @contextlib.contextmanager
    def part(self, parts: int, last: bool) -> Iterator[None]:
        """One of `parts` equal passes, of which the last exchanges gradients."""
        if not last:
            with self.ddp.no_sync():
                yield
            return
        self._state.micro_steps = parts
        try:
            yield
        finally:
            self._state.micro_steps = 1

    def _forward(self, module: Any, args: Any, kwargs: Any = None) -> None:
        if not (module.training and torch.is_grad_enabled()):
            return
        refuse_join(self.ddp)
        self.own_time.forward()
        kwargs = kwargs or {}
        images = (
            self._images(*args, **kwargs)
            if self._images is not None
            else images_of((args, kwargs))
        )
        share = self._share
        if images is None or share.batch == 0:
            return
        if images > share.batch // share.micro_steps and share.micro_steps > 1:
            raise refuse(
                "attach: the model's input",
                f"{images} images, which do not fit in this rank's memory",
                f"{share.micro_steps} passes are accepted: for part in "
                "shares.micro_batches(images, labels)",
            )
        self._seen += images
        if not module.require_backward_grad_sync:
            return
        seen, self._seen = self._seen, 0
        if seen % share.batch:
            raise refuse(
                "attach: the model's input",
                f"{seen} images on this rank, whose share is {share.batch}",
                "DataLoader(dataset, shares.batch, sampler=shares.sampler(dataset)"
                ", drop_last=True) is accepted; passes under no_sync() that sum to "
                "the share; or attach(..., images=) where the first dimension is "
                "not the image",
            )


def images_of(value: Any) -> Optional[int]:
    """The first dimension of the first tensor in arguments; None without one."""
    if isinstance(value, torch.Tensor):
        return int(value.shape[0]) if value.dim() > 0 else None
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            found = images_of(item)
            if found is not None:
                return found
    return None
