"""The papers' figures from the committed data."""

import os
import re
import subprocess
import sys
from pathlib import Path

import ucudnn.figures.data
from ucudnn import figures, style

ROOT = Path(os.environ["UCUDNN_TEST_DATA"]).parent.parent
SHOWN = ROOT / "docs/figures"


def test_every_figure_has_a_function_and_is_shown_and_small():
    page = (SHOWN / "index.md").read_text()
    for name in figures.FIGURES:
        assert f"({name}.svg)" in page
        assert callable(getattr(figures, name.replace("-", "_")))
    files = sorted(file.stem for file in SHOWN.glob("*.svg"))
    assert files == sorted(figures.FIGURES)
    sizes = sum(file.stat().st_size for file in SHOWN.iterdir())
    assert sizes < 30_000 * len(figures.FIGURES)


def test_the_page_shows_each_figure_or_says_why_it_does_not():
    page = (SHOWN / "index.md").read_text()
    named = set()
    for paper, numbers in re.findall(
        r"\b(CLUSTER|IPSJ|vDNN|moDNN),? (?:figures? )?"
        r"((?:\d+(?: to \d+)?(?:, | and )?)+)",
        page,
    ):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", numbers):
            named |= {(paper, n) for n in range(int(first), int(last or first) + 1)}
    for paper, first, last in [
        ("CLUSTER", 1, 13), ("IPSJ", 1, 13), ("vDNN", 4, 10), ("moDNN", 1, 19),
    ]:  # fmt: skip
        missing = {(paper, n) for n in range(first, last + 1)} - named
        assert not missing
    assert "| moDNN 15, 16 | power was not measured |" in page


def test_the_command_draws_what_is_shown(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "ucudnn.figures", "cluster-10", "--root", ROOT,
         "-o", tmp_path, "--format", "svg", "--format", "png"],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert (tmp_path / "cluster-10.png").stat().st_size > 10_000
    drawn = (tmp_path / "cluster-10.svg").read_text()
    shown = (SHOWN / "cluster-10.svg").read_text()
    assert drawn == shown, "drawn by another matplotlib than requirements.txt's?"


def test_shows_the_gain_of_figure_10():
    (axes,) = figures.cluster_10(ROOT).axes
    texts = {text.get_text().strip() for text in axes.texts}
    assert {"256", "64", "1.00x", "3.77x"} <= texts
    assert [t.get_text() for t in axes.get_yticklabels()] == [
        "undivided", "powerOfTwo", "all",
    ]  # fmt: skip


def test_figures_leave_out_what_is_too_inaccurate_for_programs():
    measured = ucudnn.figures.data.profile(ROOT, "alexnet_b256_pow2.csv")
    assert measured.where(layer="conv3", algorithm="WINOGRAD_NONFUSED").rows
    assert not measured.where(layer="conv2", algorithm="WINOGRAD_NONFUSED").rows


def test_compares_the_best_with_one_byte_less():
    (axes,) = figures.ipsj_1(ROOT).axes
    best, less = axes.containers
    assert all(b.get_height() <= l.get_height() for b, l in zip(best, less))
    assert max(l.get_height() / b.get_height() for b, l in zip(best, less)) > 5


def test_vdnn_waits_for_offloads_longer_than_vdnnext():
    vdnn, extended = figures.vdnn_8(ROOT).axes
    waits = [
        int(re.search(r"of which (\d+) ms", axes.get_title(loc="left"))[1])
        for axes in (vdnn, extended)
    ]
    assert waits[0] > waits[1] > 0


def test_small_sub_batches_take_longer_on_a_measured_gpu():
    (axes,) = figures.modnn_14(ROOT).axes
    *networks, paper = axes.get_lines()
    assert paper.get_ydata()[0] == 3.74
    for line in networks:
        sizes, times = list(line.get_xdata()), list(line.get_ydata())
        assert sizes[0] > sizes[-1] == 1 and times[0] == 1
        assert times[-1] == max(times) > 2


def test_bars_tell_their_heights_and_leave_out_what_is_absent():
    axes = style.new_figure().add_subplot()
    style.bars(
        axes,
        ["one", "two"],
        [("a", style.BLUE, [1.0, None]), ("b", style.GREY, [2.0, 3.0])],
        "{:.1f}",
    )
    assert [text.get_text() for text in axes.texts] == ["1.0", "2.0", "3.0"]
    assert [len(group) for group in axes.containers] == [1, 2]


def test_refuses_unknown_names(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "ucudnn.figures", "cluster-1", "-o", tmp_path],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert "no figure cluster-1; cluster-6" in done.stderr
