from types import SimpleNamespace

import pytest
import torch
import ucudnn
from ucudnn.torch.parallel.cache import StepCache
from ucudnn.torch.parallel.measuring import Measuring, starting_batches
from ucudnn.torch.profiling import StepProfile


class Alone:
    """The first rank of several, whose others are of known kinds."""

    rank = 0

    def __init__(self, others):
        self._others = others
        self.size = 1 + len(others)

    def gather(self, value):
        return [value, *self._others]

    def agree(self, compute):
        return [compute(), *(StepProfile(o.kind) for o in self._others)]

    def from_first(self, compute):
        return compute()


def planned(ms, batch, others, fits=10**9, **options):
    """The plan where a step on b images takes ms(b), and the batches that were
    measured for it."""
    seen = []

    def profile(batches):
        seen.extend(batches)
        for b in batches:
            step(b)
        told = {b: ms(b) for b in batches if b <= fits}
        if max(batches) <= fits:
            return StepProfile(device.kind, told)
        return StepProfile(device.kind, {**told, fits: ms(fits)}, fits)

    device = SimpleNamespace(kind="here", device=torch.device("cpu"))
    step = options.pop("step", lambda b: None)
    job = Measuring(Alone(others), device, profile, name="step", **options)
    plan = job.plan(batch)
    return [rank.batch for rank in plan.ranks], plan.predicted_ms, seen


def slow(ms, batches=range(1, 257)):
    return StepProfile("there", {b: ms(b) for b in batches})


def test_begins_around_the_even_share():
    assert starting_batches(256, 2) == [16, 32, 64, 128]
    assert starting_batches(9, 2) == [2, 5]
    assert starting_batches(3, 2) == [1, 2]
    assert starting_batches(2, 2) == [1]


def test_measures_what_it_plans():
    # A step that interpolation from parts of the even share misses.
    shares, predicted, seen = planned(
        lambda b: b + 20 * (b > 150), 256,
        [slow(lambda b: 4.0 * b)],
    )  # fmt: skip
    assert shares[0] in seen
    assert predicted == pytest.approx(
        max(shares[0] + 20 * (shares[0] > 150), 4 * shares[1])
    )
    assert predicted == pytest.approx(221)
    assert len(seen) < 12


def test_measures_few_batches_of_equal_ranks():
    shares, _, seen = planned(
        lambda b: b, 256, [StepProfile("here")]
    )
    assert shares == [128, 128]
    assert seen == [16, 32, 64, 128]


def test_looks_beyond_the_even_share_before_it_gives_up():
    little = StepProfile("there", {1: 1.0, 30: 30.0}, 30)
    shares, _, _ = planned(
        lambda b: 3.0 * b, 128, [little], micro_steps=1
    )
    assert shares == [98, 30]


def test_measures_no_more_where_a_rank_holds_no_image():
    nothing, seen = StepProfile("there", {}, 0), []
    with pytest.raises(ucudnn.NoPlan, match="rank 1 .there.: not one image fits"):
        planned(float, 128, [nothing], step=seen.append)
    assert seen == [8, 16, 32, 64]


def test_gives_a_slow_rank_less_than_the_first_batches():
    shares, _, seen = planned(
        lambda b: 100.0 * b, 64, [slow(float)]
    )
    assert shares == [1, 63]
    assert 1 in seen


def test_measures_nothing_that_others_measured():
    theirs = StepProfile("here", {b: float(b) for b in (16, 32, 64, 128)})
    shares, _, seen = planned(
        lambda b: b, 256, [theirs], known={"here": theirs}
    )
    assert shares == [128, 128] and not seen


def test_gives_two_images_where_one_cannot_be_computed(tmp_path):
    def step(b):
        if b == 1:
            raise ValueError("Expected more than 1 value per channel")

    cache = StepCache(tmp_path)
    for _ in range(2):
        shares, _, _ = planned(
            lambda b: 100.0 * b, 64, [slow(float)],
            step=step, cache=cache,
        )  # fmt: skip
        assert shares == [2, 62]
    assert cache.read("step", "here").least == 2
