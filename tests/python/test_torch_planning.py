import itertools
import random

import pytest
import ucudnn
from ucudnn.torch.parallel.exchange import Exchange
from ucudnn.torch.parallel.planning import RankSteps
from ucudnn.torch.profiling import StepProfile


def told(ms, largest=None, kind="kind"):
    return StepProfile(kind, ms, largest)


def steps(*ranks, **options):
    """Of {batch: milliseconds} or profiles."""
    return RankSteps(
        [r if isinstance(r, StepProfile) else told(r, kind=f"k{n}")
         for n, r in enumerate(ranks)],
        **options,
    )  # fmt: skip


def ms(profile, batch, **options):
    """What a rank takes for a batch; None if it cannot compute it."""
    given = steps(profile, **options).given([batch])
    return given and given.predicted_ms


def test_interpolates_between_measured_batches():
    known = {2: 10.0, 4: 20.0, 8: 30.0}
    assert ms(known, 4) == 20.0
    assert ms(known, 3) == pytest.approx(15.0)
    assert ms(known, 6) == pytest.approx(25.0)
    assert ms(known, 1) is None
    assert ms({2: 10.0}, 1, least=1) == 10.0
    assert ms(known, 9) is None


def test_needs_equal_passes_beyond_memory():
    known = told({1: 1.0, 4: 4.0}, largest=4)
    assert [ms(known, b) for b in (4, 5, 6, 8, 9)] == [4.0, None, 6.0, 8.0, 9.0]
    (share,) = steps(known).given([9]).ranks
    assert share.micro_steps == 3
    assert [ms(known, b, micro_steps=2) for b in (8, 9)] == [8.0, None]


def test_forgets_times_that_memory_no_longer_holds():
    assert told({1: 1.0, 8: 8.0}, largest=4).most == 1


def time_of(known, batch, micro_steps):
    """As `ms`, straight from the guide's words."""
    most = max(known.times)
    passes = -(-batch // most)
    if passes > 1 and (not known.ends or passes > micro_steps or batch % passes):
        return None
    batch //= passes
    if batch < min(known.times):
        return None
    low = max(b for b in known.times if b <= batch)
    high = min(b for b in known.times if b >= batch)
    part = (batch - low) / max(1, high - low)
    return passes * (known.ms[low] + part * (known.ms[high] - known.ms[low]))


def drawn(number):
    """Three ranks, whose times fall as often as they rise."""
    draw = random.Random(number)
    ranks = []
    for rank in range(3):
        batches = sorted(draw.sample(range(1, 10), draw.randint(1, 5)))
        times = {b: draw.randint(1, 40) / 4 for b in batches}
        ends = max(batches) if draw.random() < 0.5 else None
        ranks.append(told(times, ends, kind=f"k{rank}"))
    return ranks


def test_is_as_fast_as_any_other_split():
    solved = 0
    for number in range(60):
        ranks = drawn(number)
        for batch, idle in itertools.product((3, 7, 11), (False, True)):
            splits = [
                [time_of(told, b, 2) if b else 0.0 for told, b in zip(ranks, split)]
                for split in itertools.product(range(0 if idle else 1, batch + 1), repeat=3)
                if sum(split) == batch
            ]
            best = min((max(t) for t in splits if None not in t), default=None)
            try:
                plan = RankSteps(ranks, idle, micro_steps=2).plan(batch)
            except (ucudnn.NoPlan, ucudnn.InvalidArgument):
                assert best is None
                continue
            solved += 1
            assert sum(plan.batches) == batch
            # Even shares may take 1 % longer.
            assert best <= plan.predicted_ms + 1e-5 <= best / 0.99 + 2e-5
    assert solved > 200


def test_tells_the_time_of_even_shares_of_any_batch():
    plan = steps({1: 1.0, 5: 5.0}, {1: 2.0, 5: 10.0}).plan(5)
    assert plan.even_ms == pytest.approx(4.0)  # 3 + 2


def test_stays_even_unless_that_takes_longer():
    for idle in (False, True):
        other = {1: 1.0, 4: 4.0}
        assert steps({1: 1.0, 4: 4.00, 5: 3.98}, other, idle=idle).plan(8).batches == [4, 4]
        assert steps({1: 1.0, 4: 4.0, 5: 3.9}, other, idle=idle).plan(8).batches == [5, 3]


def test_leaves_any_rank_idle():
    ranks = {1: 90.0, 4: 99.0}, {1: 1.0, 4: 4.0}
    kept = steps(*ranks).plan(4)
    assert kept.batches == [1, 3]
    assert "without rank 0 a step would take 4.00 ms" in kept.reasons[-1]
    assert steps(*ranks, idle=True).plan(4).batches == [0, 4]


def test_gives_no_rank_fewer_images_than_were_measured():
    ranks = {1: 1.0, 9: 9.0}, {2: 50.0, 9: 90.0}
    assert steps(*ranks).plan(9).batches == [7, 2]
    assert steps(*ranks, idle=True).plan(9).batches == [9, 0]
    with pytest.raises(ucudnn.InvalidArgument, match="2 for 2 ranks; 3 or more"):
        steps(*ranks).plan(2)


def test_names_the_rank_without_memory():
    ranks = told({1: 1.0, 4: 4.0}), told({}, largest=0)
    with pytest.raises(ucudnn.NoPlan, match="rank 1 .*not one image fits"):
        steps(*ranks).plan(4)
    plan = steps(*ranks, idle=True).plan(4)
    assert plan.batches == [4, 0] and plan.even_ms is None


def test_names_the_largest_batch_that_was_measured():
    with pytest.raises(ucudnn.NoPlan, match="at most 8 is .*measured"):
        steps(*[told({1: 1.0, 4: 4.0})] * 2).plan(9)


def test_tells_ranks_of_a_kind_apart_once_their_times_differ():
    known = steps(*[told({1: 1.0, 8: 8.0})] * 2)
    assert known.kinds() == ["kind", "kind"]
    assert known.plan(8).batches == [4, 4]
    slower = known.scaled([3.0, 1.0])
    assert slower.kinds() == ["kind", "kind of rank 1"]
    assert slower.plan(8).batches == [2, 6]
    assert slower.given([4, 4]).predicted_ms == pytest.approx(12.0)


def test_a_step_ends_when_gradients_were_exchanged():
    # The last bucket always is exchanged when the backward pass has ended.
    assert Exchange().after(8.0) == 8.0
    assert Exchange(all_ms=3.0, last_ms=1.0).after(8.0) == 9.0
    # The others are beside the backward pass, at least half of the step.
    assert Exchange(all_ms=6.0, last_ms=1.0).after(8.0) == 10.0
