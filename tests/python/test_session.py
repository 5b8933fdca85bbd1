"""The session on real ranks, each a Python process with mpi4py."""

import pytest
from mpi import run_ranks

NETWORK = (
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,8,8,4,3,3,1,1,1,1,1\n"
    "conv2,4,8,8,4,3,3,1,1,1,1,1\n"
)


def test_gives_each_rank_its_share(tmp_path):
    (tmp_path / "tiny.csv").write_text(NETWORK)
    first, second = run_ranks(
        "session_ranks.py", tmp_path / "tiny.csv", folder=tmp_path
    )
    assert (first["batch"], second["batch"]) == (3, 2)
    assert (first["first_image"], second["first_image"]) == (0, 3)
    assert second["weight"] == pytest.approx(0.4)
    assert (second["rank"], second["size"]) == (1, 2)
    assert first["source"] == "undivided"
    assert first["shown"] == f"<Session: {first['reason']}>"
    assert "onednn" in first["device_kind"]
    assert first["kernels"] == 5
    assert first["memory_plan"] is None
    assert first["within_memory"] == ["undivided", 3, None]
    assert first["memory"]["rank_budget_bytes"] == [1 << 30, 64 << 20]
    assert first["memory"]["momentum"] is True
    # 0.6 * 1 + 0.4 * 2, and 2 on both.
    assert first["gradients"] == pytest.approx([1.4, 2.0])
    assert first["gradients"] == second["gradients"]
    assert first["announced"] == pytest.approx([3.4, 5.0])
    assert "float32" in first["integers_on_gpu"]
    assert "type is -1" in first["unlike"]
    assert "float32" in second["unlike"]
    assert first["changed"] is False
    malformed, no_network, no_plan_file = first["refused"].split("\n")
    assert "none" in malformed
    assert no_network == "rank 0: network or network_file is required"
    assert no_plan_file.startswith("rank 0: plan file: /none.json: ")
    assert "float32" in first["integers"]
    assert first["after"] == "the session is finalised"
