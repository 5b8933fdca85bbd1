"""ucudnn.torch.memory: training steps within a budget of device memory."""

from __future__ import annotations

import sys
import threading
import types
import weakref
from typing import Any, Callable, Iterable, Optional, Sequence

from ucudnn.sizes import Size, parse_size
from ucudnn.torch.checks import one_of, refuse
from ucudnn.torch.devices import device_of, find_device
from ucudnn.torch.saved.planned_step import PlannedStep
from ucudnn.torch.saved.step_memory import StepMemory

_WAYS = ("offload", "recompute")

# By the code that has the `with`: by line, thread and options.
_of_code: weakref.WeakKeyDictionary[types.CodeType, dict[Any, StepMemory]]
_of_code = weakref.WeakKeyDictionary()


def memory(
    step: Optional[Callable[..., Any]] = None,
    *example: Any,
    budget: Size,
    allow: Sequence[str] = _WAYS,
    host_budget: Optional[Size] = None,
    keep: Iterable[Any] = (),
    graphs: bool = False,
    device: Optional[Any] = None,
    quiet: bool = False,
    **keywords: Any,
) -> Any:
    """Has the saved tensors of training steps where a plan says, so that a step needs
    no more than `budget` of device memory:

    >>> for x, y in loader:
    ...     with ucudnn.torch.memory(budget="16GiB") as plan:
    ...         optimizer.zero_grad()
    ...         loss_of(model(x), y).backward()
    ...         optimizer.step()

    Within it is one whole step. The first three steps run with all saved tensors in
    host memory, to record which they save, when they need them, what else is in memory
    and how long each part takes; then libucudnn_solve plans which stay, which move to
    the host and return, and which are computed again (ReLU, sums, pools, convolutions,
    and BatchNorm from its saved statistics; the indices of pools are kept in 16 bits).
    A plan that moves some on a GPU is made anew after seven steps, with the rates that
    its copies reached. Steps of another shape, as the last of an epoch, are recorded
    and planned apart. A step that computes otherwise than recorded, by other
    parameters, modes or numbers, keeps what cannot be computed again, and the next ones
    are recorded anew. Each place in the code has its plans; the returned object may
    also be made once, and used in each step.

    `allow` names the ways: results stay bitwise the same by "offload"; "recompute"
    may round BatchNorm's outputs otherwise. `device` is by default that of the first
    saved tensor. `budget` counts all that PyTorch allocates on a GPU at once, weights
    and gradients included; on the CPU, saved tensors alone. `host_budget` bounds the
    page-locked host memory that stays taken while the plan lives.

    With `step`, a function that is called in place of it: memory(step, budget=...)(x, y)
    is `with ...: step(x, y)`. An `example` of its arguments, which is not run, tells the
    device, and is what `check()` runs. With `graphs`, too, it is captured once it has
    been planned, and calls replay it as a CUDA graph (PlannedStep says how, and what
    `keep` is for).

    The third step raises NoPlan with a budget that is accepted as `least`; later shapes
    get their least budget, after a warning. Raises InvalidArgument for a host budget
    that is too small, and for what a plan cannot do: double backward, a backward pass
    after the step, other hooks around it, in-place changes, several streams.
    """
    ways = [allow] if isinstance(allow, str) else list(allow)
    for way in ways:
        one_of("memory: allow", way, _WAYS)
    if step is None and (example or keywords or graphs):
        raise refuse("memory", "arguments of a step", "a step before them is accepted")
    chosen = device if device is not None else device_of(example)
    found = None if chosen is None else find_device(chosen).device
    options = (parse_size(budget), tuple(ways), host_budget, found, quiet)
    if step is not None:
        of_step = StepMemory(*options)
        return PlannedStep(step, of_step, graphs, example, keywords, keep)
    frame = sys._getframe(1)
    places = _of_code.setdefault(frame.f_code, {})
    key = (frame.f_lineno, threading.get_ident(), options)
    return places.setdefault(key, StepMemory(*options))
