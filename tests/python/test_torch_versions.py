import importlib

import torch
import ucudnn.torch


def test_an_untried_pytorch_is_one_warning(monkeypatch, caplog):
    monkeypatch.setattr(torch, "__version__", "9.8.7+cpu")
    for _ in range(2):
        importlib.reload(ucudnn.torch)
    (told,) = caplog.messages
    assert "PyTorch 9.8" in told and "2.13" in told
