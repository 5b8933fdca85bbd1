"""Element-wise recipes computed in one pass over memory: batch normalization from
its saved statistics, sums, and activations."""

from __future__ import annotations

import functools
import math
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch

from ucudnn.torch.kernels import ELEMENTS, VECTOR_BYTES, Kernel, processors
from ucudnn.torch.saved.fused_source import (
    NORMALS,
    THREADS,
    blocks_of,
    source_of,
)
from ucudnn.torch.saved.recipes import Recipe
from ucudnn.torch.saved.steps import NORMALIZATION
from ucudnn.torch.saved.storages import Layout
from ucudnn.torch.saved.values import Source


class _Form(NamedTuple):
    """The steps as statements of C, of the elements x0, x1, ... of `inputs` and
    the channels n0, n1, ... of `normalizations`: weight, bias, mean, invstd."""

    inputs: List[Source]
    normalizations: List[Tuple[Source, ...]]
    normal: str  # of NORMALS
    statements: List[str]
    last: str


class FusedRecipe:
    """The same as the recipe that it is made of, where CUDA kernels can be
    compiled."""

    def __init__(self, form: _Form, reads: List[int]) -> None:
        self._form = form
        self.reads = reads
        self.normal = form.normal  # how it rounds normalizations
        layout = form.inputs[0].layout
        self._channels = layout.size[1] if len(layout.size) > 1 else 1
        plane = plane_of(layout)
        assert plane is not None
        self._plane = plane
        self._kernel: Optional[Kernel] = None
        self._blocks = 0

    def run(self, of_saved: Callable[[int], torch.Tensor]) -> torch.Tensor:
        """Raises RuntimeError, OSError, AttributeError, or NotImplementedError
        where it does not run."""
        inputs = [_elements(source, of_saved) for source in self._form.inputs]
        parameters = [
            _elements(source, of_saved)
            for sources in self._form.normalizations
            for source in sources
        ]
        first = inputs[0]
        if self._kernel is None:
            self._prepare(inputs, parameters)
        assert self._kernel is not None
        out = torch.empty_like(first)
        addresses = [one.data_ptr() for one in (*inputs, *parameters)]
        self._kernel.launch(
            self._blocks,
            THREADS,
            [
                out.data_ptr(),
                first.numel(),
                self._channels,
                self._plane,
                *addresses,
            ],
        )
        return out

    def _prepare(
        self, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]
    ) -> None:
        first = inputs[0]
        weights = {one.dtype for one in (*parameters[::4], *parameters[1::4])}
        statistics = (*parameters[2::4], *parameters[3::4])
        if (
            first.dtype not in ELEMENTS
            or any(one.dtype != first.dtype for one in inputs)
            or any(one.numel() != first.numel() for one in inputs)
            or any(one.data_ptr() % VECTOR_BYTES != 0 for one in inputs)
            or weights not in (set(), {torch.float32}, {first.dtype})
            or any(one.dtype != torch.float32 for one in statistics)
            or any(one.numel() != self._channels for one in parameters)
        ):
            raise NotImplementedError("a fused recipe of these tensors")
        width = VECTOR_BYTES // first.element_size()
        self._blocks = blocks_of(
            first.numel(), width, self._channels, self._plane,
            processors(first.device),
        )  # fmt: skip
        elements = first.numel() + 3 * self._blocks * THREADS * width
        source = source_of(
            self._form.statements, self._form.last, len(inputs),
            len(self._form.normalizations), self._form.normal, first.dtype,
            torch.float32 not in weights, self._plane, elements >= 2**32,
        )  # fmt: skip
        self._kernel = _kernel(source, first.device)


AnyRecipe = Union[Recipe, FusedRecipe]


def _elements(
    source: Source, of_saved: Callable[[int], torch.Tensor]
) -> torch.Tensor:
    if source.constant is not None:
        return source.constant
    assert source.value is not None and source.value.saved is not None
    return of_saved(source.value.saved)


@functools.lru_cache(maxsize=None)
def _kernel(source: str, device: torch.device) -> Kernel:
    return Kernel(source, "again", device)


def fused(recipe: Recipe) -> List[FusedRecipe]:
    """Ways that differ in how they round; none if a step is not element-wise,
    tensors lie in memory in different orders, or one pass gains nothing."""
    names: Dict[int, str] = {}  # of the steps' results, by value
    inputs: List[Source] = []
    normalizations: List[Tuple[Source, ...]] = []
    statements: List[str] = []
    seen: Dict[int, str] = {}  # the inputs' names, by the saved storage
    for index, step in enumerate(recipe.steps):
        count = 1 if step.code == NORMALIZATION else len(step.reads)
        full, rest = step.reads[:count], step.reads[count:]
        if not step.code or any(id(one.value) in names for one in rest):
            return []
        read = []
        for source in full:
            if source.value is None or source.value.saved is None:
                name = names.get(id(source.value))
            else:
                name = names.get(id(source.value)) or seen.get(source.value.saved)
                if name is None:
                    name = seen[source.value.saved] = f"x{len(inputs)}"
                    inputs.append(source)
            if name is None or source.layout != full[0].layout:
                return []
            read.append(name)
        code = step.code
        if code == NORMALIZATION:
            code = f"normal({{0}}, n{len(normalizations)})"
            normalizations.append(tuple(rest))
        names[id(step.value)] = f"y{index}"
        made = code.format(*read)
        if step.value.rounded:
            made = f"kept({made})"
        statements.append(f"const float y{index} = {made};")
    layouts = {source.layout for source in inputs}
    if len(layouts) != 1 or plane_of(inputs[0].layout) is None:
        return []
    if not normalizations and len(recipe.steps) == 1:
        return []
    last = f"y{len(statements) - 1}"
    return [
        FusedRecipe(
            _Form(inputs, normalizations, normal, statements, last), recipe.reads
        )
        for normal in (NORMALS if normalizations else NORMALS[:1])
    ]


def plane_of(layout: Layout) -> Optional[int]:
    """How many elements of a channel lie side by side in a tensor without gaps;
    none if it has another order."""
    size, stride = layout.size, layout.stride
    if layout.offset != 0 or len(size) < 2:
        return None
    first = list(range(len(size)))
    last = [0, *first[2:], 1]
    for order in (last, first):
        expected = 1
        for axis in reversed(order):
            if size[axis] != 1 and stride[axis] != expected:
                break
            expected *= size[axis]
        else:
            return 1 if order is last else math.prod(size[2:])
    return None
