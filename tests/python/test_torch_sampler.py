import pytest
import torch
import ucudnn
import ucudnn.torch
from ucudnn.torch.parallel.current import CurrentShares
from ucudnn.torch.parallel.loader import ShareLoader
from ucudnn.torch.parallel.planning import RankShare, SharePlan


def plan_of(batches):
    return SharePlan(
        [
            RankShare(batch, sum(batches[:rank]), 1, None)
            for rank, batch in enumerate(batches)
        ],
        None, None, [],
    )  # fmt: skip


def shares_of(batches):
    """Each rank's."""
    return [CurrentShares(rank, plan_of(batches)) for rank in range(len(batches))]


def steps_of(batches, images=23, epoch=0, step=0, **options):
    """The images of each step, of all ranks together."""
    ranks = []
    for shares in shares_of(batches):
        sampler = ucudnn.torch.ShareSampler(range(images), shares, **options)
        sampler.set_epoch(epoch, step)
        assert len(list(sampler)) == len(sampler)
        ranks.append(sampler.batches(step))
    return [sum(parts, []) for parts in zip(*ranks)]


def test_gives_each_step_the_same_images_whatever_the_shares():
    even = steps_of([4, 4])
    assert even == steps_of([7, 1]) == steps_of([3, 0, 4, 1])
    assert [len(step) for step in even] == [8, 8]
    seen = sum(even, [])
    assert len(set(seen)) == 16


def test_shuffles_by_epoch():
    first, second = steps_of([5, 3]), steps_of([5, 3], epoch=1)
    assert first != second
    assert steps_of([5, 3], epoch=1) == second
    assert steps_of([5, 3], seed=9) != first
    assert steps_of([5, 3], shuffle=False) == [[*range(8)], [*range(8, 16)]]


def test_resumes_within_an_epoch():
    whole = steps_of([5, 3], images=40, epoch=2)
    assert steps_of([2, 6], images=40, epoch=2, step=3) == whole[3:]
    assert steps_of([8], images=40, epoch=2, step=5) == []


def test_refuses_what_it_cannot_deal_out():
    (shares,) = shares_of([8])
    with pytest.raises(ucudnn.InvalidArgument, match="7 images; 8, the mini"):
        ucudnn.torch.ShareSampler(range(7), shares)
    with pytest.raises(ucudnn.InvalidArgument, match="without a length"):
        ucudnn.torch.ShareSampler(iter(range(9)), shares)
    sampler = ucudnn.torch.ShareSampler(range(9), shares)
    with pytest.raises(ucudnn.InvalidArgument, match="2; at most 1, the steps"):
        sampler.set_epoch(0, 2)


def test_loads_the_rest_of_an_epoch_by_new_shares():
    _, shares = shares_of([1, 3])
    sampler = ucudnn.torch.ShareSampler(range(20), shares, shuffle=False)
    loader = ShareLoader(sampler)
    loaded = []
    for batch in loader:
        loaded.append(batch.tolist())
        if len(loaded) == 2:
            shares._adopt(plan_of([2, 2]))
    assert loaded == [[1, 2, 3], [5, 6, 7], [10, 11], [14, 15], [18, 19]]
    assert len(loader) == 5


def test_loads_no_images_for_an_idle_rank():
    _, shares = shares_of([4, 0])
    sampler = ucudnn.torch.ShareSampler(torch.ones(8, 3), shares)
    batches = list(ShareLoader(sampler))
    assert [list(batch.shape) for batch in batches] == [[0, 3]] * 2


def test_decides_the_batch_itself():
    (shares,) = shares_of([4])
    sampler = ucudnn.torch.ShareSampler(range(8), shares)
    with pytest.raises(ucudnn.InvalidArgument, match="loader: batch_size: 2"):
        ShareLoader(sampler, batch_size=2)
