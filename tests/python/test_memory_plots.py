import os
from pathlib import Path

import matplotlib.figure
import pytest
import ucudnn

ALEXNET = Path(os.environ["UCUDNN_TEST_DATA"]) / "onnx/alexnet.onnx"


@pytest.fixture(name="plan", scope="module")
def plan_with_transfers():
    plan = ucudnn.solve_memory(ALEXNET, 256, "K40", "1GB", policy="vdnn-ext")
    assert plan.offloaded_bytes > 0
    return plan


def test_draws_a_rectangle_for_each_life(plan, tmp_path):
    axes = ucudnn.plot_arena(plan)
    corners = [
        path.vertices
        for collection in axes.collections
        for path in collection.get_paths()
    ]
    lives = plan.lives()
    assert len(corners) == len(lives)
    drawn = {
        tuple(xy.round(6) for xy in (*c.min(axis=0), *c.max(axis=0)))
        for c in corners
    }
    mib = 1 << 20
    assert drawn == {
        (
            round(life.start_us / 1000, 6),
            round(life.offset / mib, 6),
            round(life.end_us / 1000, 6),
            round((life.offset + life.bytes) / mib, 6),
        )
        for life in lives
    }
    assert axes.get_xlim() == (0, plan.time_us / 1000)
    assert axes.get_ylim() == (0, pytest.approx(1.05 * plan.budget_bytes / mib))
    assert "/classifier/classifier.1/Gemm.W" in {t.get_text() for t in axes.texts}
    assert "alexnet, batch 256, vdnn-ext: " in axes.get_title(loc="left")
    axes.figure.savefig(tmp_path / "arena.png")
    assert (tmp_path / "arena.png").stat().st_size > 1000


def test_stacks_live_bytes_above_the_transfers(plan, tmp_path):
    memory, transfers = ucudnn.plot_memory(plan)
    (budget,) = memory.lines
    assert list(budget.get_ydata()) == [plan.budget_bytes / (1 << 20)] * 2
    top = max(
        path.vertices[:, 1].max()
        for collection in memory.collections
        for path in collection.get_paths()
    )
    assert top == pytest.approx(plan.load_bytes / (1 << 20))
    assert memory.get_xlim() == transfers.get_xlim() == (0, plan.time_us / 1000)
    rows = [label.get_text() for label in transfers.get_yticklabels()]
    assert rows == ["tasks", "to the host", "from the host"]
    bars = [len(c.get_paths()) for c in transfers.collections]
    assert bars == [
        sum(event.op == op for event in plan.events)
        for op in ("compute", "offload", "prefetch")
    ]
    memory.figure.savefig(tmp_path / "memory.svg")
    labels = {t.get_text() for t in memory.get_legend().get_texts()}
    assert {"weights", "activations", "budget"} <= labels


def test_shows_updates_on_the_host(plan):
    shared = ucudnn.solve_memory(
        ALEXNET, 256, "K40", "950MB", policy="modnn", gpus=2
    )
    _, rows = ucudnn.plot_memory(shared)
    assert "tasks on the host" in {t.get_text() for t in rows.get_yticklabels()}


def test_draws_plans_whose_blocks_have_no_kind(plan):
    unknown = plan.to_json()
    for block in unknown["resident"] + unknown["rounds"][0]["events"]:
        block.pop("kind", None)
    axes = ucudnn.plot_arena(ucudnn.MemoryPlan.from_json(unknown))
    drawn = sum(len(c.get_paths()) for c in axes.collections)
    assert drawn == len(plan.lives())


def test_leaves_a_distant_budget_out_of_the_picture(plan):
    roomy = ucudnn.solve_memory(ALEXNET, 256, "K40", policy="baseline")
    axes = ucudnn.plot_arena(roomy)
    assert not axes.lines
    peak = roomy.peak_bytes / (1 << 30)
    assert axes.get_ylim() == (0, pytest.approx(1.05 * peak))
    assert axes.get_ylabel() == "offset (GiB)"


def test_draws_on_given_axes(plan):
    figure = matplotlib.figure.Figure()
    above, below = figure.subplots(2, 1)
    assert ucudnn.plot_memory(plan, (above, below)) == (above, below)
    assert ucudnn.plot_arena(plan, above) is above
