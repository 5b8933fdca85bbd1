"""Shares from a coordinator's measurements, over REST."""

from __future__ import annotations

import warnings
from typing import List, Optional, Sequence, Tuple

from ucudnn.coordinator import Coordinator
from ucudnn.errors import Error, InvalidArgument, NotAllowed
from ucudnn.rest import Rest
from ucudnn.shown import PREDICTED
from ucudnn.torch.checks import refuse
from ucudnn.torch.parallel.planning import RankShare, SharePlan, even_shares

_WITHIN_S = 5.0


def kind_of_gpu(url: str, gpu: str) -> str:
    """The kind of the GPU with this UUID. Raises InvalidArgument if the
    coordinator knows no such device, Error if it cannot be reached."""
    devices = _client(url).devices()
    for device in devices:
        if gpu and device.id == gpu:
            return device.kind
    kinds = sorted({device.kind for device in devices})
    raise refuse(
        "share: kind",
        f"the coordinator knows no device {gpu or 'of this rank'}",
        f"kind= is accepted, one of {', '.join(map(repr, kinds)) or 'none'}",
    )


def coordinators_plan(
    url: str, network: str, batch: int, kinds: List[str]
) -> SharePlan:
    """The shares of the coordinator's plan for a registered network. They count
    convolutions only, not PyTorch's whole step. If the coordinator has no plan or
    cannot be reached, even shares, with the reason, which is also warned of.
    Raises InvalidArgument as the coordinator says."""
    try:
        plan = _client(url).make_plan(network, batch, device_kinds=kinds, measure=False)
    except (InvalidArgument, NotAllowed):
        raise
    except Error as error:
        why = f"even shares, because there is no plan: {error}"
        warnings.warn(f"ucudnn: {why}", stacklevel=2)
        return _plan(
            [(images, None) for images in even_shares(batch, len(kinds))], [why]
        )
    return _plan(
        [
            (rank.batch, rank.workspace and rank.workspace.total_time_us / 1e3 or None)
            for rank in plan.ranks
        ],
        [
            f"plan {plan.id} of {url}, "
            f"{'predicted' if plan.whole_steps else PREDICTED}",
            *plan.reasons,
        ],
    )


def _client(url: str) -> Coordinator:
    return Coordinator(Rest(url, timeout=_WITHIN_S))


def _plan(
    shares: Sequence[Tuple[int, Optional[float]]], reasons: List[str]
) -> SharePlan:
    """Of the images and milliseconds of each rank."""
    ranks = []
    first = 0
    for images, ms in shares:
        ranks.append(RankShare(images, first, 1, ms))
        first += images
    times = [ms for _, ms in shares if ms is not None]
    return SharePlan(ranks, max(times, default=None), None, reasons)
