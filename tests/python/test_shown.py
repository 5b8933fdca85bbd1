"""How results look in a terminal and in a notebook."""

import os
from pathlib import Path

import pytest
import ucudnn
from ucudnn.errors import InvalidArgument
from ucudnn.sizes import parse_size, size_text, time_text

DATA = Path(os.environ["UCUDNN_TEST_DATA"])
ALEXNET = DATA / "h200/alexnet_b256_pow2.csv"


def fits_a_screen(text):
    lines = text.splitlines()
    return len(lines) <= 24 and max(map(len, lines)) <= 160


def test_plans_show_their_kernels():
    plan = ucudnn.solve_wr(
        ALEXNET, 256, "64MiB", "powerOfTwo", precision="FP32"
    )
    text = repr(plan)
    assert fits_a_screen(text)
    title, header, first, *_ = text.splitlines()
    assert title.startswith("WorkspacePlan of batch 256: 20.5 ms (1.83x faster")
    assert "optimal" in title and "limit 64 MiB" in title
    assert header.split() == [
        "layer", "op", "micro-batches", "workspace", "time", "undivided",
    ]  # fmt: skip
    assert first.split()[:2] == ["conv1", "forward"]
    assert " × 32, " in text
    html = plan._repr_html_()
    assert html.count("<tr>") == len(plan.kernels) + 1


def test_long_plans_say_how_much_is_left_out():
    resnet = DATA / "h200/resnet50_b32_pow2.csv.gz"
    plan = ucudnn.solve_wr(resnet, 32, "64MiB", precision="FP32")
    assert len(plan.kernels) > 100
    assert fits_a_screen(repr(plan))
    *_, left_out, note = repr(plan).splitlines()
    assert left_out.endswith(f"... and {len(plan.kernels) - 16} more")
    assert note == plan.notes[0]
    assert note in plan._repr_html_()
    assert plan._repr_html_().count("<tr>") == 17


def test_fronts_show_their_divisions():
    front = ucudnn.pareto(
        ALEXNET, 256, "120MiB", "conv2", "forward", precision="FP32"
    )
    assert fits_a_screen(repr(front))
    title = repr(front).splitlines()[0]
    assert title == (
        f"Front of {len(front)} divisions: conv2 forward, batch 256, up to "
        "120 MiB"
    )
    assert "<td>" in front._repr_html_()
    assert isinstance(front, list)
    assert repr(ucudnn.Front()) == "Front of 0 divisions"


def test_profiles_and_times_show_what_was_measured():
    assert repr(ucudnn.Profile.read(ALEXNET)).splitlines()[0] == (
        "Profile of 3852 measurements"
    )
    assert "NVIDIA H200" in repr(ucudnn.Profile.read(ALEXNET))
    times = ucudnn.Times([ucudnn.Time("K80", b, 40.0 * b) for b in (1, 2, 64)])
    assert "1 to 64" in repr(times)
    assert repr(ucudnn.Profile()) == "Profile of 0 measurements"


def test_assignments_and_allocations_show_shares_and_offsets():
    times = ucudnn.Times(
        [ucudnn.Time("<K80>", b, 40.0 * b) for b in (32, 64, 96)]
    )
    assignment = ucudnn.assign(times, 96)
    assert repr(assignment).splitlines()[0].startswith(
        "Assignment of batch 96: 3.84 ms"
    )
    # Names come from files and services.
    assert "<K80>" not in assignment._repr_html_()
    assert "&lt;K80&gt;" in assignment._repr_html_()
    many = [ucudnn.Buffer(str(i), 0, 1, 4) for i in range(99)]
    assert fits_a_screen(repr(ucudnn.solve_allocation(many)))


def test_memory_plans_show_their_largest_blocks():
    plan = ucudnn.solve_memory(DATA / "onnx/alexnet.onnx", 256, "K40", "950MB")
    assert fits_a_screen(repr(plan))
    assert repr(plan).startswith("MemoryPlan of alexnet, batch ")
    assert "906 MiB" in repr(plan).splitlines()[0]
    assert plan._repr_html_().count("<tr>") == 17
    joint = ucudnn.solve_joint_memory(
        DATA / "networks/vgg16.csv", 64, ["K40=2GB", "K40=8GB"], step=32
    )
    assert fits_a_screen(repr(joint))
    assert repr(joint).startswith("JointMemoryPlan of batch 64: ")


@pytest.mark.parametrize(
    "size, text",
    [(0, "0 B"), (1023, "1023 B"), (1 << 20, "1 MiB"), (1536, "1.5 KiB"),
     (100 << 20, "100 MiB"), (1_560_000_000, "1.45 GiB")],
)  # fmt: skip
def test_sizes_are_for_people(size, text):
    assert size_text(size) == text


@pytest.mark.parametrize(
    "text, size",
    [("1.5 GiB", 3 << 29), ("3.6GiB", 3_865_470_566), ("0.3KiB", 307),
     ("1.001GB", 1_001_000_000), ("2.0", 2), ("8mi", 8 << 20), ("4mb", 4_000_000)],
)  # fmt: skip
def test_sizes_are_whole_bytes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["1.5", "1.5B", ".5MiB", "5.MiB", "1e6", "-1", "8M"])
def test_what_is_not_a_size(text):
    with pytest.raises(InvalidArgument, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    "time_us, text",
    [(0, "0 us"), (0.25, "0.25 us"), (999.4, "999 us"), (20512.3, "20.5 ms"),
     (3_000_000, "3 s")],
)  # fmt: skip
def test_times_are_for_people(time_us, text):
    assert time_text(time_us) == text
