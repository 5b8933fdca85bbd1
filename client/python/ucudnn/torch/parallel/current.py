"""Each rank's share of the mini-batch as it is now."""

from __future__ import annotations

from typing import Optional

from ucudnn.torch.parallel.planning import Coordinated, RankShare, SharePlan


class CurrentShares:
    """The plan that this rank follows. Samplers and loaders keep it, and see what
    it adopts."""

    def __init__(self, rank: int, plan: SharePlan) -> None:
        self._rank = rank
        self._plan = plan
        self.revision = 1
        """Changes with each plan that refresh() adopts."""

    def _adopt(self, plan: SharePlan) -> None:
        self._plan = plan
        self.revision += 1

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self._plan.ranks)

    @property
    def _own(self) -> RankShare:
        return self._plan.ranks[self.rank]

    @property
    def batch(self) -> int:
        """This rank's images of each mini-batch; 0 if it is idle."""
        return self._own.batch

    @property
    def first_image(self) -> int:
        """The index of its first image in the mini-batch of all ranks."""
        return self._own.first_image

    @property
    def weight(self) -> float:
        """batch / global_batch: the factor of this rank's gradients."""
        return self.batch / self.global_batch

    @property
    def scale(self) -> float:
        """The factor of this rank's loss, a mean over its own images, for whatever
        averages gradients over the ranks itself: FSDP, DeepSpeed, a plain DDP. Their
        gradients are then those of one process with the whole mini-batch."""
        return self.weight * self.size

    @property
    def global_batch(self) -> int:
        """The mini-batch over all ranks."""
        return self._plan.batch

    @property
    def batches(self) -> list[int]:
        """The images of each rank."""
        return self._plan.batches

    @property
    def micro_steps(self) -> int:
        """Passes that this rank's share takes, because no more images fit in its
        memory at once. If more than 1, loop over micro_batches()."""
        return self._own.micro_steps

    @property
    def budgets(self) -> list[Optional[int]]:
        """The bytes that each rank's plan keeps to; None: it is not planned, or as much
        as there is."""
        return [share.budget for share in self._plan.ranks]

    @property
    def bound_ms(self) -> Optional[float]:
        """What no plans of these shares within the budgets beat, as predicted_ms; None if
        a rank is not planned."""
        bounds = [share.bound_ms for share in self._plan.ranks]
        known = [ms for ms in bounds if ms is not None]
        return self._with_exchange(max(known)) if len(known) == len(bounds) else None

    @property
    def predicted_ms(self) -> Optional[float]:
        """The predicted time of a step: that of the slowest rank, and what the exchange
        of gradients adds, if it was measured; of a session convolutions only. None if
        nothing was measured."""
        return self._with_exchange(self._plan.predicted_ms)

    @property
    def even_ms(self) -> Optional[float]:
        """The same with even shares; None if that is not known."""
        return self._with_exchange(self._plan.even_ms)

    def _with_exchange(self, ms: Optional[float]) -> Optional[float]:
        return None if ms is None else self._plan.exchange.after(ms)

    @property
    def coordinated(self) -> Optional[Coordinated]:
        """The coordinator's plan that these shares are of, with its request; None if
        they are of none."""
        return self._plan.coordinated

    @property
    def reasons(self) -> list[str]:
        """Why the shares are what they are, for people."""
        return list(self._plan.reasons)
