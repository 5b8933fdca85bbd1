import os
import sys
from pathlib import Path

import pytest
import ucudnn

ALEXNET = Path(os.environ["UCUDNN_TEST_DATA"]) / "h200/alexnet_b256_pow2.csv"


def overlaps(artists):
    """Pairs of texts that cover each other."""
    boxes = [artist.get_window_extent() for artist in artists]
    return [
        (a.get_text(), b.get_text())
        for i, (a, box) in enumerate(zip(artists, boxes))
        for b, other in zip(artists[:i], boxes[:i])
        if box.overlaps(other)
    ]


def test_draws_fronts_with_numbers_that_a_key_explains(tmp_path):
    front = ucudnn.pareto(
        ALEXNET, 256, "64MiB", "conv2", "forward", precision="FP32"
    )
    axes = ucudnn.plot_pareto(front)
    axes.figure.savefig(tmp_path / "front.png")
    assert axes.get_title(loc="left") == (
        "conv2 forward, batch 256, up to 64 MiB"
    )
    *numbers, key = axes.texts[1:]
    assert axes.texts[0].get_text() == "limit"
    assert [text.get_text() for text in numbers] == [
        str(i + 1) for i in range(len(numbers))
    ]
    assert len(key.get_text().splitlines()) == len(numbers) <= len(front)
    assert "8 × 32, WINOGRAD_NONFUSED" in key.get_text()
    assert not overlaps([*numbers, key])
    assert (tmp_path / "front.png").stat().st_size > 1000


def test_names_only_points_of_a_crowded_front_that_are_apart():
    micro = ucudnn.MicroBatch(1, 1, "FFT", "FMA", 1.0, 0)
    front = [
        ucudnn.FrontPoint(1000.0 - i, i << 14, [micro]) for i in range(500)
    ]
    axes = ucudnn.plot_pareto(front)
    *numbers, _ = axes.texts
    assert 2 <= len(numbers) <= 20
    assert not overlaps(numbers)
    assert axes.get_title(loc="left") == "Pareto front"
    assert ucudnn.plot_pareto([]).texts[-1].get_text() == ""


def test_draws_plans_with_their_divisions(tmp_path):
    plan = ucudnn.solve_wr(ALEXNET, 256, "64MiB", precision="FP32")
    axes = ucudnn.plot_plan(plan)
    axes.figure.savefig(tmp_path / "plan.svg")
    assert len(axes.patches) == 2 * len(plan.kernels)
    assert axes.get_title(loc="left") == (
        "batch 256, limit 64 MiB: 20.5 ms, undivided 37.5 ms"
    )
    assert not overlaps(axes.texts)
    right = axes.get_window_extent().x1
    assert all(text.get_window_extent().x1 <= right for text in axes.texts)


def test_draws_the_longest_kernels_of_a_long_plan():
    resnet = ALEXNET.parent / "resnet50_b32_pow2.csv.gz"
    plan = ucudnn.solve_wr(resnet, 32, "64MiB", precision="FP32")
    axes = ucudnn.plot_plan(plan)
    shown = len(axes.get_yticklabels())
    assert shown == 48
    assert f"the longest {shown} of {len(plan.kernels)}" in axes.get_title(
        loc="left"
    )
    assert axes.figure.get_size_inches()[1] < 20


def test_says_that_matplotlib_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ucudnn.Error, match="python3-matplotlib"):
        ucudnn.plot_pareto([])
