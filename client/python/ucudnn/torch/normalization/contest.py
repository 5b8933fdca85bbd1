"""Decides for each normalization of a model whether it is faster fused than by
PyTorch's operators, by measuring both on operands like the model's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch.nn import functional

from ucudnn.convolutions import ConvolutionDevice, Normalization
from ucudnn.errors import Error
from ucudnn.torch.normalization.calls import NormCall
from ucudnn.torch.normalization.finding import Found
from ucudnn.torch.normalization.fused import FusedNorm, NormSumRelu
from ucudnn.torch.normalization.planes import PlaneNorm
from ucudnn.torch.normalization.swapping import Fused
from ucudnn.torch.timing import Time, times_of

# The fused operation is taken if it is faster by more than this and the noise.
_LEAST_GAIN = 0.02
# The most that results may differ: values relative to the largest one, since
# PyTorch rounds between its operators, and gradients relative to their length,
# since a value rounded to 0 passes none on.
_MOST_APART = 0.02
_MOST_APART_GRADIENTS = 0.1
_EPS = 1e-5
# Cycles in which the host enqueues both passes, generously.
_HEAD_START = 3_000_000


@dataclass
class Norm:
    """A batch normalization of the model with what follows it, forward and
    backward. Times are in milliseconds."""

    name: str
    call: Optional[NormCall] = None
    torch: Optional[Time] = None
    fused: Optional[Time] = None
    why: str = ""  # why it stays PyTorch's; empty: it was fused
    runs: int = 1  # in a pass

    def line(self) -> str:
        told = f"{self.name}: {self.call} "
        for time in (self.torch, self.fused):
            told += "" if time is None else f"{time.ms:9.3f} ms"
        return told + (f"  stays PyTorch's: {self.why}" if self.why else "  fused")

    @property
    def ms(self) -> Tuple[float, float]:
        """Of a pass, before and after."""
        before = 0.0 if self.torch is None else self.torch.ms * self.runs
        if self.why or self.fused is None:
            return before, before
        return before, self.fused.ms * self.runs


def lines_of(norms: Sequence[Norm]) -> List[str]:
    """A line for each normalization that could be fused, and one for each reason
    why others could not."""
    lines = [norm.line() for norm in norms if norm.call is not None]
    names: Dict[str, List[str]] = {}
    for norm in norms:
        if norm.call is None:
            names.setdefault(norm.why, []).append(norm.name)
    lines += [f"{', '.join(n)}: PyTorch's: {why}" for why, n in names.items()]
    times = [norm.ms for norm in norms if norm.torch is not None]
    if times:
        before, after = map(sum, zip(*times))
        lines.append(
            f"normalizations, forward and backward: {before:.3f} ms before, "
            f"{after:.3f} ms after"
        )
    return lines


def decide(
    device: ConvolutionDevice, found: Mapping[str, Found]
) -> Tuple[List[Norm], Dict[str, Fused]]:
    """What was found of each module, and the plans of those that gain. Measures each
    distinct normalization once, with memory for about nine tensors of its input's
    size."""
    measured: Dict[NormCall, Tuple[Norm, Optional[FusedNorm]]] = {}
    norms: List[Norm] = []
    plans: Dict[str, Fused] = {}
    for name, one in found.items():
        if one.why:
            norms.append(Norm(name, why=one.why))
            continue
        taken = []
        for call in dict.fromkeys(one.calls):
            if call not in measured:
                measured[call] = _measured(device, call)
            told, fused = measured[call]
            norms.append(replace(told, name=name, runs=one.calls.count(call)))
            if fused is not None and not told.why:
                taken.append(fused)
        if taken:
            plans[name] = Fused(taken)
    return norms, plans


def _measured(
    device: ConvolutionDevice, call: NormCall
) -> Tuple[Norm, Optional[FusedNorm]]:
    norm = Norm("", call)
    try:
        fused = FusedNorm(call, _prepared(device, call))
        runs = _runs_of(call, fused)
        norm.why = _why_wrong(runs["torch"](), runs["fused"]())
        if norm.why:
            return norm, None
        told = times_of(runs, call.device, head_start=_HEAD_START)
    except Error as error:
        norm.why = str(error)
        return norm, None
    except torch.cuda.OutOfMemoryError:
        norm.why = "there is no memory to measure it"
        return norm, None
    norm.torch, norm.fused = told["torch"], told["fused"]
    least = norm.torch.ms * (1 - _LEAST_GAIN) - norm.torch.spread
    if norm.fused.ms + norm.fused.spread >= least:
        norm.why = "fused it is not faster"
    return norm, fused


def _prepared(
    device: ConvolutionDevice, call: NormCall
) -> "Normalization | PlaneNorm":
    if call.form == torch.channels_last:
        return device.normalization(call.element, call.input, call.adds)
    return PlaneNorm(call)


def _runs_of(
    call: NormCall, fused: FusedNorm
) -> Dict[str, Callable[[], List[torch.Tensor]]]:
    """Forward and backward on random operands, which return the result, then
    the gradients."""

    def image() -> torch.Tensor:
        return torch.empty(
            call.input, dtype=call.dtype, device=call.device,
            memory_format=call.form,
        ).normal_()  # fmt: skip

    def channels(value: float) -> torch.Tensor:
        return torch.full((call.input[1],), value, device=call.device)

    taken, gradient = image().requires_grad_(), image()
    addend = image().requires_grad_() if call.adds else None
    weight = channels(0.75).requires_grad_()
    bias = channels(0.25).requires_grad_()
    wanted = [t for t in (taken, addend, weight, bias) if t is not None]
    mean, var = channels(0.0), channels(1.0)

    def by_torch() -> torch.Tensor:
        out = functional.batch_norm(
            taken, mean, var, weight, bias, True, 0.1, _EPS
        )
        if addend is not None:
            out += addend
        return torch.relu_(out)

    def by_plan() -> Any:
        return NormSumRelu.apply(
            taken, addend, weight, bias, mean, var, 0.1, _EPS, fused
        )

    def run_of(forward: Callable[[], Any]) -> Callable[[], List[torch.Tensor]]:
        def run() -> List[torch.Tensor]:
            with torch.enable_grad():
                out = forward()
                told = torch.autograd.grad(out, wanted, gradient)
            return [out.detach(), *told]

        return run

    return {"torch": run_of(by_torch), "fused": run_of(by_plan)}


def _why_wrong(expected: List[torch.Tensor], told: List[torch.Tensor]) -> str:
    first, other = expected[0].float(), told[0].float()
    apart = float((first - other).abs().max() / first.abs().max())
    if not apart <= _MOST_APART:
        return f"fused its result is {apart:.1e} off PyTorch's"
    for first, other in zip(expected[1:], told[1:]):
        first, other = first.float(), other.float()
        apart = float((first - other).norm() / first.norm())
        if not apart <= _MOST_APART_GRADIENTS:
            return f"fused its gradients are {apart:.1e} off PyTorch's"
    return ""
