"""ucudnn.torch on real ranks: two processes on the CPU over gloo, which run all
of torch_ranks.py's scenarios."""

import pytest

EXACT = 1e-12  # for float64
SCRIPT = "torch_ranks.py"  # that each rank runs


def test_shares_of_unlike_ranks(told):
    first, second = told
    assert (first["batch"], second["batch"]) == (6, 2)
    assert (first["first_image"], second["first_image"]) == (0, 6)
    assert (first["weight"], second["weight"]) == (0.75, 0.25)
    assert first["batches"] == second["batches"] == [6, 2]
    assert first["predicted_ms"] == pytest.approx(6.0)
    assert first["even_ms"] == pytest.approx(12.0)
    assert first["micro_steps"] == 1
    assert "rank 1 (slow): 2 images, 6.00 ms" in first["reasons"]


def test_plain_ddp_is_wrong(told):
    for rank in told:
        assert rank["plain"] > 0.01
        assert rank["weighed"] < EXACT


def test_scaled_losses_under_fsdp(told):
    for rank, scale in zip(told, (1.5, 0.5)):
        assert rank["scale"] == scale
        assert rank["difference"] < EXACT
        assert "on loss * shares.scale; a torch.nn.parallel" in rank["refused"]


def test_gradients_as_bucket_views(told):
    assert max(told) < EXACT


def test_exchanged_after_the_pass(told):
    assert max(told) < EXACT


def test_unused_parameters(told):
    assert max(told) < EXACT


def test_own_hook_runs_after(told):
    for rank in told:
        assert rank == {"difference": pytest.approx(0, abs=EXACT),
                        "states": ["state"]}  # fmt: skip


def test_accumulates_under_no_sync(told):
    assert max(told) < EXACT


def test_scaled_and_clipped_gradients(told):
    assert max(told) < EXACT


def test_sparse_gradients(told):
    assert max(told) < EXACT


def test_a_share_beyond_memory(told):
    first, second = told
    assert first["batches"] == [6, 2]
    assert (first["micro_steps"], second["micro_steps"]) == (2, 1)
    assert set(first["sizes"]) == {3}
    assert set(second["sizes"]) == {2}
    assert max(first["difference"], second["difference"]) < EXACT
    assert "in 2 passes, because 3 fit in memory" in first["reasons"][0]
    assert "shares.micro_batches" in first["whole"]
    for rank in told:
        assert "SyncBatchNorm, where rank 0's share takes 2 passes" in (
            rank["synchronised"]
        )


def test_synchronised_statistics(told):
    for rank in told:
        assert rank.pop("bare") > 1e-3
        assert len(rank) == 4
        assert max(rank.values()) < EXACT


def test_counts_too_late_for_synchronised_statistics(told):
    for rank in told:
        assert "count: after a backward pass of the step" in rank


def test_other_synchronised_statistics(told):
    for rank in told:
        assert "1 is a NaiveSyncBatchNorm of __main__" in rank
        assert "torch.nn.SyncBatchNorm is accepted" in rank


def test_no_new_shares_within_a_step(told):
    for rank in told:
        assert "refresh: between two passes of a step" in rank["within"]
        assert rank["after"] is None


def test_an_idle_rank(told):
    first, second = told
    assert first["kept"] == [7, 1]
    assert "idle=True leaves it out" in first["note"]
    assert first["batches"] == [8, 0]
    assert second["weight"] == 0
    assert set(second["sizes"]) == {0}
    assert max(first["difference"], second["difference"]) < EXACT
    assert first["statistics"] < EXACT


def test_infinite_gradients_of_no_weight(told):
    assert told == [1.0, 1.0]


def test_means_and_counts(told):
    for rank in told:
        assert rank["mean"] == pytest.approx(0.25)
        assert rank["total"] == 4
        # Rank 0's inputs are 10, rank 1's 11.
        assert rank["counted"] == pytest.approx(10 / 4 + 11 * 3 / 4)
        assert rank["weighed"] == pytest.approx(10 * 0.75 + 11 * 0.25)
        assert rank["none"] == pytest.approx(10)


def test_measured_once_and_cached(told):
    first, second = told
    assert first["batches"] == second["batches"]
    assert sum(first["batches"]) == 8
    assert first["predicted_ms"] > 0
    assert first["measured"] > 0
    assert second["measured"] == 0
    assert first["again"] == second["again"] == 0
    assert first["same"]
    assert "from the cache" in first["reasons"][-1]
    assert first["changed"] == 0 and first["state"] == 0
    times, exchange = first["files"]
    assert exchange.startswith("exchange-over-gloo")


def test_predicts_the_exchange(told):
    for rank in told:
        assert rank["batches"] == [6, 2]
        # The ranks' 6 ms, and the longest that a rank measured.
        assert rank["predicted_ms"] == pytest.approx(8.0)
        assert rank["even_ms"] == pytest.approx(14.0)
        # Once, for shares that are unlike.
        assert rank["asked"] == [[[66], 0, True]]
        assert rank["again_ms"] == pytest.approx(8.0)
        assert rank["later_ms"] == pytest.approx(4.0 + 2.0)


def test_measures_the_exchange_of_gradients_and_buffers(told):
    for rank in told:
        assert rank["all_ms"] > 0 and rank["last_ms"] > 0
        assert rank["unchanged"] and rank["nothing"] == [0.0, 0.0]
        # By bytes: at first some, then as many as there are together.
        assert rank["buckets"] == [1_200_000, 28_000_000, 1_200_040]


def test_fails_on_all_ranks(told):
    assert told == [
        "Error: rank 1: ValueError: no such layer",
        "ValueError: no such layer",
    ]


def test_too_large_a_batch(told):
    for rank in told:
        assert "the mini-batch is 8; at most 6 is accepted" in rank
        assert rank.startswith("NoPlan")


def test_refuses_unlike_arguments(told):
    for rank in told:
        assert "batch: 8 on rank 0 and 9 on rank 1" in rank["batch"]
        assert "one of step=, model=, times=" in rank["nothing"]
        assert "none of 'v100'" in rank["kind"]
        assert "'fast', 'slow'" in rank["kind"]
        assert "1 for 2 ranks; 2 or more" in rank["small"]


def test_refuses_other_input(told):
    first, second = told
    assert "7 images on this rank, whose share is 6" in first["images"]
    assert "3 images on this rank, whose share is 2" in second["images"]
    for rank in told:
        assert rank["evaluation"] is None
        assert "inside a Join context" in rank["join"]
        assert "one model of the shares" in rank["twice"]
        assert "attach(ddp, hook, state)" in rank["hooked"]
        assert "rank 0 of 1" in rank["group"]


def test_new_shares_at_a_step(told):
    first, second = told
    assert first["changed"] == second["changed"]
    (step,) = first["changed"]
    assert step > 25
    assert first["sizes"] == [6] * (step + 1) + [4] * (59 - step)
    assert second["sizes"] == [2] * (step + 1) + [4] * (59 - step)
    assert first["revision"] == 2
    assert max(first["difference"], second["difference"]) < EXACT
    assert "0.33 times as long" in first["reasons"][-1]


def test_reports_its_own_time(told):
    assert told == [{"count": 3, "positive": True}] * 2
