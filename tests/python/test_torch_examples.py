import os
import re
import subprocess
import sys

import pytest

EXAMPLES = os.path.join(
    os.path.dirname(__file__), "..", "..", "client", "examples", "torch"
)


def run(example, tmp_path, *arguments):
    ran = subprocess.run(
        [sys.executable, os.path.join(EXAMPLES, example), *arguments],
        env=dict(os.environ, UCUDNN_CACHE_DIR=str(tmp_path), OMP_NUM_THREADS="1"),
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran


@pytest.mark.parametrize("budget", [[], ["1KiB"]])
def test_memory_runs_as_it_stands(budget, tmp_path):
    """Within the least budget, if there is no plan within the one that is asked for."""
    ran = run("memory.py", tmp_path, *budget)
    assert re.search(r"^budget \S+ MiB: peak \S+ MiB instead of", ran.stdout, re.M)
    assert re.search(r"^step: .* measured; peak: .* measured$", ran.stdout, re.M)
    losses = [float(x) for x in re.findall(r"loss (\S+)", ran.stdout)]
    assert len(losses) == 5 and losses[-1] < losses[0]


def test_convert_runs_as_it_stands(tmp_path):
    ran = run("convert.py", tmp_path)
    assert re.search(r"^0: 16x3x32x32 \* 32x3x3x3, (FP|TF)32 NCHW$", ran.stdout, re.M)
    assert re.search(r"^convolutions: .* ms before, .* ms after$", ran.stdout, re.M)
    losses = [float(x) for x in re.findall(r"loss (\S+)", ran.stdout)]
    assert len(losses) == 5 and losses[-1] < losses[0]
