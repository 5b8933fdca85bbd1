"""One rank of test_torch_share_budgets.py, as torch_rank.py says."""

import contextlib
import copy

import torch
from compiled_models import Cnn, images
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_rank import RANK, difference, refusal, run

import ucudnn
import ucudnn.torch
from ucudnn.torch.kept import unchanged

BATCH = 24
X, Y = images(BATCH)
KIND = ("large", "small")[RANK]
BUDGETS = {"large": "3MiB", "small": 500_000}


class Plain(nn.Module):
    """Of one process the same as of several: without normalization and dropout."""

    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3, 8, 3, padding=1)]
        for _ in range(5):
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


def shared(model, budget=BUDGETS, batch=BATCH, **options):
    torch._dynamo.reset()
    return ucudnn.torch.share(
        batch, model=model, loss=loss_of, budget=budget, kind=KIND,
        options={"compiler": "aot_eager"}, **options,
    )  # fmt: skip


def gradients(model):
    return [p.grad.clone() for p in model.parameters()]


# --- Scenarios.


def each_rank_trains_within_its_budget():
    model, expected = model_of(), model_of()
    before = copy.deepcopy(model.state_dict())
    shares = shared(model)
    same = all(torch.equal(model.state_dict()[n], before[n]) for n in before)
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
        told.append(difference(gradients(model), gradients(expected)))
    plan = ucudnn.torch.plan_of(shares.model)
    return {
        "unchanged": same, "differences": told, "batches": shares.batches,
        "budgets": shares.budgets, "saved": plan.saved_bytes,
        "bound_ms": shares.bound_ms, "predicted_ms": shares.predicted_ms,
        "again": len(plan.recomputed), "reasons": shares.reasons,
    }  # fmt: skip


if __name__ == "__main__":
    run([each_rank_trains_within_its_budget])
