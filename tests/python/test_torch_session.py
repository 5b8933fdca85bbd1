"""Shares of a session, on real ranks of MPI."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

NETWORK = (
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,8,8,4,3,3,1,1,1,1,1\n"
)


def test_takes_the_shares_of_a_session(tmp_path):
    if os.environ.get("UCUDNN_WITH_MPI") != "1":
        pytest.skip("libucudnn was built without MPI")
    pytest.importorskip("mpi4py")
    (tmp_path / "tiny.csv").write_text(NETWORK)
    environment = dict(
        os.environ,
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
        OMPI_MCA_mpi_yield_when_idle="1",
        OMPI_MCA_hwloc_base_binding_policy="none",
        OMP_NUM_THREADS="1",
        UCUDNN_CACHE_DIR=str(tmp_path / "cache"),
        UCUDNN_COORDINATOR="",
        CUDA_VISIBLE_DEVICES="",
    )
    ranks = Path(__file__).with_name("torch_session_ranks.py")
    done = subprocess.run(
        ["mpirun", "-n", "2", sys.executable, str(ranks),
         str(tmp_path / "tiny.csv")],
        env=environment, cwd=tmp_path, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert first["batches"] == second["batches"] == [3, 2]
    assert (first["first_image"], second["first_image"]) == (0, 3)
    assert first["reasons"][0].startswith("undivided: ")
    assert first["gradient"] == second["gradient"] == pytest.approx(1.4)
    assert first["changed"] is False
    assert "its mini-batch is 5; one of 6" in first["other"]
