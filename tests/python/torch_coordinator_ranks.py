"""One rank of test_torch_coordinator.py, as torch_rank.py says."""

import os
import warnings

import torch
import torch_share_budget_ranks as budgets
from torch.nn.parallel import DistributedDataParallel
from torch_rank import (
    BATCH,
    KIND,
    RANK,
    alone,
    difference,
    loader_of,
    network,
    refusal,
    run,
    shared,
    train,
)

import ucudnn
import ucudnn.torch

URL = os.environ["UCUDNN_TEST_URL"]


def ranks_follow_the_plan():
    shares = shared(coordinator=URL, name="given")
    ddp = shares.attach(DistributedDataParallel(network()))
    told = {
        "batches": shares.batches, "predicted_ms": shares.predicted_ms,
        "id": shares.coordinated.id, "kinds": shares.coordinated.request.device_kinds,
        "difference": difference(train(ddp, loader_of(shares)), alone()),
        "reasons": shares.reasons, "job": shares._source._job.id,
    }  # fmt: skip
    shares.finish()
    return told


def a_step_is_measured_by_one_job():
    model = network()
    calls, counts, ids = [], [], []

    def step(b):
        calls.append(b)
        model(torch.ones(b, 5).double()).sum().backward()

    def other(b):
        step(b)
        model.zero_grad()

    for one in (step, step, other):
        del calls[:]
        shares = ucudnn.torch.share(
            BATCH, step=one, kind=KIND, cache_dir="", coordinator=URL, name="measured",
            keep=[model], batches=[1, 2, 4, 7],
        )  # fmt: skip
        counts.append(len(calls))
        ids.append(shares.coordinated.id)
        if len(counts) == 2:
            reasons = " ".join(shares.reasons)
    return {"measured": counts, "ids": ids, "reasons": reasons}


def plans_within_budgets_are_put():
    shares = budgets.shared(budgets.model_of(), coordinator=URL, name="planned")
    return {
        "batches": shares.batches, "budgets": shares.budgets,
        "given": list(budgets.budgets().values()),
        "id": shares.coordinated.id,
    }  # fmt: skip


def ranks_plan_without_a_coordinator():
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        shares = shared(coordinator="http://127.0.0.1:1", name="given")
    texts = [str(one.message) for one in warned]
    return {
        "batches": shares.batches, "reason": shares.reasons[-1],
        "warned": sum("planned without the coordinator" in text for text in texts),
    }  # fmt: skip


def what_coordinators_are_not_asked():
    return [
        refusal(lambda: shared(coordinator=URL)),
        refusal(
            lambda: ucudnn.torch.share(8, session=object(), coordinator=URL, name="n")
        ),
        refusal(lambda: shared(coordinator=URL, name=f"n{RANK}")),
    ]


if __name__ == "__main__":
    run([
        ranks_follow_the_plan,
        a_step_is_measured_by_one_job,
        plans_within_budgets_are_put,
        ranks_plan_without_a_coordinator,
        what_coordinators_are_not_asked,
    ])  # fmt: skip
