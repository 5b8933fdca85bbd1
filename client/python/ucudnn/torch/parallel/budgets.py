"""The times of a model's steps within a budget of memory, by their plans."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence

import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel

from ucudnn.errors import NoPlan
from ucudnn.sizes import parse_size, size_text
from ucudnn.torch.checks import refuse
from ucudnn.torch.compiled import backend
from ucudnn.torch.compiled.memory import free_budget
from ucudnn.torch.compiled.planning import Choice, Step, between
from ucudnn.torch.compiled.recording import UNBOUNDED, Recorder
from ucudnn.torch.devices import Device
from ucudnn.torch.kept import gradient_bytes, stateful, unchanged
from ucudnn.torch.parallel.synchronised import named_synchronised
from ucudnn.torch.profiling import (
    StepProfile,
    bisected,
    median_ms,
    occupied,
    out_of_memory,
)
from ucudnn.torch.reserve import without_slack

Loss = Callable[[Any, int], torch.Tensor]
_MOST_STEPS = 100  # until a plan is settled
_STATE = 2  # an optimizer's, in sizes of the parameters, if none is given: Adam's


def check_model(model: Any, loss: Any) -> None:
    """Refuses what cannot be planned on one rank alone."""
    if not isinstance(model, torch.nn.Module) or not callable(loss):
        raise refuse(
            "share: model, loss", f"a {type(model).__name__} and {loss!r}",
            "a module, and a function of it and a number of images that returns "
            "their loss, are accepted",
        )  # fmt: skip
    wrapped = isinstance(model, (DataParallel, DistributedDataParallel))
    if wrapped or hasattr(model, "_orig_mod") or "FSDP" in type(model).__name__:
        raise refuse(
            "share: model", f"a {type(model).__name__}",
            "the bare module is accepted; then DistributedDataParallel(shares.model)",
        )  # fmt: skip
    for name, module in model.named_modules():
        kind = type(module).__name__
        if named_synchronised(kind):
            raise refuse(
                "share: model",
                f"{name or 'the model'} is a {kind}, whose passes wait for other "
                "ranks, while one rank of each kind plans",
                "BatchNorm is accepted, or share(step=...) without a budget",
            )


def budget_of(budget: Any, device: Device) -> Optional[int]:
    """A rank's, in bytes. None: as much as there is, on a CPU."""
    if budget is None:
        return free_budget(device.device)
    if not isinstance(budget, Mapping):
        return parse_size(budget)
    if device.kind not in budget:
        known = ", ".join(map(repr, budget)) or "none"
        raise refuse(
            "share: budget", f"none of {device.kind!r}, this rank's kind",
            f"kind= is accepted, one of {known}",
        )  # fmt: skip
    return parse_size(budget[device.kind])


class PlannedSteps:
    """Of one kind of device. Batches between two that were recorded are planned by the
    step between theirs; nothing runs but for single operators, until `tried` measures
    the steps of a batch."""

    def __init__(
        self,
        model: Any,
        loss: Loss,
        optimizer: Optional[torch.optim.Optimizer],
        keep: Iterable[Any],
        budget: Optional[int],
        device: Device,
        most: int,
        options: Mapping[str, Any],
    ) -> None:
        ours, inductor = backend.split_options(
            options, options.get("mode"), options.get("options")
        )
        self.model = backend.compile(
            model, budget=UNBOUNDED if budget is None else budget, **options
        )
        """Compiled within the budget."""
        self._recorder = Recorder(model, ours, inductor)
        if self._recorder.wants_cuda_graphs:
            raise refuse(
                "share: options", "CUDA graphs, whose memory is not planned",
                "another mode is accepted",
            )  # fmt: skip
        self._bare, self._loss, self._optimizer = model, loss, optimizer
        self._keep = [model, *([optimizer] if optimizer else []), *keep]
        self._budget, self._most = budget, most
        self._bound = UNBOUNDED if budget is None else budget
        self._device = device
        self._rows: Optional[bool] = None  # whether the input has one for each image
        self._recorded: dict[int, Step] = {}
        self._choices: dict[int, Choice] = {}
        self._measured: dict[int, float] = {}  # milliseconds
        self._largest: Optional[int] = None

    def profile(self, batches: Sequence[int]) -> StepProfile:
        """What plans of these batches take, as far as memory holds them. Raises NoPlan
        with the least budget if it holds none."""
        batches = sorted(batches)
        with self._as_in_training():
            if not self._recorded or batches[0] < min(self._recorded):
                self._record(batches[0])
            if max(self._recorded) < self._most:
                self._record(self._most)
            for batch in batches:
                if not self._holds(batch):
                    self._bisect(batch)
                    break
        return self._told()

    def tried(self, batch: int) -> StepProfile:
        """As profile, after the steps of a batch were measured, by which all times are
        scaled; or found to need more than the budget, by which fewer images fit."""
        if batch in self._measured:
            return self._told()
        with self._as_in_training():
            try:
                self._measured[batch] = self._measure(batch)
            except NoPlan as error:
                part = self._bound / error.least if error.least else 1.0
                self._largest = min(batch - 1, int(batch * part))
                if self._largest < 1:
                    raise
                self._plan(self._largest)
        return self._told()

    def _told(self) -> StepProfile:
        ms: dict[int, float] = {}
        bound: dict[int, float] = {}
        peak: dict[int, int] = {}
        for batch, choice in self._choices.items():
            near = min(self._measured, key=lambda b: abs(b - batch), default=None)
            scale = 1e-3
            if near is not None:
                scale = self._measured[near] / self._choices[near].predicted.us
            ms[batch] = choice.predicted.us * scale
            bound[batch] = min(ms[batch], choice.bound_us * scale)
            peak[batch] = choice.predicted.peak
        return StepProfile(
            self._device.kind, ms, self._largest, budget=self._budget, bound_ms=bound,
            peak=peak,
        )  # fmt: skip

    @contextlib.contextmanager
    def _as_in_training(self) -> Iterator[None]:
        """Within it memory is taken as by DDP's copy of the gradients, by those of an
        earlier pass, and by the optimizer's state."""
        objects, device = stateful(self._loss, self._keep), self._device.device
        copies = 2 if self._optimizer else 2 + _STATE
        with unchanged(objects, device):
            if device.type == "cuda" and self._optimizer is not None:
                for parameter in self._bare.parameters():
                    if parameter.requires_grad:
                        parameter.grad = torch.zeros_like(parameter)
                self._optimize()
            with occupied(device, copies * gradient_bytes(objects)):
                yield

    def _optimize(self) -> None:
        if self._optimizer is not None:
            self._optimizer.step()
        self._bare.zero_grad(set_to_none=True)

    def _measure(self, batch: int) -> float:
        """Milliseconds. Raises NoPlan."""

        def step(images: int) -> None:
            self._loss(self.model, images).backward()
            self._optimize()

        try:
            for _ in range(_MOST_STEPS):
                step(batch)
                told = backend.plan_of(self.model)
                if told.settled:
                    break
            if (told.measured_peak_bytes or 0) > self._bound:
                raise NoPlan("the measured peak", told.measured_peak_bytes)
            return median_ms(step, batch, self._device.device)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            raise NoPlan("out of memory") from error

    def _record(self, batch: int) -> Step:
        def run(model: Callable[..., Any]) -> None:
            def counted(*arguments: Any, **keywords: Any) -> Any:
                inputs = [
                    a for a in arguments if isinstance(a, torch.Tensor) and a.dim()
                ]
                self._check_rows(batch, len(inputs[0]) if inputs else None)
                return model(*arguments, **keywords)

            self._loss(counted, batch)

        step = self._recorder.step(run)
        if step is None:
            raise refuse(
                "share: model", "no graph of it has a backward pass",
                "a model that torch.compile captures and that trains is accepted",
            )  # fmt: skip
        self._recorded[batch] = step
        return step

    def _check_rows(self, batch: int, rows: Optional[int]) -> None:
        if self._rows is None:
            self._rows = rows == batch
        if self._rows and rows != batch:
            raise refuse(
                "share: loss", f"it has the model compute {rows} images for {batch}",
                f"one of up to {self._most} images is accepted",
            )  # fmt: skip

    def _plan(self, batch: int) -> Choice:
        if batch not in self._choices:
            on_gpu = self._device.device.type == "cuda"
            within = without_slack(self._bound) if on_gpu else self._bound
            self._choices[batch] = self._recorder.within(self._step(batch), within)
        return self._choices[batch]

    def _step(self, batch: int) -> Step:
        if batch in self._recorded:
            return self._recorded[batch]
        below = max((b for b in self._recorded if b < batch), default=None)
        above = min((b for b in self._recorded if b > batch), default=None)
        step = None
        if below is not None and above is not None:
            part = (batch - below) / (above - below)
            step = between(self._recorded[below], self._recorded[above], part)
        return step or self._record(batch)

    def _holds(self, batch: int) -> bool:
        try:
            return bool(self._plan(batch))
        except NoPlan:
            return False

    def _bisect(self, ends: int) -> None:
        """Finds the largest batch that fits, below one that does not."""
        # BatchNorm may refuse one image.
        fits = max((b for b in self._choices if b < ends), default=min(ends, 2))
        try:
            self._plan(fits)
        except NoPlan as error:
            raise NoPlan(
                f"share: budget: {size_text(self._bound)} on {self._device.kind!r}; the "
                f"least that is accepted is {error.least} bytes, for {fits} images",
                error.least,
            ) from error
        self._largest = bisected(fits, ends, self._holds)
