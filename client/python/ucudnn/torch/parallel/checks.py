"""What uneven data parallelism refuses, and why. Each error names the place, the
value found and what would be accepted."""

from __future__ import annotations

import sys
from typing import Any, Sequence

import torch
import torch.utils.data
from torch.nn.parallel import DistributedDataParallel

from ucudnn.torch.checks import refuse
from ucudnn.torch.parallel.planning import SharePlan
from ucudnn.torch.parallel.synchronised import named_synchronised, synchronised_in

_ONLY_DDP = "a torch.nn.parallel.DistributedDataParallel is accepted"
_ITSELF = "averages gradients itself: train it without attach, on loss * shares.scale"
# By the name of a class, or of the package that it comes from.
_WRAPPERS = {
    "FullyShardedDataParallel": f"FSDP {_ITSELF}",
    "FSDPModule": f"FSDP {_ITSELF}",
    "deepspeed": f"DeepSpeed {_ITSELF}",
    "DataParallel": "DataParallel has one process, and scatters batches evenly",
}


def ddp_of(model: Any) -> DistributedDataParallel:
    """The DDP that `model` is, or that torch.compile wrapped."""
    inner = getattr(model, "_orig_mod", model)
    if isinstance(inner, DistributedDataParallel):
        _refuse_other_reductions(inner)
        return inner
    name = type(model).__name__
    for base in type(model).__mro__:
        package = base.__module__.partition(".")[0]
        why = _WRAPPERS.get(base.__name__) or _WRAPPERS.get(package)
        if why:
            raise refuse("attach: model", f"a {name}: {why}", _ONLY_DDP)
    raise refuse("attach: model", f"a {name}", _ONLY_DDP)


def _refuse_other_reductions(ddp: DistributedDataParallel) -> None:
    """Gradients that DDP sums apart from its communication hook have no weight."""
    if ddp._delay_all_reduce_params:
        raise refuse(
            "attach: model",
            "a DDP with delay_all_reduce_named_params, which it averages without "
            "weights",
            "one without them is accepted",
        )
    if ddp._use_python_reducer:
        raise refuse(
            "attach: model",
            "a DDP under torch._dynamo.config.optimize_ddp='python_reducer', which "
            "has no buckets to weigh",
            'optimize_ddp = "ddp_optimizer", the default, is accepted',
        )


def refuse_join(ddp: DistributedDataParallel) -> None:
    """A context of torch.distributed.algorithms.Join lets ranks run out of
    batches at different steps, with gradients that no weight fits."""
    if ddp._join_config.enable:
        raise refuse(
            "attach: the model's forward",
            "inside a Join context",
            "a loop without Join is accepted: shares.sampler gives every rank the "
            "same number of steps",
        )


def refuse_capture() -> None:
    """A CUDA graph would replay the weights, counts and checks of one step."""
    if torch.cuda.is_current_stream_capturing():
        raise refuse(
            "attach: the model's forward",
            "while a CUDA graph is captured, which would keep this step's weights",
            "a step that is not captured is accepted",
        )


def refuse_other_statistics(ddp: DistributedDataParallel) -> None:
    """Synchronised statistics by others sum gradients over ranks without weights,
    or take all shares to be equal."""
    for name, module in ddp.module.named_modules():
        kind = type(module).__name__
        if isinstance(module, torch.nn.SyncBatchNorm):
            continue
        if named_synchronised(kind):
            raise refuse(
                "attach: model",
                f"{name or 'the model'} is a {kind} of {type(module).__module__}, "
                "whose sums over the ranks have no weights",
                "torch.nn.SyncBatchNorm is accepted",
            )


def refuse_unlike_passes(ddp: DistributedDataParallel, plan: SharePlan) -> None:
    """In each pass SyncBatchNorm waits for all ranks."""
    passes = [share.micro_steps for share in plan.ranks]
    if max(passes) > 1 and synchronised_in(ddp):
        raise refuse(
            "attach: model",
            f"SyncBatchNorm, where rank {passes.index(max(passes))}'s share takes "
            f"{max(passes)} passes",
            "share(..., micro_steps=1) and a mini-batch that fits in memory are "
            "accepted, or BatchNorm",
        )


def refuse_shared_gpu(gpus: Sequence[str]) -> None:
    """NCCL cannot join two ranks on one GPU. `gpus` has the unique name of each
    rank's."""
    seen: dict[str, int] = {}
    for rank, gpu in enumerate(gpus):
        if gpu in seen:
            raise refuse(
                "share: the process group's backend",
                f"nccl, with ranks {seen[gpu]} and {rank} on one GPU, {gpu}",
                "a GPU for each rank is accepted: call torch.cuda.set_device("
                "int(os.environ['LOCAL_RANK'])) first; or the backend gloo",
            )
        seen[gpu] = rank


def refuse_wrapped_loader(loader: Any) -> None:
    """A loader that a framework made deals each rank only some of its batches."""
    for part in (loader, getattr(loader, "batch_sampler", None)):
        owner = type(part).__module__.partition(".")[0]
        if owner in ("accelerate", "lightning", "pytorch_lightning", "deepspeed"):
            raise refuse(
                "check: loader",
                f"a {type(part).__name__} of {owner}, which deals batches out " "again",
                "the DataLoader itself is accepted: do not pass it to prepare(); "
                "in Lightning set use_distributed_sampler=False",
            )
    if not isinstance(loader, torch.utils.data.DataLoader):
        raise refuse(
            "check: loader",
            f"a {type(loader).__name__}",
            "a torch.utils.data.DataLoader is accepted",
        )


def refuse_unchecked_loader() -> None:
    """Accelerate deals out again what it prepares, which nothing in the model's
    input shows."""
    state = sys.modules.get("accelerate.state")
    if state is None:
        return
    shared = getattr(getattr(state, "PartialState", None), "_shared_state", {})
    if shared.get("num_processes", 1) not in (None, 1):
        raise refuse(
            "attach: loader",
            "None, in a process that Accelerate manages",
            "the DataLoader is accepted, so that it can be checked: "
            "attach(ddp, loader=loader)",
        )


def same_on_all_ranks(place: str, values: Sequence[str]) -> None:
    """Each rank gave one of `values`."""
    for rank, value in enumerate(values):
        if value != values[0]:
            raise refuse(
                place,
                f"{values[0]} on rank 0 and {value} on rank {rank}",
                "one value on all ranks is accepted",
            )
