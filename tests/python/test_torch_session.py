"""Shares of a session, on real ranks of MPI."""

import pytest

from mpi import run_ranks

NETWORK = (
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,8,8,4,3,3,1,1,1,1,1\n"
)


def test_takes_the_shares_of_a_session(tmp_path):
    (tmp_path / "tiny.csv").write_text(NETWORK)
    first, second = run_ranks(
        "torch_session_ranks.py", tmp_path / "tiny.csv", folder=tmp_path
    )
    assert first["batches"] == second["batches"] == [3, 2]
    assert (first["first_image"], second["first_image"]) == (0, 3)
    assert first["reasons"][0].startswith("undivided: ")
    assert first["gradient"] == second["gradient"] == pytest.approx(1.4)
    assert first["changed"] is False
    assert "its mini-batch is 5; one of 6" in first["other"]
