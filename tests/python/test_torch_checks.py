import sys
from types import SimpleNamespace

import pytest
import torch
import ucudnn
import ucudnn.torch
from torch.utils.data import DataLoader
from ucudnn.torch.parallel import checks
from ucudnn.torch.parallel.planning import RankShare, SharePlan
from ucudnn.torch.parallel.shares import Shares


class FullyShardedDataParallel(torch.nn.Module):
    pass


DeepSpeedEngine = type(
    "DeepSpeedEngine", (torch.nn.Module,), {"__module__": "deepspeed.runtime"}
)


@pytest.mark.parametrize(
    "model, text",
    [
        (FullyShardedDataParallel(), "a FullyShardedDataParallel: FSDP averages"),
        (DeepSpeedEngine(), "a DeepSpeedEngine: DeepSpeed averages"),
        (torch.nn.DataParallel(torch.nn.Linear(1, 1)), "DataParallel has one"),
        (torch.nn.Linear(1, 1), "model: a Linear; a torch.nn.parallel.Distr"),
    ],
)
def test_refuses_other_models(model, text):
    with pytest.raises(ucudnn.InvalidArgument, match=text):
        checks.ddp_of(model)


def test_refuses_two_ranks_on_one_gpu():
    checks.refuse_shared_gpu(["GPU-1", "GPU-2"])
    with pytest.raises(ucudnn.InvalidArgument, match="ranks 0 and 2 on one GPU"):
        checks.refuse_shared_gpu(["GPU-1", "GPU-2", "GPU-1"])


def test_refuses_passes_that_a_cuda_graph_captures(monkeypatch):
    capturing = []
    monkeypatch.setattr(
        torch.cuda, "is_current_stream_capturing", lambda: bool(capturing)
    )
    checks.refuse_capture()
    capturing.append(True)
    with pytest.raises(ucudnn.InvalidArgument, match="CUDA graph is captured"):
        checks.refuse_capture()


def shares_of(batch):
    plan = SharePlan([RankShare(batch, 0, 1, None)], None, None, [])
    return Shares(SimpleNamespace(rank=0), None, SimpleNamespace(plan=lambda: plan))


def test_accepts_a_loader_of_the_share():
    shares = shares_of(4)
    loader = DataLoader(range(8), 4, sampler=shares.sampler(range(8)))
    assert shares.check(loader) is loader


def test_refuses_other_loaders():
    shares = shares_of(4)
    sampler = shares.sampler(range(8))
    for loader, text in [
        (DataLoader(range(8), 3, sampler=sampler), "batch_size: 3; shares.batch, 4"),
        (DataLoader(range(8), 4), "sampler: a SequentialSampler; sampler=shares"),
        (
            DataLoader(range(8), 4, sampler=shares_of(4).sampler(range(8))),
            "sampler: a ShareSampler",
        ),
        ([1, 2], "loader: a list; a torch.utils"),
    ]:
        with pytest.raises(ucudnn.InvalidArgument, match=text):
            shares.check(loader)


def test_refuses_loaders_that_frameworks_deal_out_again(monkeypatch):
    loader = DataLoader(range(8), 4)
    shard = type(
        "BatchSamplerShard", (), {"__module__": "accelerate.data_loader"}
    )
    # DataLoader forbids to assign it.
    vars(loader)["batch_sampler"] = shard()
    with pytest.raises(ucudnn.InvalidArgument, match="BatchSamplerShard of acc"):
        checks.refuse_wrapped_loader(loader)
    state = SimpleNamespace(
        PartialState=SimpleNamespace(_shared_state={"num_processes": 2})
    )
    checks.refuse_unchecked_loader()
    monkeypatch.setitem(sys.modules, "accelerate.state", state)
    with pytest.raises(ucudnn.InvalidArgument, match="attach.ddp, loader=loader"):
        checks.refuse_unchecked_loader()
