"""One rank of test_torch_ranks.py, as torch_rank.py says."""

import copy
import itertools

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.distributed.fsdp import fully_shard
from torch.distributed.nn.functional import all_reduce
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch_rank import (
    BATCH,
    FOLDER,
    KIND,
    RANK,
    TIMES,
    alone,
    descend,
    difference,
    images,
    loader_of,
    loss_of,
    network,
    refusal,
    run,
    shared,
    train,
)

import ucudnn
import ucudnn.torch
from ucudnn.torch.parallel import exchange
from ucudnn.torch.parallel.cache import StepCache
from ucudnn.torch.parallel.exchange import Exchange
from ucudnn.torch.parallel.ranks import Ranks

FILES = itertools.count()


# --- Scenarios. Each returns what the test compares.


def shares_of_unlike_ranks():
    shares = shared()
    return {
        "batch": shares.batch,
        "first_image": shares.first_image,
        "weight": shares.weight,
        "predicted_ms": shares.predicted_ms,
        "even_ms": shares.even_ms,
        "reasons": shares.reasons,
        "batches": shares.batches,
        "micro_steps": shares.micro_steps,
    }


def plain_ddp_is_wrong():
    shares = shared()
    plain = DistributedDataParallel(network())
    weighed = shares.attach(DistributedDataParallel(network()))
    return {
        "plain": difference(train(plain, loader_of(shares)), alone()),
        "weighed": difference(train(weighed, loader_of(shares)), alone()),
    }


def scaled_losses_under_fsdp():
    """Parameters in two shards, whose gradients FSDP averages."""
    shares = shared()
    model = network()
    for layer in (model[0], model[2], model):
        fully_shard(layer)
    refused = refusal(lambda: shares.attach(model))
    trained = train(
        model, loader_of(shares), lambda *args: loss_of(*args) * shares.scale
    )
    whole = [parameter.full_tensor() for parameter in trained]
    return {
        "scale": shares.scale,
        "refused": refused,
        "difference": difference(whole, alone()),
    }


def gradients_as_bucket_views():
    shares = shared()
    ddp = shares.attach(
        DistributedDataParallel(
            network(), gradient_as_bucket_view=True, bucket_cap_mb=1e-4
        )
    )
    return difference(train(ddp, loader_of(shares)), alone())


def exchanged_after_the_pass():
    shares = shared()
    ddp = shares.attach(
        DistributedDataParallel(network(), bucket_cap_mb=1e-4), overlap=False
    )
    return difference(train(ddp, loader_of(shares)), alone())


class TwoBranches(nn.Module):
    """Uses one branch or the other, by the number of images."""

    def __init__(self):
        super().__init__()
        self.trunk = network()
        self.left = nn.Linear(3, 3).double()
        self.right = nn.Linear(3, 3).double()

    def forward(self, x):
        branch = self.left if len(x) > 2 else self.right
        return branch(self.trunk(x))


def unused_parameters():
    torch.manual_seed(7)
    model = TwoBranches()
    expected = copy.deepcopy(model)
    x, y = images(1).tensors
    shares = shared()
    ddp = shares.attach(
        DistributedDataParallel(model, find_unused_parameters=True)
    )
    part = slice(shares.first_image, shares.first_image + shares.batch)
    loss_of(ddp, x[part], y[part]).backward()
    # What each rank's part contributes to the mean over all.
    whole = sum(
        loss_of(expected, x[p], y[p]) * len(x[p]) / BATCH
        for p in (slice(0, 6), slice(6, 8))
    )
    whole.backward()
    return difference(
        [p.grad for p in model.parameters()],
        [p.grad for p in expected.parameters()],
    )


def own_hook_runs_after():
    shares = shared()
    seen = []

    def hook(state, bucket):
        seen.append(state)
        return default_hooks.allreduce_hook(None, bucket)

    ddp = shares.attach(DistributedDataParallel(network()), hook, "state")
    return {
        "difference": difference(train(ddp, loader_of(shares)), alone()),
        "states": sorted(set(seen)),
    }


def accumulates_under_no_sync():
    shares = shared()
    ddp = shares.attach(DistributedDataParallel(network()))
    optimizer = descend(ddp)
    dataset = images(4)
    batches = iter(loader_of(shares, dataset))
    for first, second in zip(batches, batches):
        optimizer.zero_grad()
        with ddp.no_sync():
            (loss_of(ddp, *first) / 2).backward()
        (loss_of(ddp, *second) / 2).backward()
        optimizer.step()
    return difference(ddp.parameters(), alone(dataset, 2 * BATCH))


def unlike_passes(folder):
    shares = ucudnn.torch.share(
        BATCH, step=lambda b: 1 / 0, name="step", kind=KIND, cache_dir=folder
    )
    shares.attach(synchronised(Residual()))


def scaled_and_clipped_gradients():
    """By a GradScaler, where one rank's gradients overflow in the second step."""

    def trained(model, batches, overflows):
        optimizer = descend(model)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for step, (x, y) in enumerate(batches):
            optimizer.zero_grad()
            loss = loss_of(model, x, y)
            if step == 1 and overflows:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)
            scaler.step(optimizer)
            scaler.update()
        return [*model.parameters(), torch.tensor(scaler.get_scale())]

    shares = shared()
    ddp = shares.attach(DistributedDataParallel(network()))
    some = trained(ddp, loader_of(shares), overflows=RANK == 1)
    return difference(
        some, trained(network(), DataLoader(images(), BATCH), overflows=True)
    )


def sparse_gradients():
    told = []
    rows = torch.tensor([0, 1, 2, 3, 3, 3, 3, 4])
    for loss in ("images", "items"):
        model = nn.Embedding(5, 2, sparse=True).double()
        expected = copy.deepcopy(model)
        shares = shared()
        ddp = shares.attach(DistributedDataParallel(model), loss=loss)
        mine = rows[shares.first_image : shares.first_image + shares.batch]
        if loss == "items":
            shares.count(len(mine))
        ddp(mine).square().mean().backward()
        expected(rows).square().mean().backward()
        told.append(
            difference(
                [model.weight.grad.to_dense()],
                [expected.weight.grad.to_dense()],
            )
        )
    return max(told)


def a_share_beyond_memory():
    # The fast rank's memory holds 3 images; 6 take two passes.
    folder = FOLDER / f"cache{next(FILES)}"
    cache = StepCache(folder)
    for kind, largest in (("fast", 3), ("slow", None)):
        of_kind = TIMES[kind]
        rate = of_kind[1]
        ms = {b: b * rate for b in range(1, (largest or 8) + 1)}
        cache.write("step", ucudnn.torch.StepProfile(kind, ms, largest))
    shares = ucudnn.torch.share(
        BATCH, step=lambda b: 1 / 0, name="step", kind=KIND, cache_dir=folder
    )
    ddp = shares.attach(DistributedDataParallel(network()))
    optimizer = descend(ddp)
    sizes = []
    for x, y in loader_of(shares):
        optimizer.zero_grad()
        for part, labels in shares.micro_batches(x, y):
            sizes.append(len(part))
            loss_of(ddp, part, labels).backward()
        optimizer.step()
    return {
        "batches": shares.batches,
        "micro_steps": shares.micro_steps,
        "sizes": sizes,
        "difference": difference(ddp.parameters(), alone()),
        "reasons": shares.reasons,
        "whole": refusal(lambda: ddp(torch.zeros(shares.batch, 5).double())),
        "synchronised": refusal(lambda: unlike_passes(folder)),
    }


def an_idle_rank():
    times = {"fast": {1: 1.0, 8: 8.0}, "slow": {1: 50.0, 8: 400.0}}
    kept = shared(times=times)
    shares = shared(times=times, idle=True)
    torch.manual_seed(11)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(18, 3)
    ).double()
    expected = copy.deepcopy(model)
    x = torch.randn(16, 1, 5, 5, generator=torch.Generator().manual_seed(1))
    dataset = TensorDataset(x.double(), images(2).tensors[1])
    ddp = shares.attach(DistributedDataParallel(model))
    loader = shares.loader(dataset, shuffle=False)
    sizes = []

    def loss(model, x, y):
        sizes.append(len(x))
        return loss_of(model, x, y)  # not a number on the idle rank

    weights = train(ddp, loader, loss)
    return {
        "kept": kept.batches,
        "note": kept.reasons[-1],
        "batches": shares.batches,
        "weight": shares.weight,
        "sizes": sizes,
        "difference": difference(weights, alone(dataset, model=expected)),
        "statistics": (
            model[1].running_mean - expected[1].running_mean
        ).abs().max().item(),
    }


def infinite_gradients_of_no_weight():
    shares = shared(times={"fast": {8: 1.0}, "slow": {8: 90.0}}, idle=True)
    model = nn.Linear(1, 1, bias=False)
    ddp = shares.attach(DistributedDataParallel(model))
    ddp(torch.ones(8, 1)).mul(1.0 if shares.weight else float("inf")).mean(
    ).backward()
    return model.weight.grad.item()


# PyTorch 2.11 compiles it to one whose backward pass does not sum.
summed = torch.compiler.disable(all_reduce)


class SynchronisedOnCpu(nn.SyncBatchNorm):
    """PyTorch's own runs on GPUs alone."""

    def forward(self, x):
        count = torch.tensor([float(len(x))], dtype=x.dtype)
        total = summed(torch.cat([count, x.sum(0), (x * x).sum(0)]))
        mean, square = (total[1:] / total[0]).chunk(2)
        normal = (x - mean) / (square - mean**2 + self.eps).sqrt()
        return normal * self.weight + self.bias


class Residual(nn.Module):
    """Writes to what a normalisation gave."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 4)
        self.normalisation = nn.BatchNorm1d(4)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        x = self.first(x)
        y = self.normalisation(x)
        y += x
        return self.last(y.relu_())


def synchronised(model):
    """A DDP over the model with synchronised statistics, which DDP would refuse
    on the CPU."""
    ddp = DistributedDataParallel(model)
    normalisation = SynchronisedOnCpu(4)
    normalisation.weight = model.normalisation.weight
    normalisation.bias = model.normalisation.bias
    model.normalisation = normalisation
    return ddp


def synchronised_statistics():
    told = {}
    for name in ("shares", "counts", "compiled", "compiled counts", "bare"):
        torch._dynamo.reset()
        torch.manual_seed(13)
        model = Residual().double()
        expected = copy.deepcopy(model)
        shares = shared()
        ddp = synchronised(model)
        if name != "bare":
            shares.attach(ddp)
        if "compiled" in name:
            ddp = torch.compile(ddp, backend="aot_eager")

        def loss(model, x, y):
            if "counts" in name:
                shares.count(len(x))
            return loss_of(model, x, y)

        weights = train(ddp, loader_of(shares), loss)
        told[name] = difference(weights, alone(model=expected))
    return told


def counts_too_late_for_synchronised_statistics():
    torch.manual_seed(13)
    shares = shared()
    ddp = synchronised(Residual().double())
    shares.attach(ddp)
    x, y = (part[: shares.batch] for part in images(1).tensors)
    with ddp.no_sync():
        loss_of(ddp, x, y).backward()
    return refusal(lambda: shares.count(1))


def other_synchronised_statistics():
    class NaiveSyncBatchNorm(nn.BatchNorm1d):
        pass

    model = nn.Sequential(nn.Linear(5, 4), NaiveSyncBatchNorm(4))
    return refusal(lambda: shared().attach(DistributedDataParallel(model)))


def no_new_shares_within_a_step():
    shares = shared()
    ddp = shares.attach(DistributedDataParallel(network()))
    x, y = (part[: shares.batch] for part in images(1).tensors)
    with ddp.no_sync():
        loss_of(ddp, x, y).backward()
    within = refusal(shares.refresh)
    loss_of(ddp, x, y).backward()
    return {"within": within, "after": refusal(shares.refresh)}


def means_and_counts():
    shares = shared()
    model = nn.Linear(1, 1, bias=False).double()
    ddp = shares.attach(DistributedDataParallel(model))
    mean = shares.mean(torch.tensor(float(RANK)))
    # Rank 0 has 1 of 4 items, rank 1 has 3.
    total = shares.count(1 + 2 * RANK)
    x = torch.full((shares.batch, 1), 10.0 + RANK).double()
    ddp(x).mean().backward()
    counted = model.weight.grad.item()
    model.weight.grad = None
    ddp(x).mean().backward()
    weighed = model.weight.grad.item()
    # No items on rank 1, whose mean over them is not a number.
    model.weight.grad = None
    shares.count(torch.tensor(1 - RANK))
    ddp(x).mean().mul(1.0 if RANK == 0 else float("nan")).backward()
    return {
        "mean": mean.item(),
        "total": total.item(),
        "counted": counted,
        "weighed": weighed,
        "none": model.weight.grad.item(),
    }


def measured_once_and_cached():
    folder = FOLDER / f"cache{next(FILES)}"
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    x, y = images(1).tensors
    before = [p.detach().clone() for p in model.parameters()]
    calls = []

    def step(b):
        calls.append(b)
        optimizer.zero_grad()
        loss_of(model, x[:b], y[:b]).backward()
        optimizer.step()

    def shared_by_step():
        return ucudnn.torch.share(BATCH, step=step, cache_dir=folder)

    first = shared_by_step()
    measured = len(calls)
    second = shared_by_step()
    return {
        "batches": first.batches,
        "predicted_ms": first.predicted_ms,
        "measured": measured,
        "again": len(calls) - measured,
        "same": second.batches == first.batches,
        "reasons": second.reasons,
        "changed": difference(model.parameters(), before),
        "state": len(optimizer.state),
        "files": sorted(p.name for p in folder.rglob("*.json")),
    }


def predicts_the_exchange():
    folder = FOLDER / f"cache{next(FILES)}"
    cache = StepCache(folder)
    model = network()
    asked = []

    def measured(group, gradients, buffers, device, unlike):
        asked.append([[g.numel() for g in gradients], len(buffers), unlike])
        return Exchange(all_ms=3.0 + RANK, last_ms=1.0 + RANK)

    def step(b):
        return model, 1 / 0

    def shared_by_step():
        return ucudnn.torch.share(
            BATCH, step=step, name="step", kind=KIND, cache_dir=folder
        )

    for kind, times in TIMES.items():
        ms = {b: b * times[1] for b in range(1, 9)}
        cache.write("step", ucudnn.torch.StepProfile(kind, ms))
    exchange.measure, measure = measured, exchange.measure
    try:
        first, again = shared_by_step(), shared_by_step()
    finally:
        exchange.measure = measure
    told = {
        "batches": first.batches, "predicted_ms": first.predicted_ms,
        "even_ms": first.even_ms, "asked": asked, "again_ms": again.predicted_ms,
    }  # fmt: skip
    for step in range(60):
        first.report(6.0 if RANK == 0 or step < 25 else 2.0)
    first.refresh()
    return {**told, "later_ms": first.predicted_ms}


def measures_the_exchange_of_gradients_and_buffers():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    model[1].running_mean += RANK
    before = [t.clone() for t in model.state_dict().values()]

    def measured(modules):
        return exchange.exchange_of(
            Ranks(None), ["a", "b"], modules, torch.device("cpu"), True, StepCache(""), ""
        )

    told, nothing = measured([model, model[0]]), measured([object()])
    large = [torch.zeros(n) for n in (300_000, 7_000_000, 10, 300_000)]
    return {
        "all_ms": told.all_ms, "last_ms": told.last_ms,
        "unchanged": difference(before, model.state_dict().values()) == 0,
        "nothing": [nothing.all_ms, nothing.last_ms],
        "buckets": [4 * size for _, size in exchange._buckets(large)],
    }  # fmt: skip


def fails_on_all_ranks():
    def step(b):
        if KIND == "slow":
            raise ValueError("no such layer")

    def shared_by_step():
        ucudnn.torch.share(BATCH, step=step, kind=KIND, cache_dir="")

    try:
        shared_by_step()
    except (ucudnn.Error, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def too_large_a_batch():
    folder = FOLDER / f"cache{next(FILES)}"
    cache = StepCache(folder)
    for kind in ("fast", "slow"):
        measured = ucudnn.torch.StepProfile(
            kind, {1: 1.0, 2: 1.5, 3: 2.0}, 3
        )
        cache.write("step", measured)
    return refusal(
        lambda: ucudnn.torch.share(
            BATCH, step=lambda b: 1 / 0, name="step", kind=KIND,
            cache_dir=folder, micro_steps=1,
        )
    )  # fmt: skip


def refuses_unlike_arguments():
    return {
        "batch": refusal(lambda: shared(batch=8 + RANK)),
        "nothing": refusal(lambda: ucudnn.torch.share(8)),
        "kind": refusal(lambda: ucudnn.torch.share(8, times=TIMES, kind="v100")),
        "small": refusal(lambda: shared(batch=1)),
    }


def refuses_other_input():
    shares = shared()
    ddp = shares.attach(DistributedDataParallel(network()))
    other = torch.zeros(shares.batch + 1, 5).double()
    told = {"images": refusal(lambda: ddp(other))}
    ddp.eval()
    told["evaluation"] = refusal(lambda: ddp(other))
    ddp.train()
    with Join([ddp]):
        told["join"] = refusal(lambda: ddp(other[:-1]))
    told["twice"] = refusal(lambda: shares.attach(ddp))
    hooked = DistributedDataParallel(network())
    hooked.register_comm_hook(None, default_hooks.allreduce_hook)
    told["hooked"] = refusal(lambda: shared().attach(hooked))
    single = dist.new_group([0])
    one = dist.new_group([1])
    group = single if RANK == 0 else one
    told["group"] = refusal(
        lambda: shared().attach(
            DistributedDataParallel(network(), process_group=group)
        )
    )
    return told


def new_shares_at_a_step():
    shares = shared()
    dataset = images(60)
    ddp = shares.attach(DistributedDataParallel(network()))
    optimizer = descend(ddp)
    sizes, changed = [], []
    for step, (x, y) in enumerate(shares.loader(dataset, shuffle=False)):
        sizes.append(len(x))
        optimizer.zero_grad()
        loss_of(ddp, x, y).backward()
        optimizer.step()
        # After 25 steps the slow rank becomes as fast as the other.
        shares.report(6.0 if RANK == 0 or step < 25 else 2.0)
        if shares.refresh():
            changed.append(step)
    return {
        "sizes": sizes,
        "changed": changed,
        "revision": shares.revision,
        "batches": shares.batches,
        "difference": difference(ddp.parameters(), alone(dataset)),
        "reasons": shares.reasons,
    }


def reports_its_own_time():
    shares = shared()
    ddp = shares.attach(DistributedDataParallel(network()))
    train(ddp, loader_of(shares))
    times = shares._attached.own_time.take_ms()
    shares.report()
    return {"count": len(times), "positive": all(ms > 0 for ms in times)}


SCENARIOS = [
    shares_of_unlike_ranks,
    plain_ddp_is_wrong,
    scaled_losses_under_fsdp,
    gradients_as_bucket_views,
    exchanged_after_the_pass,
    unused_parameters,
    own_hook_runs_after,
    accumulates_under_no_sync,
    scaled_and_clipped_gradients,
    sparse_gradients,
    a_share_beyond_memory,
    synchronised_statistics,
    counts_too_late_for_synchronised_statistics,
    other_synchronised_statistics,
    no_new_shares_within_a_step,
    an_idle_rank,
    infinite_gradients_of_no_weight,
    means_and_counts,
    measured_once_and_cached,
    predicts_the_exchange,
    measures_the_exchange_of_gradients_and_buffers,
    fails_on_all_ranks,
    too_large_a_batch,
    refuses_unlike_arguments,
    refuses_other_input,
    new_shares_at_a_step,
    reports_its_own_time,
]


if __name__ == "__main__":
    run(SCENARIOS)
