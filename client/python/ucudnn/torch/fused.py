"""Batch normalization, sums and ReLU computed again in one pass over memory."""

from __future__ import annotations

import functools
from typing import Any, Callable, List, NamedTuple, Optional

import torch

from ucudnn.torch.recipes import Recipe, Source, Value
from ucudnn.torch.storages import flat

_MOST_INPUTS = 8  # of a kernel that PyTorch compiles while running


class _Form(NamedTuple):
    """relu(sum of x * scale + sum of y + shift): one scale for each
    normalization, whose sources are x, weight, bias, mean and invstd."""

    normalizations: List[List[Source]]
    others: List[Source]
    relu: bool


class FusedRecipe:
    """The same as the recipe that it is made of, rounded otherwise."""

    def __init__(self, form: _Form, reads: List[int]) -> None:
        self._form = form
        self.reads = reads

    def run(self, of_saved: Callable[[int], torch.Tensor]) -> torch.Tensor:
        def tensor(source: Source) -> torch.Tensor:
            if source.constant is not None:
                return source.constant
            assert source.value is not None and source.value.saved is not None
            return source.layout.of(of_saved(source.value.saved))

        with torch.no_grad():
            inputs: List[torch.Tensor] = []
            shift: Any = 0.0
            for sources in self._form.normalizations:
                x, weight, bias, mean, invstd = map(tensor, sources)
                scale = invstd * weight
                shift = shift + (bias - mean * scale)
                inputs += [x, *_parts(scale, x)]
            inputs += map(tensor, self._form.others)
            inputs += _parts(shift, inputs[0])
            split = inputs[0].dtype != torch.float32
            kernel = _kernel(
                len(self._form.normalizations), len(self._form.others), split,
                self._form.relu, inputs[0].device.type,
            )  # fmt: skip
            return flat(kernel(*inputs))


def _parts(values: torch.Tensor, x: torch.Tensor) -> List[torch.Tensor]:
    """One value for each channel of x in its type; in half precision two, whose
    sum is nearly as exact as float32."""
    shape = (1, -1) + (1,) * (x.dim() - 2)
    if x.dtype == torch.float32:
        return [values.view(shape)]
    high = values.to(x.dtype)
    low = (values - high.to(values.dtype)).to(x.dtype)
    return [high.view(shape), low.view(shape)]


@functools.lru_cache(maxsize=None)
def _kernel(
    normalizations: int, others: int, split: bool, relu: bool, device: str
) -> Callable[..., torch.Tensor]:
    """Sums up x, its scale (in two parts if split) for each normalization, the
    others, and the shift."""
    width = 3 if split else 2
    names = [f"v{i}" for i in range(normalizations * width + others + width - 1)]
    at = normalizations * width
    terms = [
        f"{names[i]} * ({' + '.join(names[i + 1 : i + width])})"
        for i in range(0, at, width)
    ]
    total = " + ".join([*terms, *names[at:]])
    if device != "cuda":
        code = compile(total, "the sum", "eval")

        def combined(*inputs: torch.Tensor) -> torch.Tensor:
            wide = [one.float() for one in inputs]
            result = eval(code, {}, dict(zip(names, wide)))
            return (result.relu() if relu else result).to(inputs[0].dtype)

        return combined
    arguments = ", ".join(f"T {name}" for name in names)
    # Not a maximum: what is not a number stays so.
    result = "y < T(0) ? T(0) : y" if relu else "y"
    made: Callable[..., torch.Tensor] = torch.cuda.jiterator._create_jit_fn(
        f"template <typename T> T sum_of({arguments}) "
        f"{{ T y = {total}; return {result}; }}"
    )
    return made


def fused(recipe: Recipe) -> Optional[FusedRecipe]:
    """None if the recipe has another form, or too many inputs."""
    steps = {id(step.value): step for step in recipe.steps}
    normalizations: List[List[Source]] = []
    others: List[Source] = []

    def collect(source: Source) -> bool:
        step = steps.get(id(source.value))
        if step is None:
            others.append(source)
            return source.constant is None
        if step.name == "normalization":
            normalizations.append(list(step.reads))
            return all(
                id(one.value) not in steps or one.constant is not None
                for one in step.reads
            )
        if step.name != "sum":
            return False
        return all(collect(one) for one in step.reads)

    last = recipe.steps[-1]
    relu = last.name == "relu"
    first = last.reads[0] if relu else _source_of(last.value, last.reads)
    if not collect(first) or not normalizations:
        return None
    x = normalizations[0][0]
    same = all(one.layout.size == x.layout.size for one in others) and all(
        one[0].layout.size == x.layout.size for one in normalizations
    )
    inputs = 3 * len(normalizations) + len(others) + 2
    if not same or inputs > _MOST_INPUTS:
        return None
    return FusedRecipe(_Form(normalizations, others, relu), recipe.reads)


def _source_of(value: Value, reads: Any) -> Source:
    return Source(value, None, reads[0].layout)
