"""Steps of frameworks, as a coordinator keeps them (docs/steps.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Mapping, Union

from ucudnn.files import PathLike, read_bytes
from ucudnn.shown import Shown, Table
from ucudnn.sizes import size_text, time_text

# What docs/steps.md describes: its file, the file's contents, or these parsed.
StepLike = Union[PathLike, bytes, Mapping[str, Any]]


@dataclass(frozen=True)
class MeasuredStep:
    """A whole step on one batch."""

    batch: int
    time_us: float  # of a recorded step: with all tensors on the device
    peak_bytes: int  # 0: unknown


@dataclass(frozen=True)
class StepKind:
    """What is known of one kind of device."""

    device_kind: str
    recorded: bool  # times follow for any budget
    least_batch: int  # that can be computed
    steps: list[MeasuredStep] = field(default_factory=list)
    passes: int = 0  # of shares beyond the last step, where memory ends; 0: it does not
    fingerprint: str = ""  # of what was measured


@dataclass(frozen=True, repr=False)
class FrameworkStep(Shown):
    """A framework's step under a name; lists leave out what was recorded."""

    name: str
    revision: int  # counts the contents of this name
    put_by: str
    updated_ms: int
    kinds: list[StepKind] = field(default_factory=list)

    def _table(self) -> Table:
        rows = [
            (
                kind.device_kind,
                step.batch,
                time_text(step.time_us),
                size_text(step.peak_bytes) if step.peak_bytes else "-",
            )
            for kind in self.kinds
            for step in kind.steps
        ]
        return Table(
            f"Step {self.name}, revision {self.revision}: {len(self.kinds)} kinds",
            ("device kind", "batch", "time", "peak"),
            rows,
        )


def contents_of(step: StepLike) -> bytes:
    if isinstance(step, bytes):
        return step
    if isinstance(step, Mapping):
        return json.dumps(step).encode()
    return read_bytes(step)
