"""Losses, models and batches of each kind under uneven shares: two processes on the
CPU over gloo, which run all of torch_loss_ranks.py's scenarios."""

import pytest

import torch  # noqa: F401

CLOSE = 1e-6  # relative, in single precision
EXACT = 1e-12  # for float64
WRONG = 0.1  # at least, weighed as another kind of loss
SCRIPT = "torch_loss_ranks.py"  # that each rank runs


def test_a_mean_over_images(told):
    for rank in told:
        assert rank["images"] < CLOSE


def test_a_sum_over_images(told):
    for rank in told:
        assert rank["sum"] < CLOSE
        assert rank["images"] > WRONG


def test_a_mean_over_labelled_tokens(told):
    for rank in told:
        assert rank["items"] < CLOSE
        assert rank["images"] > WRONG


def test_a_loss_normalised_over_all_ranks(told):
    for rank in told:
        assert rank["ranks"] < CLOSE
        assert rank["images"] > WRONG


def test_a_loss_on_the_rows_of_all_ranks(told):
    for rank in told:
        assert rank["ranks"] < CLOSE
        assert rank["images"] > WRONG


def test_losses_of_several_passes(told):
    assert [rank.pop("passes") for rank in told] == [2, 1]
    for rank in told:
        assert set(rank) == {"sum", "items", "ranks"}
        assert max(rank.values()) < CLOSE


def test_warns_of_other_losses(told):
    for rank, rows in zip(told, ("20 of 36", "2 of 12")):
        for name in ("means", "counts", "named", "lightning"):
            assert rank[name] == []
        (ignores,) = rank["ignores"]
        assert f"{rows} rows of the model's output have no gradient" in ignores
        assert 'loss="items"' in ignores
        # One before the second pass; one after each of two; in the first alone.
        for name, exchanges in (
            ("divides", 1), ("divides late", 2), ("divides within", 1),
        ):  # fmt: skip
            (divides,) = rank[name]
            assert f"{exchanges} exchanges among the ranks" in divides
            assert 'loss="ranks"' in divides


def test_means_by_items(told):
    for rank in told:
        assert rank["items"] == pytest.approx(0.75)
        assert rank["ranks"] == pytest.approx(0.5)
        assert "mean: n: -1; one number" in rank["refused"]
        assert rank["gathered"] == [0] * 6 + [1] * 2


def test_statistics_of_the_rank_with_most_images(told):
    for rank in told:
        assert rank["few"]["batches"] == [2, 6]
        assert rank["none"]["batches"] == [0, 8]
        assert set(rank) == {"few", "none", "static", "unused"}
        assert max(way["difference"] for way in rank.values()) < EXACT


def test_compiled_models(told):
    for rank in told:
        assert set(rank) == {
            "DDP compiled", "compiled in DDP", "compiled before attach",
        }  # fmt: skip
        for way in rank.values():
            assert way["difference"] < EXACT
            assert way["compilations"] == [1, 1]
            assert "images on this rank, whose share is" in way["images"]


def test_lists_of_images(told):
    assert [rank["both"]["images"] for rank in told] == [6, 2]
    assert [rank["idle"]["images"] for rank in told] == [8, 0]
    for rank in told:
        assert rank["both"]["difference"] < EXACT
        assert rank["idle"]["difference"] < EXACT
        assert "whose first tensor has 3 rows" in rank["refused"]
        assert "images=lambda images, targets" in rank["refused"]


def test_refuses_other_passes(told):
    for rank, share in zip(told, (6, 2)):
        assert f"{2 * share} images on this rank, whose" in rank["twice"]
        assert "0 images on this rank, whose" in rank["none"]
        assert "no tensor among its arguments" in rank["nothing"]
        assert "attach: images=: tensor" in rank["no number"]
        assert f"of 9 images; {share}, this rank's" in rank["labels"]


def test_refuses_other_losses(told):
    for rank, share in zip(told, (6, 2)):
        assert "loss: 'mean'; one of 'images', 'sum'" in rank["unknown"]
        assert "count: attach was told loss='ranks'" in rank["counted"]
        assert "gather: a model attached with loss=None" in rank["gathered"]
        assert f"shape (8, 5); one with {share} rows" in rank["rows"]
        assert "count: n: [1, 2]; one number" in rank["several"]
        assert "count: n: -1; one number" in rank["negative"]
        assert "delay_all_reduce_named_params" in rank["delayed"]
        assert '"items": no count in this step' in rank["uncounted"]
    first, second = (rank["idle"] for rank in told)
    assert first is None
    assert "8 images on this rank, whose share is 0" in second
