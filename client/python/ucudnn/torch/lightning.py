"""A callback for Lightning, whose Trainer then trains within a budget of memory:

>>> trainer = Trainer(callbacks=[ucudnn.torch.lightning.WithinBudget("16GiB")])

Not imported by ucudnn.torch, because it needs Lightning.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from ucudnn.sizes import Size
from ucudnn.torch.compiled.backend import compile, plan_of
from ucudnn.torch.compiled.plans import CompiledPlan

# What Dynamo cannot look into (tried with Lightning 2.6, PyTorch 2.13).
_NOT_COMPILED = ("log", "log_dict")


class WithinBudget(Callback):
    """Compiles the module's `training_step` while it is fitted, as
    ucudnn.torch.compile does with these arguments. Validation stays as it is. Raises
    what that does."""

    def __init__(self, budget: Optional[Size] = None, **options: Any) -> None:
        # Steps have the batch's number, and shapes vary.
        self._options = {"budget": budget, "dynamic": None, **options}
        self._compiled: Optional[Callable[..., Any]] = None

    @property
    def plan(self) -> CompiledPlan:
        """Of the last shapes, once a step has run."""
        return plan_of(self._compiled)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._compiled = compile(pl_module.training_step, **self._options)
        pl_module.training_step = self._compiled
        for name in _NOT_COMPILED:
            setattr(pl_module, name, torch.compiler.disable(getattr(pl_module, name)))

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        _restore(pl_module)

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        _restore(pl_module)


def _restore(module: LightningModule) -> None:
    for name in ("training_step", *_NOT_COMPILED):
        vars(module).pop(name, None)
