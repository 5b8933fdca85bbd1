"""One rank of test_torch_share_budgets.py, as torch_rank.py says."""

import contextlib
import functools

import torch
from compiled_models import Cnn, images
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_rank import RANK, refusal, run

import ucudnn
import ucudnn.torch

BATCH = 24
X, Y = images(BATCH)
KIND = ("large", "small")[RANK]


class Plain(nn.Module):
    """Of one process the same as of several: without normalization and dropout."""

    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3, 8, 3, padding=1)]
        for _ in range(3):
            layers += [nn.GELU(), nn.Conv2d(8, 8, 3, padding=1)]
        self.body = nn.Sequential(
            *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
        )

    def forward(self, x):
        return self.body(x)


def model_of(seed=3):
    torch.manual_seed(seed)
    return Plain()


def loss_of(model, batch):
    return nn.functional.cross_entropy(model(X[:batch]), Y[:batch])


def shared(model, budget=None, loss=loss_of, **options):
    budget = budget or budgets()
    torch._dynamo.reset()
    return ucudnn.torch.share(
        BATCH, model=model, loss=loss, budget=budget, kind=KIND,
        options={"compiler": "aot_eager"}, **options,
    )  # fmt: skip


@functools.lru_cache
def least_of(images):
    """The least budget of a batch, in bytes."""
    torch._dynamo.reset()
    compiled = ucudnn.torch.compile(model_of(), budget=1, compiler="aot_eager")
    try:
        loss_of(compiled, images)
    except ucudnn.NoPlan as error:
        return error.least


def budgets():
    """Of which no rank holds what it has to train, 11 images or more, without
    recomputing, however fast the ranks are."""
    return {"large": least_of(14) - 1, "small": least_of(13) - 1}


def distance(model, other):
    """Of the gradients, relative to their length."""
    some, others = (
        torch.cat([p.grad.flatten() for p in one.parameters()]) for one in (model, other)
    )
    return ((some - others).norm() / others.norm()).item()


# --- Scenarios.


def each_rank_trains_within_its_budget():
    model, expected = model_of(), model_of()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    shares = shared(model, optimizer=optimizer)
    same = [torch.equal(p, q) for p, q in zip(model.parameters(), expected.parameters())]
    ddp = shares.attach(DistributedDataParallel(shares.model))
    part = slice(shares.first_image, shares.first_image + shares.batch)
    told = []
    # Of two passes the first does not exchange gradients.
    for passes in (1, 2):
        for one in (model, expected):
            one.zero_grad()
        for last in range(1 - passes, 1):
            with ddp.no_sync() if last else contextlib.nullcontext():
                nn.functional.cross_entropy(ddp(X[part]), Y[part]).backward()
            loss_of(expected, BATCH).backward()
        told.append(distance(model, expected))
    plan = ucudnn.torch.plan_of(shares.model)
    return {
        "unchanged": all(same) and not optimizer.state, "distances": told,
        "batches": shares.batches, "budgets": shares.budgets,
        "given": list(budgets().values()), "saved": plan.saved_bytes, "again": len(plan.recomputed),
        "bound_ms": shares.bound_ms, "predicted_ms": shares.predicted_ms,
        "reasons": shares.reasons,
    }  # fmt: skip


def no_rank_gets_more_than_its_budget_holds():
    shares = shared(model_of(), {"large": "1GiB", "small": least_of(6) - 1})
    return {"batches": shares.batches, "budgets": shares.budgets}


def a_budget_that_holds_no_image():
    told = []
    for budget in ("1KiB", {"large": "1GiB", "small": 1000}):
        try:
            shared(model_of(), budget)
        except ucudnn.NoPlan as error:
            told.append({"least": error.least, "text": str(error)})
    return told


def a_mini_batch_that_no_memory_holds():
    return refusal(lambda: shared(model_of(), least_of(6) - 1))


def a_rank_that_fails():
    def loss(model, batch):
        if RANK == 1:
            raise ValueError("no images")
        return loss_of(model, batch)

    def few(model, batch):
        return loss_of(model, min(batch, 4))

    try:
        shared(model_of(), loss=loss)
    except (ValueError, ucudnn.Error) as error:
        return {"failed": str(error), "few": refusal(lambda: shared(model_of(), loss=few))}


def what_cannot_be_planned():
    synchronised = nn.Sequential(nn.Linear(2, 2), nn.SyncBatchNorm(2))
    share = ucudnn.torch.share
    return [
        refusal(lambda: shared(synchronised)),
        refusal(lambda: shared(DistributedDataParallel(model_of()))),
        refusal(lambda: shared(torch.compile(model_of()))),
        refusal(lambda: shared(model_of(), idle=True)),
        refusal(lambda: shared(model_of(), micro_steps=2)),
        refusal(lambda: shared(model_of(), {"large": "1GiB"})),
        refusal(lambda: shared(model_of(), 1000 + RANK)),
        refusal(lambda: share(BATCH, step=lambda b: None, budget="1GiB", kind=KIND)),
    ]


if __name__ == "__main__":
    # Whose convolutions are 1e-5 off for the whole mini-batch, too.
    torch.backends.mkldnn.enabled = False
    run([
        each_rank_trains_within_its_budget,
        no_rank_gets_more_than_its_budget_holds,
        a_budget_that_holds_no_image,
        a_mini_batch_that_no_memory_holds,
        a_rank_that_fails,
        what_cannot_be_planned,
    ])  # fmt: skip
