"""Shares from a coordinator's measurements, over REST."""

from __future__ import annotations

from typing import List

from ucudnn.errors import Error, InvalidArgument, NotAllowed
from ucudnn.rest import Rest, path_of
from ucudnn.torch.checks import refuse
from ucudnn.torch.parallel.planning import RankShare, SharePlan, even_shares

_WITHIN_S = 5.0


def kind_of_gpu(url: str, gpu: str) -> str:
    """The kind of the GPU with this UUID. Raises InvalidArgument if the
    coordinator knows no such device, Error if it cannot be reached."""
    devices = list(Rest(url, timeout=_WITHIN_S).entries(path_of("devices")))
    for device in devices:
        if gpu and device.get("id") == gpu:
            return str(device["kind"])
    kinds = sorted({str(device.get("kind")) for device in devices})
    raise refuse(
        "share: kind",
        f"the coordinator knows no device {gpu or 'of this rank'}",
        f"kind= is accepted, one of {', '.join(map(repr, kinds)) or 'none'}",
    )


def coordinators_plan(
    url: str, network: str, batch: int, kinds: List[str]
) -> SharePlan:
    """The shares of the coordinator's plan for a registered network. They divide
    the time of its planned convolutions, which is not that of PyTorch's whole
    step. If the coordinator has no plan or cannot be reached, even shares, with
    the reason. Raises InvalidArgument as the coordinator says."""
    request = {"network": network, "batch": batch, "device_kinds": kinds}
    try:
        plan = Rest(url, timeout=_WITHIN_S).post(path_of("plans"), request)
    except (InvalidArgument, NotAllowed):
        raise
    except Error as error:
        return _even(batch, len(kinds), str(error))
    ranks = []
    first = 0
    for told in plan["ranks"]:
        images = int(told.get("batch", 0))
        ms = (told.get("workspace") or {}).get("total_time_us")
        ranks.append(RankShare(images, first, 1, ms / 1e3 if ms else None))
        first += images
    times = [rank.ms for rank in ranks if rank.ms is not None]
    reasons = [
        f"plan {plan.get('id')} of {url}; times are of its convolutions",
        *plan.get("reasons", []),
    ]
    return SharePlan(ranks, max(times) if times else None, None, reasons)


def _even(batch: int, ranks: int, reason: str) -> SharePlan:
    shares = even_shares(batch, ranks)
    return SharePlan(
        [
            RankShare(images, sum(shares[:rank]), 1, None)
            for rank, images in enumerate(shares)
        ],
        None,
        None,
        [f"even shares, because there is no plan: {reason}"],
    )
