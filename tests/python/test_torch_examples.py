import pytest

pytest.importorskip("torch")

import os
import re
import subprocess
import sys

EXAMPLES = os.path.join(
    os.path.dirname(__file__), "..", "..", "client", "examples", "torch"
)


def test_convert_runs_as_it_stands(tmp_path):
    ran = subprocess.run(
        [sys.executable, os.path.join(EXAMPLES, "convert.py")],
        env=dict(os.environ, UCUDNN_CACHE_DIR=str(tmp_path), OMP_NUM_THREADS="1"),
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"^0: 16x3x32x32 \* 32x3x3x3, FP32 NCHW$", ran.stdout, re.M)
    assert re.search(r"^convolutions: .* ms before, .* ms after$", ran.stdout, re.M)
    losses = [float(x) for x in re.findall(r"loss (\S+)", ran.stdout)]
    assert len(losses) == 5 and losses[-1] < losses[0]
