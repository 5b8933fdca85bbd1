"""Runs a step with its saved tensors as a plan says."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union

import torch

from ucudnn.torch.checks import refuse
from ucudnn.torch.fused import FusedRecipe
from ucudnn.torch.links import Arena, CudaLink, HostLink
from ucudnn.torch.recipes import Recipe
from ucudnn.torch.recorded import Kind, changed_in_place, kept, left_alone
from ucudnn.torch.storages import bytes_of, flat, weak_reference
from ucudnn.torch.watching import Watch, hooked

Action = Tuple[str, int]  # what to do with which storage


class Slot(NamedTuple):
    """A storage's place in the arena."""

    offset: int
    bytes: int
    dtype: torch.dtype


class Script(NamedTuple):
    """What each hook of the step does."""

    kinds: List[Kind]
    planned: List[bool]  # by storage: the plan holds it
    stays: List[bool]  # other code holds it in any case
    sources: List[bool]  # by storage: recipes need it, though it is not planned
    actions: List[List[Action]]  # by hook
    recipes: Dict[int, Union[Recipe, FusedRecipe]]
    slots: Dict[int, Slot]


class Meter:
    """The bytes of saved tensors that live, for devices whose allocator does not
    count."""

    def __init__(self) -> None:
        self.peak = 0
        self._seen: Dict[Any, Tuple[Any, int]] = {}

    def saw(self, tensor: torch.Tensor) -> None:
        reference = weak_reference(tensor)
        self._seen[reference] = (reference, bytes_of(tensor))

    def look(self) -> None:
        for key in [k for k, (r, _) in self._seen.items() if r.expired()]:
            del self._seen[key]
        self.peak = max(self.peak, sum(size for _, size in self._seen.values()))


class Applier:
    """Runs steps by a script, one at a time."""

    def __init__(
        self,
        script: Script,
        device: torch.device,
        link: "HostLink | CudaLink",
        arena: Arena,
    ) -> None:
        self._script = script
        self._device = device
        self._link = link
        self._host = {
            number: arena.elements(slot.offset, slot.bytes, slot.dtype)
            for number, slot in script.slots.items()
        }
        self.meter: Optional[Meter] = None
        self._acts: Dict[str, Callable[[int], None]] = {
            "copy": self._copy, "free": self._free, "fetch": self._fetch,
            "recompute": self._recompute, "drop": self._drop,
        }  # fmt: skip
        self._watch = Watch()
        self._clear()

    def _clear(self) -> None:
        self._next = 0  # hook
        self._held: Dict[int, torch.Tensor] = {}  # elements, by storage
        self._versions: Dict[int, int] = {}
        self._copying: Dict[int, bool] = {}
        self._arriving: Dict[int, bool] = {}

    def run(self, step: Callable[[], Any]) -> Any:
        self._clear()
        self._watch = Watch()
        try:
            with hooked(self._watch, self._pack, self._unpack):
                result = step()
            if self._next != len(self._script.kinds):
                raise refuse(
                    "memory: the step",
                    f"it ended after {self._next} saved and needed tensors",
                    f"one of {len(self._script.kinds)}, as recorded, is accepted",
                )
            return result
        finally:
            if self._copying or self._arriving:
                if self._device.type == "cuda":
                    torch.cuda.synchronize(self._device)
            self._clear()

    # --- Hooks.

    def _pack(self, tensor: torch.Tensor) -> Any:
        try:
            script = self._script
            hook, kind = self._begin()
            number = kind.storage
            size, stride, offset = kind.layout
            if (
                not kind.saves
                or kind.dtype != tensor.dtype
                or size != tensor.shape
                or stride != tensor.stride()
                or offset != tensor.storage_offset()
                or (number >= 0 and left_alone(tensor, self._device))
            ):
                raise self._differs(
                    hook, f"saves {tensor.dtype} {tuple(tensor.shape)}"
                )
            if number < 0 or not script.planned[number]:
                self._act(hook)
                if number >= 0 and script.sources[number]:
                    self._held[number] = flat(tensor)
                if self.meter is not None and number >= 0:
                    if not script.stays[number]:
                        self.meter.saw(tensor)
                    self.meter.look()
                return kind.pack, kept(tensor), tensor._version
            if number not in self._held and number not in self._versions:
                self._held[number] = flat(tensor)
                self._versions[number] = tensor._version
                if self.meter is not None:
                    self.meter.saw(tensor)
            self._act(hook)
            if self.meter is not None:
                self.meter.look()
            return kind.pack, None, 0
        except BaseException as error:
            raise self._watch.fail(error)

    def _unpack(self, handle: Any) -> torch.Tensor:
        try:
            hook, kind = self._begin()
            pack, whole, version = handle
            if kind.saves or kind.pack != pack:
                raise self._differs(hook, f"needs tensor {pack}")
            self._act(hook)
            if self.meter is not None:
                self.meter.look()
            if whole is not None:
                if whole._version != version:
                    raise changed_in_place(kind)
                return whole
            number = kind.storage
            elements = self._present(number)
            if elements._version != self._versions[number]:
                raise changed_in_place(kind)
            return kind.layout.of(elements)
        except BaseException as error:
            raise self._watch.fail(error)

    def _begin(self) -> Tuple[int, Kind]:
        hook = self._next
        if hook >= len(self._script.kinds):
            raise self._differs(hook, "saves or needs another tensor")
        self._next += 1
        return hook, self._script.kinds[hook]

    def _differs(self, hook: int, found: str) -> Exception:
        expected = "its end"
        if hook < len(self._script.kinds):
            expected = f"a step that {self._script.kinds[hook]}"
        return refuse(
            f"memory: hook {hook} of the step",
            f"it {found}",
            f"{expected}, as recorded, is accepted; other shapes need a plan of "
            "their own, and retained graphs have none",
        )

    # --- Actions.

    def _act(self, hook: int) -> None:
        for action, number in self._script.actions[hook]:
            self._acts[action](number)

    def _present(self, number: int) -> torch.Tensor:
        if self._arriving.pop(number, False):
            self._link.arrived(number)
        return self._held[number]

    def _copy(self, number: int) -> None:
        self._link.copy(number, self._present(number), self._host[number])
        self._copying[number] = True

    def _join(self, number: int) -> None:
        if self._copying.pop(number, False):
            self._link.copied(number)

    def _free(self, number: int) -> None:
        self._drop(number)

    def _drop(self, number: int) -> None:
        """The memory is reused in this stream's order, so after the copy."""
        self._join(number)
        if self._arriving.pop(number, False):
            self._link.arrived(number)
        elements = self._held.pop(number)
        if elements._version != self._versions[number]:
            kind = next(k for k in self._script.kinds if k.storage == number)
            raise changed_in_place(kind)

    def _fetch(self, number: int) -> None:
        self._keep(number, self._link.fetch(number, self._host[number]))
        self._arriving[number] = True

    def _recompute(self, number: int) -> None:
        with torch.autocast(self._device.type, enabled=False):
            self._keep(number, self._script.recipes[number].run(self._present))

    def _keep(self, number: int, elements: torch.Tensor) -> None:
        self._held[number] = elements
        self._versions[number] = elements._version
        if self.meter is not None:
            self.meter.saw(elements)
