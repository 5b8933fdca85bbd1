"""What the exchange of gradients adds to a step.

DDP sums gradients in buckets, in the order in which the backward pass computes them, each
while others are computed:

    compute    forward | backward ...............| waits        | optimizer
    exchange               bucket 1 | bucket 2 | ...    | last |

The last bucket is ready when the backward pass has ended, so at least its time is added,
and more where the buckets together take longer than the backward pass.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import Any, Dict, Iterable, List, Optional

import torch
import torch.distributed as dist

from ucudnn.torch.devices import current
from ucudnn.torch.parallel.cache import StepCache
from ucudnn.torch.parallel.hook import narrow, scale
from ucudnn.torch.parallel.ranks import Ranks
from ucudnn.torch.timing import laps

_BUCKET = 25 << 20  # DDP's default
_BACKWARD = 0.5  # of a step, at least: forward pass and optimizer take less
_WARM_UP, _REPEATS = 2, 7


@dataclass(frozen=True)
class Exchange:
    """Milliseconds on a job's ranks; nothing, if it was not measured."""

    all_ms: float = 0.0  # of all buckets, one after the other
    last_ms: float = 0.0  # of what begins when the backward pass has ended

    def after(self, ms: float) -> float:
        """The step in which the slowest rank computes for so long."""
        return max(ms + self.last_ms, ms * (1 - _BACKWARD) + self.all_ms)


def exchange_of(
    ranks: Ranks,
    kinds: Iterable[str],
    modules: Iterable[Any],
    device: torch.device,
    unlike: bool,
    cache: StepCache,
    step: str,
) -> Exchange:
    """Collective: that of a step, from the cache where all ranks have it there."""
    where = " ".join(["exchange over", ranks.backend, str(unlike), *sorted(kinds)])
    told = ranks.gather(_cached(cache.read_json(step, where)))
    if any(one is None for one in told):
        told = ranks.agree(lambda: measure(ranks.group, modules, device, unlike))
    most = Exchange(*map(max, zip(*((one.all_ms, one.last_ms) for one in told if one))))
    cache.write_json(step, where, asdict(most))
    return most


def _cached(told: Any) -> Optional[Exchange]:
    try:
        return Exchange(float(told["all_ms"]), float(told["last_ms"]))
    except (TypeError, KeyError, ValueError):
        return None


def measure(
    group: Any, modules: Iterable[Any], device: torch.device, unlike: bool
) -> Exchange:
    """Collective: as DDP exchanges the modules' gradients under shares that are unlike
    or not, and broadcasts their buffers then. Takes as much memory as the gradients."""
    parameters, buffers = _tensors_of(modules)
    if dist.get_world_size(group) == 1 or not parameters:
        return Exchange()
    sums = dist.group.WORLD if group is None else group
    own = narrow(sums) if unlike else sums
    gradients = [
        torch.zeros(size, dtype=dtype, device=device)
        for dtype, size in _buckets(parameters)
    ]
    copies = [torch.zeros_like(buffer, device=device) for buffer in buffers]

    def exchange(buckets: List[torch.Tensor]) -> None:
        works = []
        for bucket in buckets:
            scale(bucket, 0.5)
            works.append(dist.all_reduce(bucket, group=own, async_op=True))
        for work in works:
            work.wait()

    def last() -> None:
        exchange(gradients[-1:])
        if copies:
            dist._broadcast_coalesced(own, copies, 250 << 20, 0)

    def median_ms(run: Any) -> float:
        with current(device):
            laps(device, run, _WARM_UP)
            return statistics.median(laps(device, run, _REPEATS))

    told = Exchange(median_ms(lambda: exchange(gradients)), median_ms(last))
    if own is not sums:
        dist.destroy_process_group(own)
    return told


def _tensors_of(modules: Iterable[Any]) -> Any:
    parameters: Dict[Any, None] = {}
    buffers: Dict[Any, None] = {}
    for module in modules:
        if isinstance(module, torch.nn.Module):
            # Gradients come in about the opposite order.
            parameters.update((p, None) for p in module.parameters() if p.requires_grad)
            buffers.update((b, None) for b in module.buffers())
    return list(parameters)[::-1], list(buffers)


def _buckets(parameters: List[torch.Tensor]) -> List[Any]:
    """Types and sizes, in order of the gradients that come last."""
    limits = [dist._DEFAULT_FIRST_BUCKET_BYTES, _BUCKET]
    found, _ = dist._compute_bucket_assignment_by_size(parameters, limits)
    return [
        (parameters[places[0]].dtype, sum(parameters[n].numel() for n in places))
        for places in sorted(found, key=max)
    ]
