import os
import sys
from pathlib import Path

import pytest

import ucudnn

ALEXNET = Path(os.environ["UCUDNN_TEST_DATA"]) / "h200/alexnet_b256_pow2.csv"


def test_draws_fronts_and_plans(tmp_path):
    pytest.importorskip("matplotlib")
    front = ucudnn.pareto(
        ALEXNET, 256, "64MiB", "conv2", "forward", precision="FP32"
    )
    axes = ucudnn.plot_pareto(front)
    assert len(axes.texts) == len(front)
    axes.figure.savefig(tmp_path / "front.png")
    plan = ucudnn.solve_wr(ALEXNET, 256, "64MiB", precision="FP32")
    axes = ucudnn.plot_plan(plan)
    assert len(axes.patches) == 2 * len(plan.kernels)
    axes.figure.savefig(tmp_path / "plan.svg")
    assert (tmp_path / "front.png").stat().st_size > 1000


def test_says_that_matplotlib_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ucudnn.Error, match="python3-matplotlib"):
        ucudnn.plot_pareto([])
