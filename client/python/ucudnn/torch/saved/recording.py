"""Records which tensors a step saves, when it needs them back, and what else is
in memory meanwhile."""

from __future__ import annotations

import contextlib
from typing import Any, Optional, Sequence

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from ucudnn.torch.checks import refuse
from ucudnn.torch.convolution.operators import plans_as_operators
from ucudnn.torch.devices import current
from ucudnn.torch.saved.host_copies import HostCopies
from ucudnn.torch.saved.origins import Looks, Origin, origin_of
from ucudnn.torch.saved.recipes import Recipe, Recipes
from ucudnn.torch.saved.recorded import (
    Again,
    Kind,
    Recording,
    Saved,
    changed_in_place,
    kept,
    left_alone,
)
from ucudnn.torch.saved.storages import (
    Layout,
    bytes_of,
    flat,
    key_of,
    layout_of,
    weak_reference,
)
from ucudnn.torch.saved.trying import Trials
from ucudnn.torch.saved.values import OperatorRecorder, Value, narrow_types
from ucudnn.torch.saved.watching import in_backward, refuse_in_backward
from ucudnn.torch.timing import laps, mark, ms_between

# Cycles in which the host enqueues what lies between two hooks, generously; more
# before the first and after the last, where optimizers run.
_HEAD_START = 1_000_000
_LONG_HEAD_START = 8_000_000
_TIMED_STEPS = 2


class Recorder:
    """Three steps of one shape, as training runs them, with every saved tensor in host
    memory, each brought back when it is needed: so memory shows what else is in use,
    the step fits where anything fits, and each storage's last other owner is seen to
    let it go. The first step is for structure and recipes, the others are for times,
    of which the shorter counts, and memory. A way to compute again that differs from
    step to step is left out."""

    def __init__(self, device: torch.device, seeks_recipes: bool) -> None:
        self._device = device
        self._seeks_recipes = seeks_recipes
        self._copies = HostCopies(device)
        self._besides_ms = _besides_ms(device)
        self._first: Optional[Pass] = None
        self._timed: list[Pass] = []

    def next_pass(self) -> Pass:
        if self._first is None:
            return Pass(self._device, self._copies, self._seeks_recipes)
        return Pass(self._device, self._copies, False, self._first.origins())

    def add(self, one: Pass) -> Optional[Recording]:
        """A step that has run, as those before; what was recorded, after the last."""
        if self._first is None:
            self._first = one
            return None
        self._timed.append(one)
        if len(self._timed) < _TIMED_STEPS:
            return None
        first, last = self._first, self._timed[-1]
        self._copies.clear()
        first.keep_what_was_seen([one.looks.seen for one in self._timed])
        for now, then in zip(last.storages, first.storages):
            now.changed |= then.changed
            now.again, now.deep = then.again, then.deep
            now.narrow, now.narrow_ms = then.narrow, then.narrow_ms
        return last.recording([
            max(0.0, min(ms) - self._besides_ms)
            for ms in zip(*(one.times() for one in self._timed))
        ])  # fmt: skip


def _besides_ms(device: torch.device) -> float:
    """What an interval measures besides its kernels: the first one starts after an
    event instead of a kernel."""
    if device.type != "cuda":
        return 0.0
    tiny = torch.zeros(1, device=device)
    shortest = {}
    for kernels in (0, 1, 9):

        def run() -> None:
            for _ in range(kernels):
                tiny.add_(1)

        with current(device):
            torch.cuda._sleep(_HEAD_START)
            shortest[kernels] = min(laps(device, run, 9))
    each = (shortest[9] - shortest[1]) / 8
    return max(shortest[0], shortest[1] - each)


class Pass:
    """One step."""

    def __init__(
        self,
        device: torch.device,
        copies: HostCopies,
        seeks_recipes: bool,
        origins: Sequence[Origin] = (),
    ) -> None:
        self._device = device
        self._gpu = device.type == "cuda"
        self._copies = copies
        self.kinds: list[Kind] = []
        self.storages: list[Saved] = []
        self._numbers: dict[int, int] = {}  # of storages, by key
        self._saved_at: list[int] = []  # versions, by number
        self._alive: dict[int, Any] = {}  # weak references, by number
        self._returned: dict[int, Any] = {}  # the same of what was brought back
        self._back: dict[int, torch.Tensor] = {}
        self._waiting: list[int] = []  # by number: packs not yet unpacked
        self._packs: list[Kind] = []
        self._versions: list[tuple[Any, int]] = []
        self._values: list[Optional[Value]] = []
        self._recipes = Recipes(
            self._values, lambda other: not self.storages[other].changed
        )
        self._trials = Trials(device, copies)
        self._operators: Optional[OperatorRecorder] = None
        # A mode that began within another one would end with it.
        if seeks_recipes and not _get_current_dispatch_mode_stack():
            self._operators = OperatorRecorder(self._change, lambda: len(self.kinds))
        self.looks = Looks(origins)
        self._modes = contextlib.ExitStack()
        # By number: the hook that had the node that made the storage, and the node.
        self._nodes: dict[int, tuple[int, Any]] = {}
        self._layouts: list[Layout] = []  # by number, of the first tensor
        self._backward: list[bool] = []
        self._bytes: list[int] = []
        self._floor: list[int] = []
        self._marks: list[Any] = []
        self._stream: Any = None

    def begin(self) -> None:
        """As the step begins, or at its first hooks."""
        if self._operators is not None:
            self._modes.enter_context(plans_as_operators())
            self._modes.enter_context(self._operators)
        if self._gpu:
            self._stream = torch.cuda.current_stream(self._device)
        self._begin(_LONG_HEAD_START)

    def end(self) -> None:
        self._end()
        self.leave()
        if self._gpu:
            torch.cuda.synchronize(self._device)

    def leave(self) -> None:
        """Also a step that failed, or is of another shape than expected."""
        self._modes.close()
        self._back.clear()
        self._nodes.clear()
        self._versions.clear()

    def origins(self) -> list[Origin]:
        return [again.origin for again in self._ways() if again.origin is not None]

    def keep_what_was_seen(self, seen: Sequence[Sequence[Optional[list[Any]]]]) -> None:
        """Of the origins, in later runs; without ways of which that differs."""
        told = {}
        for again, *runs in zip(self._ways(), *seen):
            if runs[0] is not None and all(one == runs[0] for one in runs):
                told[id(again)] = again._replace(seen=runs[0])
        for storage in self.storages:
            storage.again = told.get(id(storage.again))
            storage.deep = told.get(id(storage.deep))

    def _ways(self) -> list[Again]:
        ways = {
            id(again): again
            for storage in self.storages
            for again in (storage.again, storage.deep)
            if again is not None
        }
        return list(ways.values())

    def times(self) -> list[float]:
        """Milliseconds, by segment."""
        return [ms_between(a, b) for a, b in zip(self._marks[::2], self._marks[1::2])]

    def recording(self, ms: list[float]) -> Recording:
        return Recording(
            self.kinds, self.storages, self._backward, ms, self._bytes, self._floor
        )

    # --- Segments.

    def _begin(self, head_start: int = _HEAD_START) -> None:
        """At the end of a hook."""
        if self._gpu:
            self._floor.append(torch.cuda.memory_allocated(self._device))
            torch.cuda.reset_peak_memory_stats(self._device)
            if self._operators is None:
                with current(self._device):
                    torch.cuda._sleep(head_start)
        self._marks.append(mark(self._device))

    def _end(self) -> None:
        """At the beginning of a hook."""
        self._marks.append(mark(self._device))
        if self._gpu:
            self._bytes.append(torch.cuda.max_memory_allocated(self._device))
            if torch.cuda.current_stream(self._device) != self._stream:
                raise refuse(
                    "memory: the step",
                    "it computes on several streams",
                    "a step on one stream is accepted",
                )
        else:
            self._bytes.append(0)
            self._floor.append(0)
        segment = len(self._backward)
        self._backward.append(in_backward())
        for number, reference in list(self._alive.items()):
            if segment > self.storages[number].hook:
                self.storages[number].held = segment
            if reference.expired():
                del self._alive[number]
        for number, reference in list(self._returned.items()):
            self.storages[number].released = segment
            if reference.expired():
                del self._returned[number]

    # --- Hooks.

    def pack(self, tensor: torch.Tensor) -> Any:
        self._end()
        handle = self._save(tensor)
        self._begin()
        return handle

    def unpack(self, handle: Any) -> torch.Tensor:
        self._end()
        tensor = self._restore(handle)
        last = all(count == 0 for count in self._waiting)
        self._begin(_LONG_HEAD_START if last else _HEAD_START)
        return tensor

    def _save(self, tensor: torch.Tensor) -> Any:
        hook = len(self.kinds)
        pack = len(self._packs)
        number = -1
        refuse_in_backward(tensor)
        if not left_alone(tensor, self._device):
            number = self._number_of(tensor, hook)
        layout = layout_of(tensor)
        if number < 0:  # another slice is as good
            layout = Layout(layout.size, (), 0)
        kind = Kind(pack, True, number, tensor.dtype, layout)
        self.kinds.append(kind)
        if self._operators is not None and tensor.grad_fn is not None:
            self._nodes.setdefault(number, (hook, tensor.grad_fn))
        self.looks.at(hook, tensor.grad_fn)
        self._packs.append(kind)
        # Neither keeps the storage.
        self._versions.append((None, 0))
        if number < 0:
            self._versions[pack] = (kept(tensor), tensor._version)
        return pack

    def _number_of(self, tensor: torch.Tensor, hook: int) -> int:
        key = key_of(tensor)
        number = self._numbers.get(key, -1)
        version = tensor._version
        if (
            number < 0
            or number not in self._alive
            or self._saved_at[number] != version  # with other contents
        ):
            number = len(self.storages)
            elements = flat(tensor)
            self.storages.append(Saved(bytes_of(tensor), hook, tensor.dtype))
            self._copies.put(number, elements)
            self._layouts.append(layout_of(tensor))
            self._numbers[key] = number
            self._saved_at.append(version)
            self._alive[number] = weak_reference(tensor)
            self._waiting.append(0)
            value = None
            if self._operators is not None:
                value = self._operators.save(tensor, number)
            self._values.append(value)
        elif self.storages[number].dtype != tensor.dtype:
            return -1
        self._waiting[number] += 1
        return number

    def _change(self, key: int) -> None:
        number = self._numbers.get(key)
        if number is not None and number in self._alive:
            self.storages[number].changed = True

    def _restore(self, pack: int) -> torch.Tensor:
        hook = len(self.kinds)
        saved = self._packs[pack]
        self.kinds.append(saved._replace(saves=False))
        self.looks.at(hook, None)
        if saved.storage < 0:
            tensor, version = self._versions[pack]
            if tensor._version != version:
                raise changed_in_place(saved.dtype, saved.layout.size)
            return tensor
        storage = self.storages[saved.storage]
        if storage.changed:
            raise changed_in_place(saved.dtype, saved.layout.size)
        storage.uses.append(hook + 1)
        self._waiting[saved.storage] -= 1
        if saved.storage in self._alive:
            storage.stays = True
        if saved.storage not in self._back:
            elements = self._copies.fetched(saved.storage)
            self._back[saved.storage] = elements
            self._returned[saved.storage] = weak_reference(elements)
            if self._operators is not None:
                self._try_recipe(saved.storage, elements)
        elements = self._back[saved.storage]
        if self._waiting[saved.storage] <= 0:
            del self._back[saved.storage]
        return saved.layout.of(elements)

    def _try_recipe(self, number: int, elements: torch.Tensor) -> None:
        """Finds out how to do without what has just come back."""
        value = self._values[number]
        storage = self.storages[number]
        if value is None or storage.changed or storage.stays:
            return
        types = narrow_types(value)
        if types:
            told = self._trials.narrow(elements, types)
            if told is not None:
                storage.narrow, storage.narrow_ms = told
            return
        shallow = self._recipes.shallow(number)
        if shallow is None:
            return
        storage.again = storage.deep = self._again(shallow, number, elements)
        deep = self._recipes.deep(number)
        if deep is None:
            storage.deep = None
        elif deep.reads != shallow.reads:
            storage.deep = self._again(deep, number, elements)

    def _again(
        self, recipe: Recipe, number: int, elements: torch.Tensor
    ) -> Optional[Again]:
        if number not in self._nodes:
            return None  # nothing would tell whether a later step does the same
        origin = origin_of(recipe.steps, self._layouts, *self._nodes[number])
        if origin is None:
            return None
        again = self._trials.tried(recipe, elements)
        return None if again is None else again._replace(origin=origin)
