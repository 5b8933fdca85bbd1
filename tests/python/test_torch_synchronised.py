
import torch
from torch import nn
from ucudnn.torch.parallel.synchronised import weigh_synchronised


def test_leaves_gradients_alone_that_are_none():
    """As PyTorch 2 gives them on a rank without images."""
    layer = nn.SyncBatchNorm(3)
    weigh_synchronised(layer, lambda: 0.0)
    for parameter in layer.parameters():
        (hook,) = parameter._backward_hooks.values()
        assert hook(None) is None
        assert torch.equal(hook(torch.ones(3)), torch.zeros(3))
