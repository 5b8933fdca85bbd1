"""The modules of a model, and which of them is running."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel


class Places:
    """Follows a model's modules while it runs."""

    def __init__(self) -> None:
        self._modules: list[str] = []

    @property
    def now(self) -> str:
        """The name of the module that runs; "" for the model itself."""
        return (self._modules or [""])[-1]

    @contextlib.contextmanager
    def following(self, model: torch.nn.Module) -> Iterator[None]:
        """Within it the running module is known. For modules of TorchScript, which
        have no hooks, it is the one that runs them."""
        handles = []
        for name, module in model.named_modules():
            if isinstance(module, torch.jit.ScriptModule):
                continue
            handles.append(module.register_forward_pre_hook(self._enter(name)))
            handles.append(module.register_forward_hook(self._leave))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, name: str) -> Callable[..., None]:
        def enter(module: Any, inputs: Any) -> None:
            self._modules.append(name)

        return enter

    def _leave(self, module: Any, inputs: Any, output: Any) -> None:
        self._modules.pop()


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The model that torch.compile, DDP or DataParallel wrapped, or several of
    them."""
    while True:
        if type(model).__name__ == "OptimizedModule":
            model = model._orig_mod
        elif isinstance(model, (DataParallel, DistributedDataParallel)):
            model = model.module
        else:
            return model
