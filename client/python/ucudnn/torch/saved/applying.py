"""Has a step's saved tensors where a plan says."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Optional

import torch

from ucudnn.torch.checks import refuse
from ucudnn.torch.saved.links import Arena, CudaLink, HostLink
from ucudnn.torch.saved.origins import Looks
from ucudnn.torch.saved.recorded import Kind, changed_in_place, kept
from ucudnn.torch.saved.script import Action, Script
from ucudnn.torch.saved.storages import bytes_of, flat, key_of, weak_reference
from ucudnn.torch.saved.watching import refuse_in_backward

# What a hook expects and does: the size and type of the tensor that is saved,
# none for one that is needed; and what it is with the actions, none for one that
# the plan leaves alone.
_Hook = tuple[
    Optional[tuple[int, ...]],
    Optional[torch.dtype],
    Optional[tuple[Kind, list[Action]]],
]
_END: _Hook = ((), None, None)  # no tensor is so


class Meter:
    """The bytes of saved tensors that live, for devices whose allocator does not
    count."""

    def __init__(self) -> None:
        self.peak = 0
        self._seen: dict[Any, tuple[Any, int]] = {}

    def saw(self, tensor: torch.Tensor) -> None:
        reference = weak_reference(tensor)
        self._seen[reference] = (reference, bytes_of(tensor))

    def look(self) -> None:
        for key in [k for k, (r, _) in self._seen.items() if r.expired()]:
            del self._seen[key]
        self.peak = max(self.peak, sum(size for _, size in self._seen.values()))


class Applier:
    """Follows a script through steps, one at a time. A step that departs from it still
    computes what it should: tensors stay from there on, and what is away returns when
    it is needed. `unlike` then says how it differs."""

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
        # By storage: the last hook that needs it, after which its place on the host
        # may be another's.
        self._last = {
            kind.storage: hook
            for hook, kind in enumerate(script.kinds)
            if not kind.saves
        }
        self._saves = [kind for kind in script.kinds if kind.saves]  # by pack
        self._quick = self._hooks_of(script)
        self._hooks = self._quick
        self._acts: dict[str, Callable[[int], None]] = {
            "copy": self._copy, "free": self._drop, "fetch": self._fetch,
            "recompute": self._recompute, "drop": self._drop,
            "forget": self._forget,
        }  # fmt: skip
        self._clear()

    def _clear(self) -> None:
        self._next = 0  # hook
        self.unlike = ""
        self.outdated = False  # its recipes no longer hold
        self._follows = True
        self._held: dict[int, torch.Tensor] = {}  # elements, by storage
        self._versions: dict[int, int] = {}
        # By storage: its key, version and shift when it was saved first.
        self._whose: dict[int, tuple[int, int, int]] = {}
        self._copying: dict[int, bool] = {}
        self._arriving: dict[int, bool] = {}
        self._away: set[int] = set()  # whole on the host
        self._stays: set[int] = set()  # what this step makes otherwise
        self._looks = Looks([origin for _, origin, _ in self._again])

    def _hooks_of(self, script: Script) -> list[_Hook]:
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
        hooks: list[_Hook] = [
            (
                kind.layout.size if kind.saves else None,
                kind.dtype if kind.saves else None,
                (kind, actions) if kind.pack in needed else None,
            )
            for kind, actions in zip(script.kinds, script.actions)
        ]
        return [*hooks, _END]

    def begin(self) -> None:
        self._clear()
        self._hooks = self._quick
        if self.meter is not None:
            self._hooks = self._hooks_of(self._script)

    def end(self) -> None:
        if self._follows and self._next != len(self._script.kinds):
            self._depart(f"it ended after {self._next} saved and needed tensors")
        told = self.unlike, self.outdated
        self.leave()
        self.unlike, self.outdated = told

    def leave(self) -> None:
        """Also a step that failed."""
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

    # --- Hooks. The host runs hundreds of them in a step, so they are short. Handles
    # are the pack of a planned storage, or the tensor itself with its version.

    def pack(self, tensor: torch.Tensor) -> Any:
        hook = self._next
        self._next = hook + 1
        if self._follows:
            size, dtype, todo = self._hooks[hook]
            if tensor.shape != size or tensor.dtype != dtype:
                self._depart(_saves(tensor), hook)
            elif todo is not None:
                return self._pack_as(hook, tensor, *todo)
            else:
                return None, kept(tensor), tensor._version
        refuse_in_backward(tensor)
        return -1, kept(tensor), tensor._version

    def _pack_as(
        self, hook: int, tensor: torch.Tensor, kind: Kind, actions: list[Action]
    ) -> Any:
        number = kind.storage
        planned = number >= 0 and self._script.planned[number]
        shift = tensor.storage_offset() - kind.layout.offset
        whole = kind.pack, kept(tensor), tensor._version
        if number >= 0 and (
            tensor.stride() != kind.layout.stride
            or shift < 0
            or (planned and shift != 0)
            or self._is_parameter(tensor)
        ):
            self._depart(_saves(tensor), hook)
            return whole
        if number >= 0:
            whose = key_of(tensor), tensor._version, shift
            if self._whose.setdefault(number, whose) != whose:
                self._depart("saves another tensor's memory", hook)
                return whole
        for which in self._looks.at(hook, tensor.grad_fn):
            if self._looks.seen[which] != self._again[which][2]:
                self._keep_from_now_on(self._again[which][0])
        if planned and number not in self._held and number not in self._versions:
            elements = flat(tensor)
            if number in self._script.narrow:
                elements = elements.to(self._script.narrow[number])
            self._keep(number, elements)
        self._act(actions)
        if number >= 0 and not planned:
            self._note(number, tensor, shift)
        if self.meter is not None:
            self.meter.look()
        return (kind.pack, None, 0) if planned else whole

    def _is_parameter(self, tensor: torch.Tensor) -> bool:
        """Or elsewhere, where the recording had a tensor of the device."""
        return tensor.device != self._device or (
            tensor.requires_grad and tensor.is_leaf
        )

    def _note(self, number: int, tensor: torch.Tensor, shift: int) -> None:
        """Of a storage that is not planned. An argument may be a slice that begins
        `shift` elements later than the recorded one."""
        size = self._script.sources[number]
        if size:
            count = size // tensor.element_size()
            self._held[number] = flat(tensor)[shift : shift + count]
        if self.meter is not None and not self._script.stays[number]:
            self.meter.saw(tensor)

    def unpack(self, handle: Any) -> torch.Tensor:
        hook = self._next
        self._next = hook + 1
        pack, whole, version = handle
        if self._follows:
            size, _, todo = self._hooks[hook]
            expected = None if todo is None else todo[0].pack
            if size is not None or expected != pack:
                self._depart("needs another tensor", hook)
            elif todo is not None:
                self._looks.at(hook, None)
                self._act(todo[1])
                if self.meter is not None:
                    self.meter.look()
        if whole is not None:
            if whole._version != version:
                raise changed_in_place(whole.dtype, tuple(whole.shape))
            return whole
        kind = self._saves[pack]
        elements = self._present(kind.storage)
        if elements._version != self._versions[kind.storage]:
            raise changed_in_place(kind.dtype, kind.layout.size)
        if elements.dtype != kind.dtype:
            elements = elements.to(kind.dtype)
        return kind.layout.of(elements)

    def _depart(self, found: str, hook: Optional[int] = None) -> None:
        """From now on nothing leaves."""
        self._follows = False
        expected = "its end"
        if hook is None:
            expected = f"{len(self._script.kinds)}"
        elif hook < len(self._script.kinds):
            expected = f"a step that {self._script.kinds[hook]}"
        self._say(f"it {found}, where {expected} was recorded")

    def _keep_from_now_on(self, number: int) -> None:
        """A storage that would have been computed again."""
        self._stays.add(number)
        self.outdated = True
        kind = self._kind_of(number)
        self._say(
            f"it makes saved tensor {kind.pack}, {kind.dtype} {kind.layout.size}, by "
            "other operators, numbers or parameters than when it was recorded"
        )

    def _say(self, unlike: str) -> None:
        self.unlike = self.unlike or unlike

    def _kind_of(self, number: int) -> Kind:
        return next(k for k in self._script.kinds if k.storage == number)

    # --- Actions.

    def _act(self, actions: list[Action]) -> None:
        for action, number in actions:
            if number in self._stays and action in ("drop", "recompute"):
                continue
            self._acts[action](number)

    def _present(self, number: int) -> torch.Tensor:
        """On the device, brought back if the step departed from the script."""
        if number not in self._held:
            if self._follows or self._next - 1 > self._last.get(number, -1):
                raise refuse(
                    "memory: the step",
                    f"it needs {self._kind_of(number)} again, which is gone: "
                    f"{self.unlike}",
                    "a step as it was recorded is accepted; it is recorded again now",
                )
            if number in self._away:
                self._fetch(number)
            else:
                self._recompute(number)
        if self._arriving.pop(number, False):
            self._link.arrived(number)
        return self._held[number]

    def _copy(self, number: int) -> None:
        self._link.copy(number, self._present(number), self._host[number])
        self._copying[number] = True
        self._away.add(number)

    def _drop(self, number: int) -> None:
        """The memory is reused in this stream's order, so after the copy."""
        if self._copying.pop(number, False):
            self._link.copied(number)
        if self._arriving.pop(number, False):
            self._link.arrived(number)
        elements = self._held.pop(number)
        if elements._version != self._versions[number]:
            kind = self._kind_of(number)
            raise changed_in_place(kind.dtype, kind.layout.size)

    def _forget(self, number: int) -> None:
        """Of a storage that is not planned, and that no recipe reads any more."""
        if not self._stays:  # else it may be read later
            del self._held[number]

    def _fetch(self, number: int) -> None:
        self._keep(number, self._link.fetch(number, self._host[number]))
        self._arriving[number] = True

    def _recompute(self, number: int) -> None:
        if not self._looks.holds(self._looked[number]):
            kind = self._kind_of(number)
            raise refuse(
                "memory: the step",
                f"it changes a parameter in place before saved tensor {kind.pack}, "
                f"{kind.dtype} {kind.layout.size}, is computed again with it",
                "a step that leaves parameters alone until the backward pass is done "
                'is accepted, or allow="offload"',
            )
        self._keep(number, self._script.recipes[number].recipe.run(self._present))

    def _keep(self, number: int, elements: torch.Tensor) -> None:
        self._held[number] = elements
        self._versions[number] = elements._version
        if self.meter is not None:
            self.meter.saw(elements)


def _saves(tensor: torch.Tensor) -> str:
    return f"saves {tensor.dtype} {tuple(tensor.shape)}"
