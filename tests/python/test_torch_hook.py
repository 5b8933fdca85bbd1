"""The group in which gradients of unlike shares are summed. What NCCL makes of it
is measured on GPUs (tests/gpu/torch_share.py)."""

import types

import pytest
import torch.distributed as dist  # noqa: E402
from ucudnn.torch.parallel.hook import narrow  # noqa: E402

GROUP = object()


@pytest.fixture(name="made")
def made_groups(monkeypatch):
    """What new groups were asked for, by a PyTorch with NCCL."""
    made = []

    def new_group(ranks, **options):
        made.append((ranks, options))
        return "narrow"

    monkeypatch.setattr(dist, "new_group", new_group)
    monkeypatch.setattr(dist, "get_backend", lambda group: "nccl")
    monkeypatch.setattr(
        dist, "get_process_group_ranks", lambda group: [0, 2], raising=False
    )
    return made


def offer(monkeypatch, **config):
    options = types.SimpleNamespace(config=types.SimpleNamespace(**config))
    nccl = types.SimpleNamespace(Options=lambda: options)
    monkeypatch.setattr(dist, "ProcessGroupNCCL", nccl, raising=False)


def test_narrow_group_of_the_same_ranks(monkeypatch, made):
    offer(monkeypatch, max_ctas=32)
    assert narrow(GROUP) == "narrow"
    ((ranks, options),) = made
    assert ranks == [0, 2]
    assert options["backend"] == "nccl"
    assert options["pg_options"].config.max_ctas == 4
    # Other ranks need not take part.
    assert options["use_local_synchronization"]


def test_leaves_other_backends_alone(monkeypatch, made):
    offer(monkeypatch, max_ctas=32)
    monkeypatch.setattr(dist, "get_backend", lambda group: "gloo")
    assert narrow(GROUP) is GROUP
    assert not made
