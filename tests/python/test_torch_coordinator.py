"""Shares from a real coordinator, over REST."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

import ucudnn
from ucudnn.torch.coordinator import coordinators_plan, kind_of_gpu

BIN = os.environ.get("UCUDNN_BIN_DIR", "")
pytestmark = pytest.mark.skipif(
    not os.path.exists(f"{BIN}/ucudnn-coord"), reason="no ucudnn-coord here"
)
KINDS = [f"NVIDIA H200/{sms}u/139GiB/cudnn-9.19" for sms in (64, 16)]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A coordinator that knows AlexNet on two kinds."""
    folder = tmp_path_factory.mktemp("coordinator")
    ready = folder / "ready"
    daemon = subprocess.Popen(
        [f"{BIN}/ucudnn-coord", "serve", "--listen", "127.0.0.1:0", "--http",
         "127.0.0.1:0", "--database", f"sqlite://{folder}/c.db",
         "--ready-file", str(ready)],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 30
        while not ready.exists():
            assert daemon.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        ports = json.loads(ready.read_text())
        environment = dict(
            os.environ, UCUDNN_COORDINATOR=f"127.0.0.1:{ports['grpc_port']}"
        )
        data = Path(os.environ["UCUDNN_TEST_DATA"])
        network = str(data / "networks/alexnet_torchvision.csv")

        def ucudnn_command(*arguments):
            subprocess.run(
                [f"{BIN}/ucudnn", *arguments],
                check=True, env=environment, stdout=subprocess.DEVNULL,
            )  # fmt: skip

        ucudnn_command("networks", "put", "alexnet", network)
        ucudnn_command(
            "profiles", "import", "--network", network, "--kind", KINDS[0],
            "--complete-up-to", "1GiB",
            str(data / "h200/alexnet_b256_pow2_sm64.csv"),
        )  # fmt: skip
        yield f"http://127.0.0.1:{ports['http_port']}"
    finally:
        daemon.terminate()
        daemon.wait()


def batches(plan):
    return [rank.batch for rank in plan.ranks]


def test_takes_the_shares_of_a_plan(url):
    plan = coordinators_plan(url, "alexnet", 256, [KINDS[0]] * 2)
    assert batches(plan) == [128, 128]
    assert [rank.first_image for rank in plan.ranks] == [0, 128]
    assert plan.predicted_ms > 1
    assert plan.reasons[0].startswith("plan 1 of http://127.0.0.1")


def test_stays_even_without_measurements_or_coordinator(url):
    plan = coordinators_plan(url, "alexnet", 9, KINDS)
    assert batches(plan) == [5, 4]
    assert "are missing: start ucudnn-agent" in plan.reasons[0]
    away = coordinators_plan("http://127.0.0.1:1", "alexnet", 9, KINDS)
    assert batches(away) == [5, 4]
    assert "127.0.0.1:1" in away.reasons[0]


def test_raises_what_the_coordinator_refuses(url):
    with pytest.raises(ucudnn.InvalidArgument, match="no network 'none'"):
        coordinators_plan(url, "none", 256, KINDS)
    with pytest.raises(ucudnn.InvalidArgument, match="no device GPU-1; kind="):
        kind_of_gpu(url, "GPU-1")
