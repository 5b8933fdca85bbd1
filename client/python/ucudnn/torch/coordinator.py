"""Shares from a coordinator's measurements, over REST."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, Dict, List, Optional

from ucudnn.errors import Error, InvalidArgument, NoPlan
from ucudnn.torch.checks import refuse
from ucudnn.torch.planning import RankShare, SharePlan, even_shares

_WITHIN_S = 5.0


def kind_of_gpu(url: str, gpu: str) -> str:
    """The kind of the GPU with this UUID. Raises InvalidArgument if the
    coordinator knows no such device, Error if it cannot be reached."""
    devices = _ask(f"{url.rstrip('/')}/v1/devices").get("devices", [])
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
        plan = _ask(f"{url.rstrip('/')}/v1/plans", request)
    except InvalidArgument:
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


def _ask(url: str, body: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_WITHIN_S) as response:
            answer: Dict[str, Any] = json.load(response)
            return answer
    except urllib.error.HTTPError as error:
        text = f"{url}: {_message(error)}"
        if error.code == 422:
            raise NoPlan(text, 9) from error
        if 400 <= error.code < 500:
            raise InvalidArgument(text, 3) from error
        raise Error(text, 14) from error
    except (OSError, ValueError) as error:
        raise Error(f"{url}: {error}", 14) from error


def _message(error: urllib.error.HTTPError) -> str:
    text = error.read().decode(errors="replace")
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"{error.code}: {text.strip()[:200]}"
