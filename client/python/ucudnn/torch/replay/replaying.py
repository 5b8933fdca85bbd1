"""Runs a planned step as a CUDA graph."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence

import torch

from ucudnn.errors import InvalidArgument
from ucudnn.torch.checks import refuse, warn
from ucudnn.torch.kept import unchanged
from ucudnn.torch.replay.capturing import Captured, Capturing
from ucudnn.torch.replay.carried import (
    Carried,
    Touched,
    numbers_of,
    parameters_of,
    state_of,
    touched_by,
)
from ucudnn.torch.replay.frozen import Frozen
from ucudnn.torch.replay.inputs import Inputs

_WARM_UP = 2  # steps, before the one that is watched
# Captures without a replay between them, after which steps are enqueued.
_MOST_CAPTURES = 3


def refuse_without_gpu(device: torch.device) -> None:
    if device.type != "cuda":
        raise refuse("memory: graphs", f"True on {device}", "a GPU is accepted")


class Replay:
    """A step that was captured. While state of its optimizers is away, steps that make
    it are enqueued."""

    def __init__(
        self,
        step: Callable[..., Any],
        run: Callable[[], Any],
        inputs: Inputs,
        objects: list[Any],
        device: torch.device,
    ) -> None:
        """`run` runs the step under its plan, with `inputs`. Afterwards all is as
        before. A step that cannot be captured is enqueued, after a warning."""
        self._step = step
        self._run = run
        self._inputs = inputs
        self._objects = objects
        self._device = device
        self._touched: Optional[Touched] = None
        self._captures = 0  # since it was replayed without
        self.peak = 0  # bytes, while it was captured
        try:
            self._capture()
        except Exception as error:  # whatever a step raises
            self._enqueue(error)

    @property
    def captured(self) -> bool:
        return self._carried is not None

    def __call__(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        self._inputs.take(arguments, keywords)
        if self._carried is not None:
            self._follow()
        if self._carried is None:
            return self._run()
        away = self._carried.away()
        if any(not isinstance(one.now, torch.Tensor) for one in away):
            return self._run()
        assert self._captured is not None
        self._carried.put_in(away)
        self._captured.graph.replay()
        self._carried.put_back(away)
        return self._captured.result

    def _follow(self) -> None:
        """Captures the step again if something has changed that it read. Raises
        InvalidArgument if its plan no longer fits it."""
        assert self._carried is not None
        name = self._frozen.changed()
        if name:
            self._touched = None
        elif self._carried.options_changed():
            name = "an option of an optimizer"
        else:
            self._captures = 0
            return
        self._captures += 1
        try:
            self._release()
            if self._captures > _MOST_CAPTURES:
                raise RuntimeError(f"{name} changes from call to call")
            self._capture()
        except InvalidArgument as error:
            raise InvalidArgument(
                f"memory: {name} has changed since the step was captured, and its "
                f"plan no longer fits it: {error}"
            ) from error
        except Exception as error:
            self._enqueue(error)

    def _release(self) -> None:
        self._captured: Optional[Captured] = None
        self._carried: Optional[Carried] = None

    def _enqueue(self, error: Exception) -> None:
        warn(
            "memory: the step is not replayed as a CUDA graph but "
            f"enqueued: {type(error).__name__}: {error}. A step is captured that "
            "does not wait for the GPU (it returns tensors instead of numbers, "
            "without .item()), whose optimizers have capturable=True if they "
            "know it, and that counts in tensors"
        )

    def _capture(self) -> None:
        self._release()
        capturing = Capturing(self._device)
        try:
            self._capture_by(capturing)
        except Exception:
            self._release()
            capturing.give_back()
            raise

    def _capture_by(self, capturing: Capturing) -> None:
        if self._touched is None:
            with unchanged(self._objects, self._device):
                self._touched = _warm_up(self._run, self._objects, capturing)
        with unchanged(self._objects, self._device):
            for parameter in self._touched.added:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
            capturing.warm_up(self._run)  # makes state of optimizers that is missing
            self._captured = _captured(self._run, self._objects, capturing)
            self._carried = Carried(self._objects, self._touched)
        self._frozen = Frozen(self._step, self._objects)
        self.peak = capturing.peak


def _warm_up(
    run: Callable[[], Any], objects: list[Any], capturing: Capturing
) -> Touched:
    capturing.give_back()
    for _ in range(_WARM_UP):
        capturing.warm_up(run)
    with capturing.without_waiting():
        return touched_by(lambda: capturing.warm_up(run), parameters_of(objects))


def _captured(
    run: Callable[[], Any], objects: list[Any], capturing: Capturing
) -> Captured:
    numbers = numbers_of(objects)
    known = {id(one.tensor) for one in state_of(objects)}
    captured = capturing.capture(run)
    if any(id(one.tensor) not in known for one in state_of(objects)):
        raise RuntimeError("an optimizer makes new tensors of state in each step")
    if numbers != numbers_of(objects):
        raise RuntimeError("an optimizer or a scheduler counts in Python's numbers")
    return captured
