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
from typing import Any, Callable, Iterable, Optional

import torch
import torch.distributed as dist

from ucudnn.torch.devices import current
from ucudnn.torch.parallel.cache import StepCache
from ucudnn.torch.parallel.hook import narrow, scale
from ucudnn.torch.parallel.ranks import Ranks
from ucudnn.torch.profiling import out_of_memory
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
    """Collective: what DDP's exchanges of the modules' gradients add under shares that are
    unlike or not. From the cache, if all ranks have it there; nothing if a rank has no
    gradients or no memory for them."""
    where = " ".join(["exchange over", ranks.backend, str(unlike), *sorted(kinds)])
    told = ranks.gather(_cached(cache.read_json(step, where)))
    if any(one is None for one in told):
        held: list[Any] = []
        ready = ranks.agree(lambda: _hold(held, modules, device))
        if ranks.size == 1 or not all(ready):
            return Exchange()
        told = ranks.gather(measure(ranks.group, held[0], held[1], device, unlike))
        del held
        if device.type == "cuda":
            torch.cuda.empty_cache()
    most = Exchange(*map(max, zip(*((one.all_ms, one.last_ms) for one in told if one))))
    cache.write_json(step, where, asdict(most))
    return most


def _cached(told: Any) -> Optional[Exchange]:
    try:
        return Exchange(float(told["all_ms"]), float(told["last_ms"]))
    except (TypeError, KeyError, ValueError):
        return None


def _hold(held: list[Any], modules: Iterable[Any], device: torch.device) -> bool:
    """Makes tensors as DDP's buckets and as the modules' buffers. False if there is
    nothing to exchange, or no memory."""
    parameters: dict[Any, None] = {}
    buffers: dict[Any, None] = {}
    for module in modules:
        if isinstance(module, torch.nn.Module):
            parameters.update((p, None) for p in module.parameters() if p.requires_grad)
            buffers.update((b, None) for b in module.buffers())
    if not parameters:
        return False
    try:
        # Gradients come in about the opposite order.
        held.append(
            [
                torch.zeros(size, dtype=dtype, device=device)
                for dtype, size in _buckets(list(parameters)[::-1])
            ]
        )
        held.append([torch.zeros_like(buffer, device=device) for buffer in buffers])
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        return False
    return True


def measure(
    group: Any,
    gradients: list[torch.Tensor],
    buffers: list[torch.Tensor],
    device: torch.device,
    unlike: bool,
) -> Exchange:
    """Collective: of the last of these buckets and the buffers, and of all buckets."""
    sums = dist.group.WORLD if group is None else group
    own = narrow(sums) if unlike else sums

    def exchange(buckets: list[torch.Tensor]) -> None:
        works = []
        for bucket in buckets:
            scale(bucket, 0.5)
            works.append(dist.all_reduce(bucket, group=own, async_op=True))
        for work in works:
            work.wait()

    def last() -> None:
        exchange(gradients[-1:])
        if buffers:
            dist._broadcast_coalesced(own, buffers, 250 << 20, 0)

    def median_ms(run: Callable[[], None]) -> float:
        with current(device):
            laps(device, run, _WARM_UP)
            return statistics.median(laps(device, run, _REPEATS))

    told = Exchange(median_ms(lambda: exchange(gradients)), median_ms(last))
    if own is not sums:
        dist.destroy_process_group(own)
    return told


def _buckets(parameters: list[torch.Tensor]) -> list[Any]:
    """Types and sizes, in order of the gradients that come last."""
    limits = [dist._DEFAULT_FIRST_BUCKET_BYTES, _BUCKET]
    found, _ = dist._compute_bucket_assignment_by_size(parameters, limits)
    return [
        (parameters[places[0]].dtype, sum(parameters[n].numel() for n in places))
        for places in sorted(found, key=max)
    ]
