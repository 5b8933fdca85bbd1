"""A plan as what each hook of the step does."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

import torch

from ucudnn.profiles import Buffer
from ucudnn.solve import solve_allocation
from ucudnn.torch.reserve import rounded
from ucudnn.torch.saved.planning import Solved
from ucudnn.torch.saved.recorded import Again, Kind, Saved

Action = tuple[str, int]  # what to do with which storage


class Slot(NamedTuple):
    """A storage's place in the arena."""

    offset: int
    bytes: int
    dtype: torch.dtype


class Script(NamedTuple):
    """What to do with each storage, and when."""

    kinds: list[Kind]
    planned: list[bool]  # by storage: the plan holds it
    stays: list[bool]  # other code holds it in any case
    # By storage: its bytes, if recipes need it, though it is not planned.
    sources: list[int]
    actions: list[list[Action]]  # by hook
    recipes: dict[int, Again]
    slots: dict[int, Slot]
    narrow: dict[int, torch.dtype]  # by storage: kept in this type

    @property
    def arena_bytes(self) -> int:
        return max((s.offset + s.bytes for s in self.slots.values()), default=0)


def script_of(solved: Solved) -> Script:
    told = solved.described
    recording, storages = told.recording, told.recording.storages
    actions = [
        (told.hooks[one.hook], one.action, told.storages[one.tensor])
        for one in solved.answer.actions
    ]
    recipes: dict[int, Again] = {}
    copied: dict[int, int] = {}  # by storage: the hook
    for hook, name, number in actions:
        again = storages[number].again
        if name == "recompute" and again is not None:
            recipes[number] = again
        if name == "copy":
            copied.setdefault(number, hook)
    narrow = {n: saved.dtype for n, saved in enumerate(storages) if saved.is_narrow}
    read = {n for again in recipes.values() for n in again.recipe.reads}
    # Storages that a plan does nothing with but drop them are left to PyTorch,
    # which drops them without hooks that cost the host time.
    busy = {n for _, name, n in actions if name != "drop"} | read | {*narrow}
    planned = [plans and n in busy for n, plans in enumerate(told.planned)]
    sources = [
        storages[n].bytes if n in read and not plans else 0
        for n, plans in enumerate(planned)
    ]
    by_hook: list[list[Action]] = [[] for _ in recording.kinds]
    for hook, name, number in actions:
        if number in busy:
            by_hook[hook].append((name, number))
    last = _last_needs(recording.kinds, sources, recipes, by_hook)
    for number, hook in last.items():
        by_hook[hook].append(("forget", number))
    stays = [saved.stays for saved in storages]
    return Script(
        recording.kinds, planned, stays, sources, by_hook, recipes,
        _slots(copied, storages), narrow,
    )  # fmt: skip


def _last_needs(
    kinds: Sequence[Kind],
    sources: Sequence[int],
    recipes: Mapping[int, Again],
    actions: Sequence[Sequence[Action]],
) -> dict[int, int]:
    """By source: the last hook that needs it or runs a recipe that reads it."""
    last: dict[int, int] = {}
    for hook, (kind, todo) in enumerate(zip(kinds, actions)):
        again = [recipes[n].recipe for name, n in todo if name == "recompute"]
        needed = {kind.storage, *(n for recipe in again for n in recipe.reads)}
        last.update((n, hook) for n in needed if n >= 0 and sources[n])
    return last


def _slots(copied: Mapping[int, int], storages: Sequence[Saved]) -> dict[int, Slot]:
    """Places in one arena, for storages that are on the host at different times.
    Each is taken from its copy to its last use, by which it has returned."""
    if not copied:
        return {}
    buffers = []
    for number, hook in copied.items():
        saved = storages[number]
        end = max(saved.uses) + 1
        buffers.append(Buffer(str(number), hook, end, rounded(saved.bytes, True)))
    placed = solve_allocation(buffers, time_limit=2.0)
    slots = {}
    for name, offset in placed.offsets.items():
        saved = storages[int(name)]
        slots[int(name)] = Slot(offset, saved.bytes, saved.dtype)
    return slots
