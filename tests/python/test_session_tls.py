"""The session with a coordinator over TLS."""

from daemons import certs, coordinator
from mpi import run_ranks

NETWORK = (
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,8,8,4,3,3,1,1,1,1,1\n"
)


def test_every_rank_reports_its_steps(tmp_path):
    certs(tmp_path, "init", "--dir", ".", "--cluster", "test")
    certs(tmp_path, "issue", "--dir", ".", "coordinator", "c", "--host", "127.0.0.1")
    certs(tmp_path, "issue", "--dir", ".", "job", "train")
    (tmp_path / "tiny.csv").write_text(NETWORK)
    with coordinator(
        tmp_path, "--ca", tmp_path / "ca.crt",
        "--cert", tmp_path / "coordinator-c.crt",
        "--key", tmp_path / "coordinator-c.key",
    ) as daemon:  # fmt: skip
        report = run_ranks(
            "reporting_ranks.py", tmp_path / "tiny.csv", folder=tmp_path,
            variables={
                "UCUDNN_COORDINATOR": daemon.grpc,
                "UCUDNN_CA": str(tmp_path / "ca.crt"),
                "UCUDNN_CERT": str(tmp_path / "job-train.crt"),
                "UCUDNN_KEY": str(tmp_path / "job-train.key"),
            },
        )  # fmt: skip
    # The coordinator answered: jobs register no networks.
    assert "job train may not call PutNetwork" in report["reason"]
    assert report["steps"] == [3, 3]
