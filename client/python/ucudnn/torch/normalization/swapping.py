"""Puts fused normalizations into a model's modules, and takes them out."""

from __future__ import annotations

import copyreg
import warnings
from typing import Any, Dict, Iterable, Optional

import torch

from ucudnn.errors import Error
from ucudnn.torch.convolution.observed import is_observed
from ucudnn.torch.convolution.planned import ALIGNMENT
from ucudnn.torch.normalization.calls import (
    NormCall,
    call_of,
    is_checkpointed,
    why_not_now,
)
from ucudnn.torch.normalization.fused import FusedNorm, NormSumRelu
from ucudnn.torch.normalization.pending import Pending, Plan, Run


class Waiting(torch.nn.BatchNorm2d):
    """Waits for what follows it where its plan says so, and is a plain one
    elsewhere. A copy or a pickled one is a plain one."""

    _ucudnn_norm: Optional[Plan] = None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        plan = self._ucudnn_norm
        if plan is None or is_observed() or not plan.takes(self, input):
            return super().forward(input)
        batches = self._buffers["num_batches_tracked"]
        if batches is not None:
            batches.add_(1)
        return Pending(Run(self, input, plan))

    def __reduce_ex__(self, protocol: Any) -> Any:
        state = dict(self.__dict__)
        del state["_ucudnn_norm"]
        # Loads without ucudnn.
        build = copyreg._reconstructor  # type: ignore[attr-defined]
        return build, (torch.nn.BatchNorm2d, object, None), state


# Whoever asks for the class of a module sees the one that it was.
Waiting.__module__ = torch.nn.BatchNorm2d.__module__
Waiting.__name__ = Waiting.__qualname__ = torch.nn.BatchNorm2d.__name__


class Fused(Plan):
    """Runs what was prepared, for the shapes that it was prepared for."""

    def __init__(self, norms: Iterable[FusedNorm]) -> None:
        self._norms: Dict[NormCall, FusedNorm] = {n.call: n for n in norms}
        self._inputs = {call.input for call in self._norms}

    def takes(self, module: Any, taken: Any) -> bool:
        return taken.shape in self._inputs and not why_not_now(module, taken)

    def fused(
        self, run: Run, addend: Optional[torch.Tensor]
    ) -> Optional[torch.Tensor]:
        norm = self._norms.get(call_of(run.taken, addend is not None))
        if is_checkpointed():
            self.elsewhere(run, "its ReLU runs in a checkpoint")
        if norm is None or run.counted or not _aligned(run.taken, addend):
            return None
        try:
            out: torch.Tensor = NormSumRelu.apply(
                run.taken, addend, *run.tensors, run.momentum, run.eps, norm
            )
        except torch.cuda.OutOfMemoryError:
            return None
        except Error as error:
            warnings.warn(
                f"ucudnn: {norm.call}: the fused normalization does not run, "
                f"PyTorch's does: {error}",
                stacklevel=2,
            )
            return None
        run.counted = True
        return out

    def unused(self, run: Run) -> None:
        with torch.no_grad():
            run.plain()

    def elsewhere(self, run: Run, why: str) -> None:
        raise RuntimeError(
            f"ucudnn: a fused normalization: {why}; revert() what convert "
            "returned, or convert without normalizations"
        )


def _aligned(*tensors: Optional[torch.Tensor]) -> bool:
    return all(one is None or one.data_ptr() % ALIGNMENT == 0 for one in tensors)


def put(module: torch.nn.Module, plan: Plan) -> None:
    take(module)
    module.__dict__["_ucudnn_norm"] = plan
    module.__class__ = Waiting


def take(module: torch.nn.Module) -> None:
    """The module as before `put`."""
    module.__dict__.pop("_ucudnn_norm", None)
    # Not if it was given another class, as a parametrization does.
    if type(module) is Waiting:
        module.__class__ = torch.nn.BatchNorm2d
