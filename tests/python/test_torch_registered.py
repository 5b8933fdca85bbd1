"""Jobs of torchrun that a coordinator follows: two processes on the CPU over gloo,
which run all of torch_registered_ranks.py's scenarios."""

import pytest

EXACT = 1e-12  # for float64
SCRIPT = "torch_registered_ranks.py"  # that each rank runs


def test_registers_reports_and_finishes(told):
    for rank, images in zip(told, (6, 2)):
        assert rank["counts"] == [5, 5]
        assert rank["hosts"] == [True, True]
        assert rank["kinds"] == ["fast", "slow"]
        assert (rank["running"], rank["ended"]) == ("running", "finished")
        assert rank["plan"] > 0
        assert rank["sizes"] == [images] * 5
        assert rank["difference"] < EXACT


def test_adopts_a_revision_at_an_epochs_end(told):
    for rank, before, after in zip(told, (6, 2), (7, 1)):
        assert all(sizes == [before] * 10 for sizes in rank["before"])
        assert rank["after"] == [[after] * 10] * 2
        assert rank["batches"] == [7, 1]
        assert (rank["revision"], rank["counts"]) == (2, [20, 20])
        assert rank["reasons"][0].startswith("revision 2, plan 2: drift: rank 1: ")
        assert rank["put"] == [1000, pytest.approx(7000, rel=0.01)]
        assert rank["alike"] < EXACT


def test_refuses_to_leave_a_drained_rank_out(told):
    for rank, images in zip(told, (6, 2)):
        assert "rank 1 would get no images" in rank["rejected"]
        assert "share(idle=True)" in rank["rejected"]
        assert rank["revision"] == 1
        assert rank["sizes"] == [images] * 2
    (warning,) = told[0]["warned"]
    assert warning.startswith("ucudnn: refresh: revision 2 (without rank 1) is not adopted")


def test_leaves_a_drained_rank_without_images(told):
    for rank, images in zip(told, (8, 0)):
        assert rank["drained"] == [8, 0]
        assert rank["sizes"] == [images] * 3
        assert rank["resumed"] == [6, 2]
        assert rank["difference"] < EXACT


def test_goes_on_without_a_rank_that_is_silent(told):
    for rank in told:
        assert rank["lost"] == [8, 0]
        assert rank["why"].endswith("rank 1 is silent")
        assert rank["back"] == [6, 2]


def test_trains_on_while_the_coordinator_is_killed(told):
    for rank in told:
        assert rank["acknowledged"] == [4, 4]
        assert rank["sizes"] == 6
        assert not rank["changed"]
        assert rank["counts"] == [10, 10]
        assert rank["ended"] == "finished"


def test_ends_without_a_coordinator(told):
    assert all("no coordinator answers" in problem for problem in told)
