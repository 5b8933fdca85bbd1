"""Finds the normalizations of a model that a ReLU follows, while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional

import torch

from ucudnn.torch.checks import under_hooks
from ucudnn.torch.normalization.calls import (
    NormCall,
    call_of,
    why_not,
    why_not_now,
)
from ucudnn.torch.normalization.pending import Plan, Run, pending_in
from ucudnn.torch.normalization.swapping import put, take


@dataclass
class Found:
    """What followed a module's normalizations, in the order of its runs."""

    calls: List[NormCall] = field(default_factory=list)
    why: str = ""  # why it cannot be fused


class _Trial(Plan):
    """Waits for what follows, and notes it."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._hooked = False  # when the last normalization ran

    def takes(self, module: Any, taken: Any) -> bool:
        why = why_not_now(module, taken)
        self._hooked = under_hooks()
        self.refuse(why)
        return not why

    def fused(
        self, run: Run, addend: Optional[torch.Tensor]
    ) -> Optional[torch.Tensor]:
        if run.counted:
            self.refuse("its result is used more than once")
        if under_hooks() != self._hooked:
            self.refuse("a checkpoint begins or ends before its ReLU")
        self._found.calls.append(call_of(run.taken, addend is not None))
        return None

    def read(self, run: Run, why: str) -> None:
        self.refuse(why)

    def elsewhere(self, run: Run, why: str) -> None:
        self.refuse(why)

    def refuse(self, why: str) -> None:
        self._found.why = self._found.why or why


def find(
    model: torch.nn.Module, example: Any, keywords: Mapping[str, Any]
) -> Dict[str, Found]:
    """Runs the model, whose operators PyTorch computes; tells of the batch
    normalizations that ran, by the names of their modules."""
    told: Dict[str, Found] = {}
    handles: List[Any] = []
    swapped = []
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            # A name for one that does not run is removed at the end.
            found = told[name] = Found(why=why_not(module))
            if not found.why:
                put(module, _Trial(found))
                swapped.append(module)
        elif not isinstance(module, torch.jit.ScriptModule):  # has no hooks
            handles.append(module.register_forward_hook(_leaves(name)))
            if not isinstance(module, torch.nn.ReLU):
                handles.append(module.register_forward_pre_hook(_enters(name)))
    try:
        with torch.enable_grad():
            model(*example, **keywords)
    except RuntimeError as error:
        # Such as a function that takes tensors past PyTorch's functions.
        for found in told.values():
            found.why = found.why or f"what follows it cannot be found: {error}"
    finally:
        for handle in handles:
            handle.remove()
        for module in swapped:
            take(module)
    return {name: found for name, found in told.items() if found.calls or found.why}


def _enters(name: str) -> Callable[..., None]:
    def enters(module: Any, inputs: Any) -> None:
        for one in pending_in(inputs):
            one.value(f"{name} uses its result")

    return enters


def _leaves(name: str) -> Callable[..., None]:
    """Beyond the module that runs a normalization nobody may wait for it: a
    checkpoint or a wrapper could end there."""

    def leaves(module: Any, inputs: Any, output: Any) -> None:
        for one in pending_in(output):
            one.value(f"its result leaves {name}")

    return leaves
