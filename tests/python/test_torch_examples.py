import os
import re
import subprocess
import sys

import pytest
import torch

from ucudnn.torch import plan_of

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
    losses = [float(x) for x in re.findall(r"loss (\S+)", ran.stdout)]
    assert len(losses) == 10 and losses[-1] < losses[0]


def test_convert_runs_as_it_stands(tmp_path):
    ran = run("convert.py", tmp_path)
    assert re.search(r"^0: 16x3x32x32 \* 32x3x3x3, (FP|TF)32 NCHW$", ran.stdout, re.M)
    assert re.search(r"^convolutions: .* ms before, .* ms after$", ran.stdout, re.M)
    losses = [float(x) for x in re.findall(r"loss (\S+)", ran.stdout)]
    assert len(losses) == 5 and losses[-1] < losses[0]


def test_share_budget_runs_on_two_ranks(tmp_path):
    with open(os.path.join(EXAMPLES, "share_budget.py")) as file:
        # Without a compiler of C++, which takes its time.
        source = file.read().replace(
            "device=device, ", 'device=device, options={"compiler": "aot_eager"}, '
        )
    script = tmp_path / "share_budget.py"
    script.write_text(source)
    ran = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone",
         "--nproc-per-node", "2", script],
        env=dict(
            os.environ, UCUDNN_CACHE_DIR=str(tmp_path), OMP_NUM_THREADS="1",
            CUDA_VISIBLE_DEVICES="",
        ),
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    told = re.findall(r"^rank (\d) .*: (\d+) images, .* within (\d+) MiB", ran.stdout, re.M)
    assert sum(int(images) for _, images, _ in told) == 32
    assert [(rank, size) for rank, _, size in told] == [("0", "16"), ("1", "2")]


@pytest.fixture
def frameworks(monkeypatch, tmp_path):
    """Where the examples write, on the CPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("UCUDNN_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize("framework", ["accelerate", "lightning", "trainer"])
def test_frameworks_train_as_without_the_line(framework, frameworks, capsys):
    """Two epochs with a last batch of half the size; Trainer evaluates between."""
    pytest.importorskip("transformers" if framework == "trainer" else framework)
    with open(os.path.join(EXAMPLES, f"{framework}_budget.py")) as file:
        lines = file.read().splitlines()
    (marked,) = [i for i, line in enumerate(lines) if "# the line" in line]
    plain = [*lines[:marked], *lines[marked + 1 :]]
    # Without a compiler of C++, which takes its time.
    lines[marked] = lines[marked].replace('iB"})', 'iB", "compiler": "aot_eager"})')
    lines[marked] = lines[marked].replace('iB")', 'iB", compiler="aot_eager")')
    told = []
    for source in (plain, lines):
        torch._dynamo.reset()
        names = {"__name__": "__main__"}
        exec(compile("\n".join(source), framework, "exec"), names)
        told.append(re.findall(r"^(?:eval_)?loss (\S+)", capsys.readouterr().out, re.M))
    assert len(told[0]) == (8 if framework == "trainer" else 6)
    assert [float(x) for x in told[1]] == pytest.approx([float(x) for x in told[0]], abs=1e-5)
    plan = names["callbacks"][0].plan if framework == "lightning" else plan_of()
    assert plan.recomputed and plan.saved_bytes <= plan.budget_bytes
