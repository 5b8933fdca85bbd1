"""The operators by which compiled graphs have values leave for the host."""

import pytest
import torch

from ucudnn.torch.compiled import offloading

operators = torch.ops.ucudnn


@pytest.mark.parametrize(
    "value",
    [
        torch.randn(3, 4),
        torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
        torch.randn(3, 8)[:, :5],  # rows with gaps, as Inductor's
        torch.randn(5, 4)[2:],
        torch.arange(6).expand(4, 6),
        torch.randn(0, 4),
    ],
    ids=["contiguous", "channels last", "gaps", "offset", "expanded", "empty"],
)
def test_values_return_as_they_left(value):
    offloading.seen_on_host.clear()
    expected = value.clone()
    host = operators.left(operators.leave(value), value)
    assert host.data_ptr() != value.data_ptr() or not value.numel()
    assert host.data_ptr() in offloading.seen_on_host
    value.set_()  # it is gone
    again = operators.arrived(operators.fetch(host, value.device), host)
    assert torch.equal(again, expected)
    assert again.stride() == host.stride()
    assert again.data_ptr() != host.data_ptr() or not expected.numel()
