"""Shares from a real coordinator, over REST."""

import pytest
import ucudnn
from ucudnn.torch.parallel.coordinator import coordinators_plan, kind_of_gpu

from daemons import KINDS, coordinator


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A coordinator that knows AlexNet on two kinds."""
    with coordinator(tmp_path_factory.mktemp("coordinator")) as daemon:
        daemon.import_alexnet()
        yield f"http://{daemon.rest}"


def batches(plan):
    return [rank.batch for rank in plan.ranks]


def test_takes_the_shares_of_a_plan(url):
    plan = coordinators_plan(url, "alexnet", 256, [KINDS[0]] * 2)
    assert batches(plan) == [128, 128]
    assert [rank.first_image for rank in plan.ranks] == [0, 128]
    assert plan.predicted_ms > 1
    assert plan.reasons[0].startswith("plan 1 of http://127.0.0.1")
    assert plan.reasons[0].endswith(", predicted (convolutions only)")
    assert "they do not consider the GPUs' memory" in plan.reasons[1]


def test_stays_even_without_measurements_or_coordinator(url):
    with pytest.warns(UserWarning, match="even shares, because there is no plan"):
        plan = coordinators_plan(url, "alexnet", 9, KINDS)
    assert batches(plan) == [5, 4]
    assert "are missing: start ucudnn-agent" in plan.reasons[0]
    with pytest.warns(UserWarning, match="127.0.0.1:1"):
        away = coordinators_plan("http://127.0.0.1:1", "alexnet", 9, KINDS)
    assert batches(away) == [5, 4]
    assert "127.0.0.1:1" in away.reasons[0]


def test_raises_what_the_coordinator_refuses(url):
    with pytest.raises(ucudnn.InvalidArgument, match="no network 'none'"):
        coordinators_plan(url, "none", 256, KINDS)
    with pytest.raises(ucudnn.InvalidArgument, match="no device GPU-1; kind="):
        kind_of_gpu(url, "GPU-1")
