import pytest
import torch
import ucudnn
import ucudnn.torch
from torch import nn
from ucudnn.torch.saved.describing import merged

from saved_steps import data, equal, loss_of, settled


@pytest.mark.parametrize("allow", ["recompute", ("offload", "recompute")])
def test_keeps_the_indices_of_pools_in_16_bits(allow):
    def stepping_on(model):
        def step(x, y):
            loss_of(model, x, y).backward()

        return step

    def pooling():
        torch.manual_seed(1)
        return nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32, 10),
        )  # fmt: skip

    def gradients(run, model):
        run(*data())
        return [p.grad for p in model.parameters()]

    plain = pooling()
    expected = gradients(stepping_on(plain), plain)
    model = pooling()
    step = stepping_on(model)
    whole = settled(step, *data(), budget="1GiB", quiet=True)
    assert whole.narrowed == []
    share = 0.9 if allow == "recompute" else 0.7
    plan = settled(
        step, *data(), budget=int(whole.plain_peak * share), allow=allow, quiet=True
    )
    assert len(plan.narrowed) == 2 and "2 are kept in fewer bits" in str(plan)
    assert plan.plain_peak == whole.plain_peak
    assert equal(gradients(plan, model), expected)
    told = plan.check(steps=1)
    assert told.measured_peak <= told.predicted_peak <= plan.budget


@pytest.mark.parametrize(
    "side, bytes", [(256, 2), (288, 4)]
)
def test_pools_on_large_planes_keep_as_few_bits_as_they_can(side, bytes):
    model = nn.MaxPool2d(2)
    x = torch.randn(1, 1, side, side, requires_grad=True)

    def step():
        model(x).sum().backward()

    whole = settled(step, budget="1GiB", device="cpu", quiet=True)
    plan = settled(
        step, budget=whole.plain_peak - 1, device="cpu", quiet=True
    )
    assert len(plan.narrowed) == 1
    size = (side // 2) ** 2 * (8 - bytes)
    assert whole.plain_peak - plan.predicted_peak == size


def test_merges_segments_between_which_nothing_planned_happens():
    step = {
        "segments": [
            {
                "time_us": 1 << s,
                "bytes": (s + (20 if s in (6, 7) else 0)) << 10,
                "backward": s >= 7,
            }
            for s in range(12)
        ],
        "tensors": [{"bytes": 8 << 10, "hook": 3, "held": 5, "uses": [8, 9]}],
        "link": {"d2h_bytes_per_us": 1, "h2d_bytes_per_us": 1},
    }
    told, hooks = merged(step)
    # It is saved by hook 3, let go of at 5, and needed from 7 on and until 9.
    assert hooks == [0, 3, 5, 7, 8, 9]
    assert [s["time_us"] for s in told["segments"]] == [1, 14, 48, 192, 256, 512, 3072]
    assert [s["bytes"] >> 10 for s in told["segments"]] == [0, 3, 5, 27, 8, 9, 11]
    assert [s["backward"] for s in told["segments"]] == [False] * 3 + [True] * 4
    assert told["tensors"] == [{"bytes": 8 << 10, "hook": 1, "held": 2, "uses": [4, 5]}]
    assert told["link"] == step["link"]

    def times(one):
        return [
            ucudnn.solve_recorded_step(one, budget).time_us
            for budget in (1 << 20, 30 << 10)
        ]

    assert times(told) == times(step) and times(step)[0] < times(step)[1]
