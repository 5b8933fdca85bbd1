"""How saved tensors can be computed again from others."""

from __future__ import annotations

from typing import Callable, Optional, Sequence

import torch

from ucudnn.torch.saved.steps import Step, running, step_of
from ucudnn.torch.saved.storages import flat
from ucudnn.torch.saved.values import Source, Value, narrow_types

_MOST_STEPS = 8
_MOST_BLOCKS = 5


class Recipe:
    """Computes a saved storage again from those in `reads`."""

    def __init__(self, steps: list[Step], reads: list[int]) -> None:
        self.steps = steps
        self.reads = reads

    @property
    def by_element(self) -> bool:
        return all(step.by_element for step in self.steps)

    def run(self, of_saved: Callable[[int], torch.Tensor]) -> torch.Tensor:
        """The flat contents, given those of the storages that it reads."""
        made: dict[int, torch.Tensor] = {}

        def tensor(source: Source) -> torch.Tensor:
            if source.constant is not None:
                return source.constant
            value = source.value
            assert value is not None
            if id(value) in made:
                return source.layout.of(made[id(value)])
            assert value.saved is not None
            return source.layout.of(of_saved(value.saved))

        device = of_saved(self.reads[0]).device.type
        with torch.no_grad(), torch.autocast(device, enabled=False):
            for step in self.steps:
                result = step.run(*[tensor(source) for source in step.reads])
                made[id(step.value)] = flat(result)
            return made[id(self.steps[-1].value)]


def recipe_of(
    value: Value, is_saved: Callable[[int], bool], most_steps: int = _MOST_STEPS
) -> Optional[Recipe]:
    """How to compute `value` again from storages for which `is_saved`."""
    search = _Search(is_saved, most_steps)
    if not search.visit(value, True) or not search.reads:
        return None
    return Recipe(_in_place(search.steps), search.reads)


def _in_place(steps: Sequence[Step]) -> list[Step]:
    """The steps, with those in place that were so in the program and that alone
    read what a step before has made."""
    readers: dict[int, int] = {}
    for step in steps:
        for source in step.reads:
            readers[id(source.value)] = readers.get(id(source.value), 0) + 1
    made = {id(step.value) for step in steps}
    told = []
    for step in steps:
        call = step.value.call
        assert call is not None
        first = id(step.reads[0].value)
        if call.name.endswith("_") and first in made and readers[first] == 1:
            step = step._replace(run=running(step.value, call, call.func)[0])
        told.append(step)
    return told


class Recipes:
    """Those of a step's saved storages, of which `values` says how they were
    made. A shallow recipe reads whatever else is saved. So the outputs of residual
    blocks are each computed from the one before, and to compute one again all of
    them come back. A deep one, for what element-wise operators made, goes through up
    to _MOST_BLOCKS of them, and the next one has no deep recipe; of the others the
    deep recipe is the shallow one.
    """

    def __init__(
        self, values: Sequence[Optional[Value]], usable: Callable[[int], bool]
    ) -> None:
        self._values = values
        self._usable = usable  # whether a recipe may read the storage
        self._depths: list[int] = []  # by storage: 0 for what is kept
        self._ends: list[bool] = []  # by storage: has no deep recipe

    def _add(self) -> None:
        """The next storage, which may have been saved since."""
        number = len(self._depths)
        recipe = self.shallow(number)
        depth = 0
        if recipe is not None and recipe.by_element:
            depth = 1 + max(self._depths[other] for other in recipe.reads)
        self._ends.append(depth > _MOST_BLOCKS)
        self._depths.append(0 if depth > _MOST_BLOCKS else depth)

    def shallow(self, number: int) -> Optional[Recipe]:
        value = self._values[number]
        if value is None or narrow_types(value):
            return None
        return recipe_of(value, lambda other: other < number and self._usable(other))

    def deep(self, number: int) -> Optional[Recipe]:
        value = self._values[number]
        while len(self._depths) <= number:
            self._add()
        if value is None or self._ends[number]:
            return None
        if self._depths[number] == 0:
            return self.shallow(number)

        def is_kept(other: int) -> bool:
            return other < number and self._usable(other) and self._depths[other] == 0

        return recipe_of(value, is_kept, _MOST_STEPS * _MOST_BLOCKS)


class _Search:
    """For the steps that compute a value, each after those that it reads."""

    def __init__(self, is_saved: Callable[[int], bool], most_steps: int) -> None:
        self.steps: list[Step] = []
        self.reads: list[int] = []
        self._is_saved = is_saved
        self._most_steps = most_steps
        self._done: dict[int, Value] = {}

    def visit(self, one: Value, target: bool) -> bool:
        if id(one) in self._done:
            return True
        if not target and one.saved is not None and self._is_saved(one.saved):
            if one.saved not in self.reads:
                self.reads.append(one.saved)
            return True
        step = step_of(one)
        if step is None or len(self.steps) >= self._most_steps:
            return False
        for source in step.reads:
            if source.constant is not None:
                continue
            if source.value is None or not self.visit(source.value, False):
                return False
        self.steps.append(step)
        self._done[id(one)] = one
        return True
