"""Decides for each operation of a convolution whether a plan is faster than
PyTorch, by measuring both on operands like the model's."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Callable, Optional

import torch

from ucudnn.convolutions import Convolution, ConvolutionDevice
from ucudnn.errors import Error
from ucudnn.torch.convolution.calls import DATA, FILTER, FORWARD, Call
from ucudnn.torch.convolution.planned import PlannedCall
from ucudnn.torch.timing import Time, besides, times_of

# A plan is taken if it is faster by more than this and the noise.
_LEAST_GAIN = 0.02
# A plan whose result is further off PyTorch's, relative to the largest element,
# is wrong. Accuracy is the planner's concern, and PyTorch's own algorithms are up
# to 1e-2 apart.
_MOST_APART = 0.05
# Operations that take less of the convolutions' time are not planned.
_LEAST_SHARE = 0.005

FULL = "out of memory while measuring"

Key = tuple[Call, str]


@dataclass
class Operation:
    """One operation of one layer. Times are in milliseconds."""

    name: str  # "forward", "backward_data" or "backward_filter"
    torch: Time
    planned: Optional[Time] = None  # none if there is no plan
    plan: Optional[Convolution] = None
    why: str = ""  # why it stays PyTorch's; empty: it was planned
    # Bytes of PyTorch's workspace if they exceed a limit that is enforced.
    over: int = 0

    @property
    def ms(self) -> float:
        """As it runs now."""
        if self.why or self.planned is None:
            return self.torch.ms
        return self.planned.ms


def _operands(call: Call) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random input, filter and output."""

    def random(shape: tuple[int, ...]) -> torch.Tensor:
        made = torch.empty(
            shape, dtype=call.dtype, device=call.device,
            memory_format=call.layout,
        )  # fmt: skip
        return made.uniform_(-1, 1)

    return random(call.input), random(call.filter), random(call.output)


class Contest:
    """Measures each distinct operation once. What is not being planned after
    `seconds` stays PyTorch's."""

    def __init__(self, device: ConvolutionDevice, seconds: Optional[float]) -> None:
        self._device = device
        self._until = None if seconds is None else time.monotonic() + seconds
        self._torch: dict[Key, Time] = {}
        self._workspaces: dict[Key, int] = {}
        self._planned: dict[tuple[Key, str], Time] = {}
        self._plans: dict[tuple[Key, int], Convolution] = {}

    def torch_time(self, call: Call, name: str) -> Time:
        """PyTorch's own, as it is set up now."""
        key = (call, name)
        if key not in self._torch:
            run = _run_of(PlannedCall(call, {}), name, _operands(call))
            self._torch[key] = times_of({"torch": run}, call.device)["torch"]
        return self._torch[key]

    def torch_workspace(self, call: Call, name: str) -> int:
        """The bytes that PyTorch takes besides operands and result; 0 on a CPU,
        which does not tell."""
        if call.device.type != "cuda":
            return 0
        key = (call, name)
        if key not in self._workspaces:
            run = _run_of(PlannedCall(call, {}), name, _operands(call))
            self._workspaces[key] = besides(call.device, run)
        return self._workspaces[key]

    def decide(self, call: Call, operation: Operation, limit: int) -> None:
        """Plans the operation within `limit`."""
        key = ((call, operation.name), limit)
        if key not in self._plans:
            if self._until is not None and time.monotonic() > self._until:
                operation.why = "the time for planning is up"
                return
            try:
                self._plans[key] = self._device.plan(
                    call.problem(operation.name), call.batch, limit
                )
            except Error as error:
                operation.why = f"no plan: {error}"
                return
        self.compare(call, operation, self._plans[key])

    def divide(self, operations: list[tuple[Call, Operation]], total: int) -> None:
        """Plans all operations within `total` together."""
        asked = [(c.problem(o.name), c.batch) for c, o in operations]
        try:
            plans = self._device.divide(asked, total)
        except Error as error:
            for _, operation in operations:
                operation.why = f"no plan: {error}"
            return
        for (call, operation), plan in zip(operations, plans):
            self.compare(call, operation, plan)

    def compare(self, call: Call, operation: Operation, plan: Convolution) -> None:
        """Both in turns, after the plan's result has been found to be
        PyTorch's."""
        key = ((call, operation.name), f"{plan.text} {plan.workspace}")
        if key not in self._planned:
            try:
                operation.why = self._measure(call, operation.name, plan, key)
            except torch.OutOfMemoryError:
                operation.why = FULL
            if operation.why:
                return
        operation.plan = plan
        operation.torch = self._torch[key[0]]
        operation.planned = self._planned[key]
        if operation.over:
            return
        noise = (
            operation.torch.ms * _LEAST_GAIN
            + operation.torch.spread
            + operation.planned.spread
        )
        if operation.planned.ms >= operation.torch.ms - noise:
            operation.why = f"not faster beyond the noise (±{noise:.3f} ms)"

    def _measure(
        self, call: Call, name: str, plan: Convolution, key: tuple[Key, str]
    ) -> str:
        """Notes both times; returns why the plan is wrong."""
        operands = _operands(call)
        why = _why_wrong(call, name, plan, operands)
        if not why:
            runs = {
                "torch": _run_of(PlannedCall(call, {}), name, operands),
                "plan": _run_of(PlannedCall(call, {name: plan}), name, operands),
            }
            told = times_of(runs, call.device)
            self._torch[key[0]] = told["torch"]
            self._planned[key] = told["plan"]
        return why


def _why_wrong(
    call: Call,
    name: str,
    plan: Convolution,
    operands: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> str:
    """ "" if the plan runs and its result is PyTorch's, as far as algorithms
    agree."""
    taken, weight, out = operands
    first, second = {
        FORWARD: (taken, weight),
        DATA: (out, weight),
        FILTER: (taken, out),
    }[name]
    try:
        told = PlannedCall(call, {name: plan}).run(name, first, second)
    except Error as error:
        return f"the plan does not run: {error}"
    if told is None:
        return "its operands are not aligned"
    expected = _run_of(PlannedCall(call, {}), name, operands)()
    if isinstance(expected, tuple):
        expected = expected[0] if name == DATA else expected[1]
    assert isinstance(expected, torch.Tensor)
    largest = float(expected.abs().max())
    apart = float(told.sub_(expected).abs_().max())
    if apart <= _MOST_APART * largest:
        return ""
    return f"the plan's result is {apart / max(largest, 1e-30):.1e} off PyTorch's"


def worth_planning(operations: list[tuple[Call, Operation]]) -> list[int]:
    """The operations that take enough of the time, or too much workspace; the
    others are told so. First those with too much, the most of them first, since
    nothing else keeps to the limit; then by decreasing time. Equal operations
    share a plan, so their times count together."""
    whole = 0.0
    together: dict[Key, float] = {}
    for call, operation in operations:
        key = (call, operation.name)
        together[key] = together.get(key, 0.0) + operation.torch.ms
        whole += operation.torch.ms
    times = [together[call, operation.name] for call, operation in operations]
    chosen = []
    for index, (_, operation) in enumerate(operations):
        if operation.why == FULL:
            continue
        if times[index] < _LEAST_SHARE * whole and not operation.over:
            operation.why = "it takes too little time to matter"
        else:
            chosen.append(index)
    return sorted(chosen, key=lambda index: (-operations[index][1].over, -times[index]))


def _run_of(
    planned: PlannedCall,
    name: str,
    operands: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> Callable[[], object]:
    taken, weight, out = operands
    if name == FORWARD:
        return lambda: planned.forward(taken, weight, None)
    wanted = [name == DATA, name == FILTER, False]
    return lambda: planned.backward(out, taken, weight, wanted)
