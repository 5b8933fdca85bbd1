import itertools

import pytest
import ucudnn
from ucudnn.torch.parallel.planning import StepTable, plan_shares
from ucudnn.torch.profiling import StepProfile


def table(ms, largest=None, micro_steps=None, least=None):
    return StepTable(StepProfile("kind", ms, largest), micro_steps, least)


def batches(plan):
    return [rank.batch for rank in plan.ranks]


def test_interpolates_between_measured_batches():
    known = table({2: 10.0, 4: 20.0, 8: 30.0})
    assert known.ms(4) == 20.0
    assert known.ms(3) == pytest.approx(15.0)
    assert known.ms(6) == pytest.approx(25.0)
    assert known.ms(1) is None
    assert table({2: 10.0}, least=1).ms(1) == 10.0
    assert known.ms(9) is None


def test_needs_equal_passes_beyond_memory():
    known = table({1: 1.0, 4: 4.0}, largest=4)
    assert [known.micro_steps(b) for b in (4, 5, 6, 8, 9)] == [1, 0, 2, 2, 3]
    assert known.ms(6) == pytest.approx(6.0)
    assert known.limit(11) == 9


def test_forgets_times_that_memory_no_longer_holds():
    assert table({1: 1.0, 8: 8.0}, largest=4).most == 1


def test_takes_no_more_passes_than_allowed():
    known = table({1: 1.0, 4: 4.0}, largest=4, micro_steps=2)
    assert known.micro_steps(8) == 2
    assert known.micro_steps(12) == 0


def test_is_as_fast_as_any_other_split():
    tables = [
        table({1: 3.0, 2: 2.0, 4: 9.0, 5: 9.5, 9: 14.0}),
        table({1: 1.0, 3: 7.0, 6: 8.0, 9: 30.0}),
        table({1: 4.0, 4: 4.5, 5: 12.0, 9: 13.0}),
    ]
    for batch in range(3, 10):
        plan = plan_shares(batch, tables)
        best = min(
            max(t.ms(b) for t, b in zip(tables, split))
            for split in itertools.product(range(1, batch + 1), repeat=3)
            if sum(split) == batch
        )
        assert sum(batches(plan)) == batch
        assert plan.predicted_ms == pytest.approx(best)


def test_tells_the_time_of_even_shares_of_any_batch():
    plan = plan_shares(5, [table({1: 1.0, 5: 5.0}), table({1: 2.0, 5: 10.0})])
    assert plan.even_ms == pytest.approx(4.0)  # 3 + 2


def test_stays_even_unless_that_takes_longer():
    tables = [table({1: 1.0, 4: 4.00, 5: 3.98}), table({1: 1.0, 4: 4.0})]
    assert batches(plan_shares(8, tables)) == [4, 4]
    tables[0] = table({1: 1.0, 4: 4.0, 5: 3.9})
    assert batches(plan_shares(8, tables)) == [5, 3]


def test_leaves_any_rank_idle():
    tables = [table({1: 90.0, 4: 99.0}), table({1: 1.0, 4: 4.0})]
    assert batches(plan_shares(4, tables)) == [1, 3]
    assert batches(plan_shares(4, tables, idle=True)) == [0, 4]


def test_gives_no_rank_fewer_images_than_were_measured():
    tables = [table({1: 1.0, 9: 9.0}), table({2: 50.0, 9: 90.0})]
    assert batches(plan_shares(9, tables)) == [7, 2]
    assert batches(plan_shares(9, tables, idle=True)) == [9, 0]
    with pytest.raises(ucudnn.InvalidArgument, match="2 for 2 ranks; 3 or more"):
        plan_shares(2, tables)


def test_names_the_rank_without_memory():
    with pytest.raises(ucudnn.NoPlan, match="rank 1 .*not one image fits"):
        plan_shares(4, [table({1: 1.0, 4: 4.0}), table({}, largest=0)])


def test_names_the_largest_batch_that_was_measured():
    with pytest.raises(ucudnn.NoPlan, match="at most 8 is .*measured"):
        plan_shares(9, [table({1: 1.0, 4: 4.0})] * 2)
