"""One rank of test_torch_compile_ranks.py, as torch_rank.py says."""

import contextlib

import torch
from compiled_models import Cnn, images
from torch.nn.parallel import DistributedDataParallel
from torch_rank import RANK, run

import ucudnn.torch

BUDGET = 400_000


def planned(model, budget):
    return ucudnn.torch.compile(model, budget=budget, compiler="aot_eager")


def trained(wrapped, budget, accumulated=1):
    """Losses and the sum of the weights after three steps, and the plan."""
    torch._dynamo.reset()
    torch.manual_seed(3)
    model = Cnn()
    wrapper = wrapped(model, budget)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(4 + RANK)
    x, y = images()
    told = []
    for _ in range(3):
        optimizer.zero_grad()
        for last in range(1 - accumulated, 1):
            with contextlib.ExitStack() as stack:
                if last < 0:
                    stack.enter_context(no_sync_of(wrapper)())
                loss = wrapper(x.roll(RANK, 0), y)
                loss.backward()
            told.append(loss.item())
        optimizer.step()
    with torch.no_grad():
        told.append(sum(p.double().sum().item() for p in model.parameters()))
    return told, wrapper


def no_sync_of(wrapper):
    return getattr(wrapper, "_orig_mod", wrapper).no_sync


def compared(wrapped, accumulated=1):
    plain, _ = trained(wrapped, None, accumulated)
    told, wrapper = trained(wrapped, BUDGET, accumulated)
    plan = ucudnn.torch.plan_of(wrapper)
    return {
        "plain": plain, "planned": told, "weights": told[-1],
        "again": len(plan.recomputed), "saved": plan.saved_bytes,
    }  # fmt: skip


# --- Scenarios.


def ddp_of_a_compiled_model():
    return compared(lambda m, budget: DistributedDataParallel(planned(m, budget)))


def a_compiled_ddp():
    return compared(lambda m, budget: planned(DistributedDataParallel(m), budget))


def a_compiled_ddp_in_buckets():
    # So small that Dynamo divides the graph at the buckets.
    torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 1000
    return compared(
        lambda m, budget: planned(
            DistributedDataParallel(m, bucket_cap_mb=0.01), budget
        )
    )


def accumulated_without_sync():
    return compared(lambda m, b: DistributedDataParallel(planned(m, b)), 2)


if __name__ == "__main__":
    run([
        ddp_of_a_compiled_model,
        a_compiled_ddp,
        a_compiled_ddp_in_buckets,
        accumulated_without_sync,
    ])  # fmt: skip
