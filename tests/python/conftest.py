import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RANKS = 2


@pytest.fixture
def eager(monkeypatch):
    """Conversions take every plan, however slow, as if each gained."""
    from ucudnn.torch.convolution import contest, converting

    monkeypatch.setattr(contest, "_LEAST_GAIN", -1e9)
    monkeypatch.setattr(contest, "_LEAST_SHARE", 0.0)
    monkeypatch.setattr(
        converting, "_compare_passes", lambda done, *rest: done.apply()
    )


@pytest.fixture(scope="module")
def ranks(request, tmp_path_factory):
    """What each of two ranks saw, by scenario of the test module's SCRIPT."""
    folder = tmp_path_factory.mktemp("ranks")
    script = str(Path(__file__).with_name(request.module.SCRIPT))
    environment = dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    processes = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(RANKS), str(folder)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(RANKS)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=150)[0] for process in processes]
    assert all(process.returncode == 0 for process in processes), outputs
    return [
        json.loads((folder / f"{rank}.json").read_text())
        for rank in range(RANKS)
    ]


@pytest.fixture(name="told")
def reported_by_both(ranks, request):
    """What both ranks saw of the scenario that the test is named after."""
    scenario = request.node.name.partition("test_")[2]
    reports = [rank.get(scenario, "the ranks did not get so far") for rank in ranks]
    for value in reports:
        if isinstance(value, str) and "Traceback" in value:
            pytest.fail(value)
    return reports
