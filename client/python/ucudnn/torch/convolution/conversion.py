"""What convert did to a model: times, reasons, and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator, Optional

import torch

from ucudnn.torch.convolution.calls import Call
from ucudnn.torch.convolution.contest import Operation
from ucudnn.torch.convolution.planned import PlannedCall
from ucudnn.torch.convolution.swapping import put, take
from ucudnn.torch.timing import Time

_NAMES = {
    "forward": "forward",
    "backward_data": "data gradient",
    "backward_filter": "filter gradient",
}


@dataclass
class Layer:
    """A convolution of the model, in the order in which they run."""

    name: str
    call: Optional[Call] = None
    operations: list[Operation] = field(default_factory=list)
    why: str = ""  # why it cannot be planned

    def lines(self) -> Iterator[str]:
        if self.call is None:
            yield f"{self.name}: stays PyTorch's: {self.why}"
            return
        yield f"{self.name}: {self.call}"
        for operation in self.operations:
            if not operation.torch.ms:
                yield f"  {_NAMES[operation.name]}: stays PyTorch's: {operation.why}"
                continue
            before = f"  {_NAMES[operation.name]:<16}{operation.torch.ms:9.3f} ms"
            after = operation.planned
            if after is None:
                yield f"{before}  stays PyTorch's: {self.why or operation.why}"
            elif operation.why or self.why:
                why = self.why or operation.why
                yield f"{before}{after.ms:9.3f} ms  stays PyTorch's: {why}"
            else:
                assert operation.plan is not None
                size = operation.plan.workspace / 2**20
                instead = ""
                if operation.over:
                    instead = f" instead of {operation.over / 2**20:.1f}"
                yield (
                    f"{before}{after.ms:9.3f} ms  {operation.plan.text}, "
                    f"{size:.1f} MiB{instead}"
                )


class Conversion:
    """What `convert` did. `layers` has each convolution's times and reasons,
    `before` and `after` the whole pass, forward and backward, in milliseconds.
    """

    def __init__(self, model: torch.nn.Module, layers: list[Layer]) -> None:
        self.layers = layers
        self.before: Optional[Time] = None
        self.after: Optional[Time] = None
        self.why = ""  # why nothing was converted
        self._modules = dict(model.named_modules())
        self._calls: dict[str, list[PlannedCall]] = {}
        for layer in layers:
            plans = {
                o.name: o.plan
                for o in layer.operations
                if o.plan is not None and not o.why
            }
            if layer.call is not None and plans and not layer.why:
                calls = self._calls.setdefault(layer.name, [])
                if all(layer.call != one.call for one in calls):
                    calls.append(PlannedCall(layer.call, plans))
                    calls[-1].remember()

    @property
    def converted(self) -> list[str]:
        """The names of the modules that run plans."""
        return [] if self.why else list(self._calls)

    @property
    def workspace(self) -> int:
        """The largest workspace of a plan, in bytes."""
        sizes = [
            plan.workspace
            for calls in self._calls.values()
            for call in calls
            for plan in call.plans.values()
        ]
        return 0 if self.why else max(sizes, default=0)

    @property
    def enforced(self) -> bool:
        """Whether a plan runs for the sake of its workspace."""
        return any(
            operation.over and not operation.why and not layer.why
            for layer in self.layers
            for operation in layer.operations
        )

    def apply(self) -> None:
        """Runs the plans, after `revert`."""
        for name, calls in self._calls.items():
            put(self._modules[name], tuple(calls))

    def revert(self) -> None:
        """Makes the model what it was."""
        for name in self._calls:
            take(self._modules[name])

    def keep_if_faster(self) -> None:
        """Reverts if the whole pass, as measured, is not faster."""
        if self.before is None or self.after is None:
            return
        if self.after.ms >= self.before.ms:
            self.revert()
            self.why = "its whole pass is not faster with the plans"

    def __str__(self) -> str:
        lines = [f"{'':<18}{'PyTorch':>12}{'planned':>12}"] if self.layers else []
        lines += [line for layer in self.layers for line in layer.lines()]
        before = sum(o.torch.ms for layer in self.layers for o in layer.operations)
        after = sum(
            o.torch.ms if layer.why else o.ms
            for layer in self.layers
            for o in layer.operations
        )
        lines.append(f"convolutions: {before:.3f} ms before, {after:.3f} ms after")
        if self.before is not None and self.after is not None:
            lines.append(
                f"forward and backward pass: {self.before.ms:.3f} ms before, "
                f"{self.after.ms:.3f} ms after"
            )
        if self.why:
            lines.append(f"the model stays PyTorch's: {self.why}")
        return "\n".join(lines)
