import csv
import io
import os
import subprocess

import pytest
import torch
import ucudnn
import ucudnn.torch
from torch import nn
from torch.nn import functional

PLAIN = "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups"


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_describes_convolutions_in_their_order():
    model = nn.Sequential(
        nn.Conv2d(3, 8, (3, 5), stride=2, padding=(1, 2)),
        nn.BatchNorm2d(8),
        nn.MaxPool2d(2),
        nn.Sequential(nn.Conv2d(8, 4, 1, groups=4, bias=False)),
        nn.Flatten(),
        nn.Linear(4 * 4 * 5, 2),
    )
    before = {n: t.clone() for n, t in model.state_dict().items()}
    told = ucudnn.torch.network(model, torch.ones(2, 3, 16, 20))
    assert told.splitlines() == [
        PLAIN, "0,3,16,20,8,3,5,1,2,2,2,1", "3.0,8,4,5,4,1,1,0,0,1,1,4"
    ]  # fmt: skip
    after = model.state_dict()
    assert all(torch.equal(after[name], t) for name, t in before.items())
    assert not model[3][0]._forward_hooks


def test_needs_no_memory():
    with torch.no_grad():
        wide = nn.Conv2d(1 << 20, 1 << 20, 3, padding=1, device="meta")
    told = ucudnn.torch.network(wide, torch.empty(1 << 20, 1 << 20, 9, 9,
                                                  device="meta"))  # fmt: skip
    (row,) = rows_of(told)
    assert row["K"] == "1048576"
    assert row["name"] == "convolution"


class Odd(nn.Module):
    """One module that runs twice, functional calls, tied weights, an input that
    is used late, and a tensor of its own."""

    def __init__(self):
        super().__init__()
        self.twice = nn.Conv2d(4, 4, 3, padding="same", dilation=2)
        self.up = nn.ConvTranspose2d(4, 6, 2, stride=2)
        self.tied = nn.Conv2d(4, 4, 3)
        self.tied.weight = self.twice.weight

    def forward(self, x, *, late):
        x = self.twice(self.twice(x)) * torch.ones(4, 1, 1)
        x = functional.conv2d(x, self.tied.weight)
        return self.up(x).sum() + self.twice(late).sum()


def test_follows_what_runs():
    told = ucudnn.torch.network(
        Odd(), torch.ones(1, 4, 10, 10), late=torch.ones(1, 4, 7, 7)
    )
    rows = rows_of(told)
    assert [row["name"] for row in rows] == [
        "twice", "twice#2", "convolution", "up", "twice#3"
    ]  # fmt: skip
    assert [row["dilation_h"] for row in rows] == ["2", "2", "1", "1", "2"]
    assert [row["needs_input_gradient"] for row in rows] == list("01110")
    # From the 16 x 16 output to the 8 x 8 input.
    up = rows[3]
    assert (up["transposed"], up["C"], up["H"], up["K"]) == ("1", "6", "16", "4")
    assert rows[0]["pad_h"] == "2"


def test_describes_one_and_three_dimensions():
    told = rows_of(
        ucudnn.torch.network(
            nn.Sequential(nn.Conv1d(2, 3, 5, padding=2), nn.Conv1d(3, 3, 1)),
            torch.ones(1, 2, 30),
        )
    )
    assert [told[0][c] for c in ("H", "W", "R", "S", "pad_h", "pad_w")] == [
        "1", "30", "1", "5", "0", "2"
    ]  # fmt: skip
    deep = nn.Conv3d(1, 2, (3, 1, 1), stride=(2, 1, 1), padding=(1, 0, 0))
    (row,) = rows_of(ucudnn.torch.network(deep, torch.ones(1, 1, 8, 6, 4)))
    assert [row[c] for c in ("D", "T", "pad_d", "stride_d", "H", "R")] == [
        "8", "3", "1", "2", "6", "1"
    ]  # fmt: skip


def test_is_read_by_the_planner(tmp_path):
    program = os.environ.get("UCUDNN_BIN_DIR", "") + "/ucudnn"
    told = ucudnn.torch.network(
        Odd(), torch.ones(1, 4, 10, 10), late=torch.ones(1, 4, 7, 7)
    )
    file = tmp_path / "odd.csv"
    file.write_text(told)
    done = subprocess.run(
        [program, "networks", "convert", str(file)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == told


class Choosy(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Identity()
        self.inner.forward = lambda x: x if x.sum() > 0 else -x

    def forward(self, x):
        return self.inner(x)


def test_refuses_what_cannot_run_without_values():
    with pytest.raises(ucudnn.InvalidArgument, match="network: inner: .*[Mm]eta"):
        ucudnn.torch.network(Choosy(), torch.ones(1))
    with pytest.raises(ucudnn.InvalidArgument, match="ran no convolution"):
        ucudnn.torch.network(nn.Linear(2, 2), torch.ones(1, 2))
    with pytest.raises(ucudnn.InvalidArgument, match="network: the model: "):
        ucudnn.torch.network(nn.Conv2d(3, 3, 3), torch.ones(1, 4, 9, 9))
