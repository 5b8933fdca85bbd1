"""How saved tensors can be computed again from others: element-wise operators,
pools, convolutions, and batch normalization from its saved statistics."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ucudnn.torch.saved.storages import Layout, flat, key_of, layout_of, tensors_in

# Often cheaper than the link to the host; the plan knows what each one takes.
_OPERATORS = {
    "relu", "relu_", "add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_",
    "sigmoid", "sigmoid_", "silu", "silu_", "gelu", "hardtanh", "hardtanh_",
    "hardswish", "hardswish_", "hardsigmoid", "hardsigmoid_", "leaky_relu",
    "leaky_relu_", "tanh", "tanh_", "clamp", "clamp_", "clamp_min", "clamp_min_",
    "cat", "max_pool2d_with_indices", "avg_pool2d", "constant_pad_nd",
    "_to_copy", "convolution",
}  # fmt: skip
_NORMALIZATIONS = {"native_batch_norm", "cudnn_batch_norm"}
# One operator for a normalization, the sum and the ReLU behind it.
_FUSED = "norm_sum_relu"
_MOST_STEPS = 8
_MOST_BLOCKS = 5
# Narrower types for the indices of pools, the smallest first; PyTorch has uint16
# since 2.3.
_INDICES = [
    getattr(torch, name)
    for name in ("int16", "uint16", "int32")
    if hasattr(torch, name)
]
# In place of a step's code.
NORMALIZATION = "normalization"
# Expressions of C, rounded as PyTorch does, of the float32 values that are read.
_CODES = {
    "relu": "{0} < 0.0f ? 0.0f : {0}",
    "silu": "{0} / (1.0f + expf(-{0}))",
    "sigmoid": "1.0f / (1.0f + expf(-{0}))",
    "hardswish": "{0} * fminf(fmaxf({0} + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f)",
}


class Call:
    """An operator that ran. Tensors among its arguments are Sources."""

    def __init__(self, func: Any, args: Any, kwargs: Any) -> None:
        self.func = func
        self.name = func._schema.name.partition("::")[2]
        self.args, self.kwargs = args, kwargs
        self.outputs: List[Value] = []


class Value:
    """What a storage holds from one write to the next."""

    def __init__(self, call: Optional[Call], output: int) -> None:
        self.call = call  # none: what cannot be computed again
        self.output = output
        self.saved: Optional[int] = None  # the number of the saved storage
        self.rounded = True  # once it is made, to its type


class Source(NamedTuple):
    """A tensor that an operator read."""

    value: Optional[Value]
    constant: Optional[torch.Tensor]  # a parameter
    layout: Layout


class Step(NamedTuple):
    code: str  # one element of it in C, or NORMALIZATION; "": it has none
    value: Value
    run: Callable[..., torch.Tensor]  # of the tensors that it reads
    reads: Tuple[Source, ...]


class Recipe:
    """Computes a saved storage again from those in `reads`."""

    def __init__(self, steps: List[Step], reads: List[int]) -> None:
        self.steps = steps
        self.reads = reads

    @property
    def by_element(self) -> bool:
        return all(step.code for step in self.steps)

    def run(self, of_saved: Callable[[int], torch.Tensor]) -> torch.Tensor:
        """The flat contents, given those of the storages that it reads."""
        made: Dict[int, torch.Tensor] = {}

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


class OperatorRecorder(TorchDispatchMode):
    """Follows which operator wrote each storage last, during the forward pass.
    `changed` is told the key of each storage that is written in place."""

    def __init__(
        self, is_forward: Callable[[], bool], changed: Callable[[int], None]
    ) -> None:
        super().__init__()
        self._is_forward = is_forward
        self._changed = changed
        self._values: Dict[int, Value] = {}

    def save(self, tensor: torch.Tensor, number: int) -> Value:
        """Notes that the tensor's storage is saved under this number."""
        value = self._values.setdefault(key_of(tensor), Value(None, 0))
        value.saved = number
        return value

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self._is_forward():
            return func(*args, **kwargs)
        call = Call(func, *self._sources(func, args, kwargs))
        before = {key_of(t) for t in tensors_in((args, kwargs))}
        result = func(*args, **kwargs)
        written = {
            key_of(tensor)
            for argument, tensor in zip(func._schema.arguments, args)
            if argument.alias_info is not None
            and argument.alias_info.is_write
            and isinstance(tensor, torch.Tensor)
        }
        for key in written:
            self._changed(key)
            self._values[key] = Value(None, 0)
        outputs = result if isinstance(result, (tuple, list)) else [result]
        for index, output in enumerate(outputs):
            if not isinstance(output, torch.Tensor):
                continue
            key = key_of(output)
            if key in before and key not in written:
                continue  # a view
            whole = output.dim() > 0 and layout_of(output).whole(output)
            value = Value(call if whole else None, index)
            call.outputs.append(value)
            self._values[key] = value
        if call.name == _FUSED and call.outputs[0].call is not None:
            self._values[key_of(result[0])] = _unfused(call, layout_of(result[0]))
        return result

    def _sources(self, func: Any, args: Any, kwargs: Any) -> Tuple[Any, Any]:
        """The arguments with Sources in place of tensors, of what can run again."""
        name = func._schema.name.partition("::")[2]
        if name not in {*_OPERATORS, *_NORMALIZATIONS, _FUSED}:
            return (), {}
        return self._source(args), {n: self._source(v) for n, v in kwargs.items()}

    def _source(self, item: Any) -> Any:
        if isinstance(item, (list, tuple)):
            return type(item)(self._source(one) for one in item)
        if not isinstance(item, torch.Tensor):
            return item
        value = self._values.get(key_of(item))
        if value is None and item.is_leaf and item.requires_grad:
            return Source(None, item, layout_of(item))
        if value is None:  # an input, which may be saved later
            value = self._values[key_of(item)] = Value(None, 0)
        return Source(value, None, layout_of(item))


def recipe_of(
    value: Value, is_saved: Callable[[int], bool], most_steps: int = _MOST_STEPS
) -> Optional[Recipe]:
    """How to compute `value` again from storages for which `is_saved`."""
    search = _Search(is_saved, most_steps)
    if not search.visit(value, True) or not search.reads:
        return None
    return Recipe(_in_place(search.steps), search.reads)


def _in_place(steps: Sequence[Step]) -> List[Step]:
    """The steps, with those in place that were so in the program and that alone
    read what a step before has made."""
    readers: Dict[int, int] = {}
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
            step = step._replace(run=_running(step.value, call, call.func)[0])
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
        self._depths: List[int] = []  # by storage: 0 for what is kept
        self._ends: List[bool] = []  # by storage: has no deep recipe

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
        return recipe_of(
            value, lambda other: other < number and self._usable(other)
        )

    def deep(self, number: int) -> Optional[Recipe]:
        value = self._values[number]
        while len(self._depths) <= number:
            self._add()
        if value is None or self._ends[number]:
            return None
        if self._depths[number] == 0:
            return self.shallow(number)

        def is_kept(other: int) -> bool:
            return (
                other < number
                and self._usable(other)
                and self._depths[other] == 0
            )

        return recipe_of(value, is_kept, _MOST_STEPS * _MOST_BLOCKS)


def narrow_types(value: Value) -> List[torch.dtype]:
    """If the value is the indices of a max pool, the types that can hold them, the
    smallest first; an index counts the elements of a plane."""
    call = value.call
    if call is None or call.name != "max_pool2d_with_indices" or value.output != 1:
        return []
    height, width = call.args[0].layout.size[-2:]
    return [t for t in _INDICES if height * width - 1 <= torch.iinfo(t).max]


class _Search:
    """For the steps that compute a value, each after those that it reads."""

    def __init__(self, is_saved: Callable[[int], bool], most_steps: int) -> None:
        self.steps: List[Step] = []
        self.reads: List[int] = []
        self._is_saved = is_saved
        self._most_steps = most_steps
        self._done: Dict[int, Value] = {}

    def visit(self, one: Value, target: bool) -> bool:
        if id(one) in self._done:
            return True
        if not target and one.saved is not None and self._is_saved(one.saved):
            if one.saved not in self.reads:
                self.reads.append(one.saved)
            return True
        step = _step_of(one)
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


def _step_of(value: Value) -> Optional[Step]:
    call = value.call
    if call is None:
        return None
    if call.name in _NORMALIZATIONS:
        return _normalization(value, call)
    if call.name not in _OPERATORS:
        return None
    func = call.func
    if call.name.endswith("_"):
        packet = getattr(torch.ops.aten, call.name[:-1])
        func = getattr(packet, func._overloadname, None)
        if func is None:
            return None
    run, reads = _running(value, call, func)
    return Step(_code_of(call), value, run, tuple(reads))


def _running(
    value: Value, call: Call, func: Any
) -> Tuple[Callable[..., torch.Tensor], List[Source]]:
    """What computes the value by `func`, and the tensors that it reads."""
    reads: List[Source] = []
    args = _emptied(call.args, reads)
    kwargs = {n: _emptied(item, reads) for n, item in call.kwargs.items()}
    output = value.output

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        result = func(
            *_filled(args, tensors),
            **{n: _filled(item, tensors) for n, item in kwargs.items()},
        )
        return result[output] if isinstance(result, (tuple, list)) else result

    return run, reads


def _unfused(call: Call, layout: Layout) -> Value:
    """The first result of _FUSED as made by the operators that it stands for, of
    which only the last one rounds."""
    taken, addend, weight, bias = call.args[:4]
    eps = call.args[7]
    aten = torch.ops.aten
    normal = Call(
        aten.native_batch_norm.default,
        (taken, weight, bias, None, None, True, 0.0, eps), {},
    )  # fmt: skip
    value = Value(normal, 0)
    normal.outputs = [value, *call.outputs[1:3]]
    behind = [] if addend is None else [(aten.add.Tensor, (addend,))]
    for func, others in [*behind, (aten.relu.default, ())]:
        value.rounded = False
        value = Value(Call(func, (Source(value, None, layout), *others), {}), 0)
        assert value.call is not None
        value.call.outputs = [value]
    return value


class _Place:
    def __init__(self, index: int) -> None:
        self.index = index


# Functions of their own: inner ones that call themselves would keep tensors until
# garbage is collected.
def _emptied(item: Any, reads: List[Source]) -> Any:
    """The argument with places for its Sources, which `reads` gets."""
    if isinstance(item, Source):
        reads.append(item)
        return _Place(len(reads) - 1)
    if isinstance(item, (list, tuple)):
        return type(item)(_emptied(one, reads) for one in item)
    return item


def _filled(item: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """The argument with tensors in their places."""
    if isinstance(item, _Place):
        return tensors[item.index]
    if isinstance(item, (list, tuple)):
        return type(item)(_filled(one, tensors) for one in item)
    return item


def _normalization(value: Value, call: Call) -> Optional[Step]:
    """y = (x - mean) * invstd * weight + bias, in one pass over x."""
    taken, weight, bias = call.args[:3]
    training, eps = call.args[5], call.args[7]
    if value.output != 0 or not training or len(call.outputs) < 3:
        return None
    statistics = call.outputs[1:3]
    if weight is None or bias is None:
        return None
    if any(one.saved is None for one in statistics):
        return None
    channels = Layout((-1,), (1,), 0)

    def run(
        x: torch.Tensor, w: torch.Tensor, b: torch.Tensor,
        mean: torch.Tensor, invstd: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        if x.device.type == "cuda":
            return torch.batch_norm_elemt(x, w, b, mean, invstd, eps)
        variance = invstd.pow(-2).sub_(eps)
        return torch.batch_norm(
            x, w, b, mean, variance, False, 0.0, eps, False
        )

    sources = tuple(Source(one, None, channels) for one in statistics)
    return Step(NORMALIZATION, value, run, (taken, weight, bias, *sources))


def _code_of(call: Call) -> str:
    name = call.name.rstrip("_")
    tensors = [a for a in call.args if isinstance(a, Source)]
    others = [a for a in call.args if not isinstance(a, Source)]
    if call.kwargs:
        return ""
    if name == "hardtanh" and len(others) == 2:
        low, high = (f"{float(limit)!r}f" for limit in others)
        return f"{{0}} < {low} ? {low} : ({{0}} > {high} ? {high} : {{0}})"
    if name == "add" and len(tensors) == 2 and not others:
        return "__fadd_rn({0}, {1})"
    return _CODES.get(name, "") if not others else ""
