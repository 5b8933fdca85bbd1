"""The communication hook that weighs each rank's gradients by its images."""

# Annotations stay objects here: DDP compares those of a hook.
import collections
from typing import Any, Callable, Optional, Union

import torch
import torch.distributed as dist

from ucudnn.torch.checks import refuse
from ucudnn.torch.timing import mark, ms_between

Hook = Callable[[Any, dist.GradBucket], torch.futures.Future[torch.Tensor]]
Factor = Union[float, torch.Tensor]
_PENDING = 64  # steps whose times nobody has asked for
_NARROW = 4  # multiprocessors: enough for some 80 GB/s on NVLink


def narrow(group: Any) -> Any:
    """A group of the same ranks whose NCCL kernels occupy few multiprocessors.

    A rank that waits for others computes on the rest: with NCCL's own number, a
    slice of 64 multiprocessors took 4 ms longer for a step of 60. Collective.
    The group itself, if its backend has no such setting.
    """
    if str(dist.get_backend(group)) != "nccl":
        return group
    options = dist.ProcessGroupNCCL.Options()
    options.config.max_ctas = _NARROW
    return dist.new_group(
        dist.get_process_group_ranks(group),
        backend="nccl",
        pg_options=options,
        use_local_synchronization=True,
    )


class HookState:
    """What the hook of one DDP does with the next gradients."""

    def __init__(
        self, group: Any, then: Optional[Hook], then_state: Any, overlap: bool
    ) -> None:
        self.group = group
        self.weight: Optional[float] = 0.0  # None: only count() tells it
        self._overlap = overlap
        self.micro_steps = 1  # equal passes whose gradients were added up
        self.counted: Optional[torch.Tensor] = None  # instead of the weight
        self.weighed = False  # within a pass of the step, by `weight`
        self.on_end: Optional[Callable[[], None]] = None
        self.after_end: Optional[Callable[[], None]] = None
        self._backend = str(dist.get_backend(group))
        self._pending: list[tuple[Any, torch.Tensor, Any]] = []
        self._then = then
        self._then_state = then_state
        # A user's hook averages over the ranks, as all of PyTorch's do.
        self._ranks = dist.get_world_size(group) if then else 1

    def part(self) -> Factor:
        """This rank's part of the next gradients' mean. Raises InvalidArgument if
        nothing tells it."""
        if self.counted is not None:
            return self.counted
        if self.weight is None:
            raise refuse(
                'attach: loss: "items"',
                "no count in this step",
                "shares.count(n) before the first backward pass of each step "
                "is accepted",
            )
        self.weighed = True
        return self.weight

    def reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """The hook: gradients times the rank's part of the mini-batch, summed."""
        gradients = bucket.buffer()
        passes = self.micro_steps if self.counted is None else 1
        scale(gradients, self.part() * self._ranks / passes)
        if not bucket.is_last():
            return self._exchanged(bucket)
        self.counted = None
        self.weighed = False
        if self.on_end is not None:
            self.on_end()
        result = self._exchanged(bucket)
        if self.after_end is not None:
            self.after_end()
        return result

    def _exchanged(self, bucket: dist.GradBucket) -> Any:
        gradients = bucket.buffer()
        if self._then is not None:
            return self._then(self._then_state, bucket)
        if self._overlap and gradients.is_cuda and self._backend != "gloo":
            return self._started(gradients).get_future().then(_first)
        return self._gathered(gradients, bucket.is_last())

    def _started(self, gradients: torch.Tensor) -> Any:
        return dist.all_reduce(gradients, group=self.group, async_op=True)

    def _gathered(self, gradients: torch.Tensor, last: bool) -> Any:
        """Waits for all sums once the last bucket is ready, when nothing is left
        to compute. Also for gloo, which runs callbacks on threads of its own, that
        may need Python's lock when Python has ended."""
        devices = [gradients.device] if gradients.is_cuda else []
        future: Any = torch.futures.Future(devices=devices)
        work = self._started(gradients) if self._overlap else None
        self._pending.append((work, gradients, future))
        if last:
            pending, self._pending = self._pending, []
            started = [(w or self._started(g), g, f) for w, g, f in pending]
            for sum_of_bucket, result, waiting in started:
                sum_of_bucket.wait()
                waiting.set_result(result)
        return future


def _first(future: Any) -> torch.Tensor:
    return future.value()[0]


def scale(gradients: torch.Tensor, factor: Factor) -> None:
    """Multiplies in place; by zero also what is infinite or not a number."""
    if gradients.is_sparse:
        gradients = gradients._values()
    if isinstance(factor, torch.Tensor):
        # Without waiting for the device to learn whether it is zero.
        gradients.mul_(factor)
        gradients.masked_fill_(factor == 0, 0.0)
    elif factor == 0:
        gradients.zero_()
    elif factor != 1:
        gradients.mul_(factor)


class OwnTime:
    """How long this rank computes in each step, from the first forward pass until
    the last gradient is ready: without waiting for other ranks."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._begun: Optional[Any] = None
        self._steps: collections.deque[tuple[Any, Any]] = collections.deque(
            maxlen=_PENDING
        )

    def forward(self) -> None:
        """A forward pass begins."""
        if self._begun is None:
            self._begun = mark(self._device)

    def end(self) -> None:
        """The last gradient of a step is enqueued."""
        if self._begun is not None:
            self._steps.append((self._begun, mark(self._device)))
        self._begun = None

    def take_ms(self) -> list[float]:
        """The times of the steps that the device has finished since the last
        call; does not wait."""
        times = []
        while self._steps:
            begun, ended = self._steps[0]
            if self._device.type == "cuda" and not ended.query():
                break
            times.append(ms_between(begun, ended))
            self._steps.popleft()
        return times
