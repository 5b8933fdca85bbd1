"""Runs a step with its saved tensors as a plan says."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ucudnn.torch.checks import refuse
from ucudnn.torch.saved.links import Arena, CudaLink, HostLink
from ucudnn.torch.saved.origins import Looks
from ucudnn.torch.saved.recorded import Kind, changed_in_place, kept
from ucudnn.torch.saved.script import Action, Script
from ucudnn.torch.saved.storages import bytes_of, flat, key_of, weak_reference
from ucudnn.torch.saved.watching import Watch, hooked

# What a hook expects and does: the size and type of the tensor that is saved,
# none for one that is needed; and what it is with the actions, none for one that
# the plan leaves alone.
_Hook = Tuple[
    Optional[Tuple[int, ...]],
    Optional[torch.dtype],
    Optional[Tuple[Kind, List[Action]]],
]
_END: _Hook = ((), None, None)  # no tensor is so


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
        # What recipes take for granted.
        self._again = [
            (number, again.origin, again.seen)
            for number, again in script.recipes.items()
            if again.origin is not None
        ]
        self._looked = {number: i for i, (number, _, _) in enumerate(self._again)}
        self._quick = self._hooks_of(script)
        self._hooks = self._quick
        self._acts: Dict[str, Callable[[int], None]] = {
            "copy": self._copy, "free": self._free, "fetch": self._fetch,
            "recompute": self._recompute, "drop": self._drop,
            "forget": self._forget,
        }  # fmt: skip
        self._watch = Watch()
        self._clear()

    def _clear(self) -> None:
        self._next = 0  # hook; beyond the last one after a refusal
        self._held: Dict[int, torch.Tensor] = {}  # elements, by storage
        self._versions: Dict[int, int] = {}
        # By storage: its key, version and shift when it was saved first.
        self._whose: Dict[int, Tuple[int, int, int]] = {}
        self._copying: Dict[int, bool] = {}
        self._arriving: Dict[int, bool] = {}
        self._looks = Looks([origin for _, origin, _ in self._again])

    def _hooks_of(self, script: Script) -> List[_Hook]:
        """A meter looks at each tensor."""
        looks = {h for _, origin, _ in self._again for h in (origin.first, origin.hook)}
        needed = {  # packs
            kind.pack
            for hook, (kind, actions) in enumerate(zip(script.kinds, script.actions))
            if self.meter is not None
            or actions
            or hook in looks
            or (
                kind.storage >= 0
                and (script.planned[kind.storage] or script.sources[kind.storage])
            )
        }
        hooks: List[_Hook] = [
            (
                kind.layout.size if kind.saves else None,
                kind.dtype if kind.saves else None,
                (kind, actions) if kind.pack in needed else None,
            )
            for kind, actions in zip(script.kinds, script.actions)
        ]
        return [*hooks, _END]

    def run(self, step: Callable[[], Any]) -> Any:
        self._clear()
        self._hooks = self._quick
        if self.meter is not None:
            self._hooks = self._hooks_of(self._script)
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
                self._settle()
            self._clear()

    def _settle(self) -> None:
        """Of a step that failed: memory that copies use is released after them. A
        capture ends once the streams of the copies have joined its own."""
        if self._device.type != "cuda":
            return
        if not torch.cuda.is_current_stream_capturing():
            torch.cuda.synchronize(self._device)
            return
        with contextlib.suppress(RuntimeError):  # the capture failed
            for number in self._copying:
                self._link.copied(number)
            for number in self._arriving:
                self._link.arrived(number)

    # --- Hooks. The host runs hundreds of them in a step, so they are short.

    def _pack(self, tensor: torch.Tensor) -> Any:
        hook = self._next
        self._next = hook + 1
        try:
            size, dtype, todo = self._hooks[hook]
            if tensor.shape != size or tensor.dtype != dtype:
                raise self._saves_another(hook, tensor)
            if todo is None:
                return None, kept(tensor), tensor._version
            return self._pack_as(hook, tensor, *todo)
        except BaseException as error:
            raise self._watch.fail(error)

    def _pack_as(
        self, hook: int, tensor: torch.Tensor, kind: Kind, actions: List[Action]
    ) -> Any:
        number = kind.storage
        planned = number >= 0 and self._script.planned[number]
        shift = tensor.storage_offset() - kind.layout.offset
        if number >= 0 and (
            tensor.stride() != kind.layout.stride
            or shift < 0
            or (planned and shift != 0)
            or self._is_parameter(tensor)
        ):
            raise self._saves_another(hook, tensor)
        if number >= 0:
            whose = key_of(tensor), tensor._version, shift
            if self._whose.setdefault(number, whose) != whose:
                raise self._differs(hook, "saves another tensor's memory")
        handle: Any = kind.pack, None, 0
        for which in self._looks.at(hook, tensor.grad_fn):
            if self._looks.seen[which] != self._again[which][2]:
                raise self._made_otherwise(self._again[which][0])
        if not planned:
            handle = kind.pack, kept(tensor), tensor._version
        elif number not in self._held and number not in self._versions:
            elements = flat(tensor)
            if number in self._script.narrow:
                elements = elements.to(self._script.narrow[number])
            self._keep(number, elements)
        for action, which in actions:
            self._acts[action](which)
        if number >= 0 and not planned:
            self._note(number, tensor, shift)
        if self.meter is not None:
            self.meter.look()
        return handle

    def _is_parameter(self, tensor: torch.Tensor) -> bool:
        """Or elsewhere, where the recording had a tensor of the device."""
        return tensor.device != self._device or (
            tensor.requires_grad and tensor.is_leaf
        )

    def _note(self, number: int, tensor: torch.Tensor, shift: int) -> None:
        """Of a storage that is not planned. An argument may be a slice that begins
        `shift` elements later than the example."""
        size = self._script.sources[number]
        if size:
            count = size // tensor.element_size()
            self._held[number] = flat(tensor)[shift : shift + count]
        if self.meter is not None and not self._script.stays[number]:
            self.meter.saw(tensor)

    def _unpack(self, handle: Any) -> torch.Tensor:
        hook = self._next
        self._next = hook + 1
        try:
            size, _, todo = self._hooks[hook]
            pack, whole, version = handle
            if size is not None or (todo is None) != (pack is None):
                raise self._differs(hook, "needs another tensor")
            if todo is not None:
                kind, actions = todo
                if kind.pack != pack:
                    raise self._differs(hook, f"needs tensor {pack}")
                self._looks.at(hook, None)
                for action, which in actions:
                    self._acts[action](which)
                if self.meter is not None:
                    self.meter.look()
            if whole is not None:
                if whole._version != version:
                    raise changed_in_place(self._script.kinds[hook])
                tensor: torch.Tensor = whole
                return tensor
            elements = self._present(kind.storage)
            if elements._version != self._versions[kind.storage]:
                raise changed_in_place(kind)
            if elements.dtype != kind.dtype:
                elements = elements.to(kind.dtype)
            return kind.layout.of(elements)
        except BaseException as error:
            raise self._watch.fail(error)

    def _saves_another(self, hook: int, tensor: torch.Tensor) -> Exception:
        return self._differs(hook, f"saves {tensor.dtype} {tuple(tensor.shape)}")

    def _made_otherwise(self, number: int) -> Exception:
        kind = next(k for k in self._script.kinds if k.storage == number)
        return refuse(
            "memory: the step",
            f"it makes saved tensor {kind.pack}, {kind.dtype} {kind.layout.size}, by "
            "other operators, numbers or parameters than when it was recorded",
            "a step whose models, their modes and their parameters are those of the "
            "recording is accepted; call memory again after changing them",
        )

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

    def _forget(self, number: int) -> None:
        """Of a storage that is not planned, and that no recipe reads any more."""
        del self._held[number]

    def _fetch(self, number: int) -> None:
        self._keep(number, self._link.fetch(number, self._host[number]))
        self._arriving[number] = True

    def _recompute(self, number: int) -> None:
        which = self._looked[number]
        if not self._looks.holds(which):
            kind = next(k for k in self._script.kinds if k.storage == number)
            raise refuse(
                "memory: the step",
                f"it changes a parameter in place before saved tensor {kind.pack}, "
                f"{kind.dtype} {kind.layout.size}, is computed again with it",
                "a step that leaves parameters alone until the backward pass is done "
                "is accepted, or allow=\"offload\"",
            )
        self._keep(number, self._script.recipes[number].recipe.run(self._present))

    def _keep(self, number: int, elements: torch.Tensor) -> None:
        self._held[number] = elements
        self._versions[number] = elements._version
        if self.meter is not None:
            self.meter.saw(elements)
