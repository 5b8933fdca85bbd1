"""How saved tensors can be computed again from others: element-wise operators,
pools, and batch normalization from its saved statistics."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ucudnn.torch.storages import Layout, flat, key_of, layout_of, tensors_in

# Deterministic and bound by memory: cheaper than the link to the host.
_CHEAP = {
    "relu", "relu_", "add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_",
    "sigmoid", "sigmoid_", "silu", "silu_", "gelu", "hardtanh", "hardtanh_",
    "hardswish", "hardswish_", "hardsigmoid", "hardsigmoid_", "leaky_relu",
    "leaky_relu_", "tanh", "tanh_", "clamp", "clamp_", "clamp_min", "clamp_min_",
    "cat", "max_pool2d_with_indices", "avg_pool2d", "constant_pad_nd",
}  # fmt: skip
_NORMALIZATIONS = {"native_batch_norm", "cudnn_batch_norm"}
_MOST_STEPS = 8


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


class Source(NamedTuple):
    """A tensor that an operator read."""

    value: Optional[Value]
    constant: Optional[torch.Tensor]  # a parameter
    layout: Layout


class Step(NamedTuple):
    name: str  # "normalization", "sum" of two tensors, "relu", or another
    value: Value
    run: Callable[..., torch.Tensor]  # of the tensors that it reads
    reads: Tuple[Source, ...]


class Recipe:
    """Computes a saved storage again from those in `reads`."""

    def __init__(self, steps: List[Step], reads: List[int]) -> None:
        self.steps = steps
        self.reads = reads

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

        with torch.no_grad():
            for step in self.steps:
                result = step.run(*[tensor(source) for source in step.reads])
                made[id(step.value)] = flat(result)
            return made[id(self.steps[-1].value)]


class OperatorRecorder(TorchDispatchMode):
    """Follows which operator wrote each storage last, during the forward pass."""

    def __init__(self, is_forward: Callable[[], bool]) -> None:
        super().__init__()
        self._is_forward = is_forward
        self._values: Dict[int, Value] = {}
        self._changed: Callable[[int], None] = lambda key: None

    def on_change(self, changed: Callable[[int], None]) -> None:
        """`changed` is told the key of each storage that is written in place."""
        self._changed = changed

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
        return result

    def _sources(self, func: Any, args: Any, kwargs: Any) -> Tuple[Any, Any]:
        """The arguments with Sources in place of tensors, for cheap operators."""
        name = func._schema.name.partition("::")[2]
        if name not in _CHEAP and name not in _NORMALIZATIONS:
            return (), {}

        def source(item: Any) -> Any:
            if isinstance(item, (list, tuple)):
                return type(item)(source(one) for one in item)
            if not isinstance(item, torch.Tensor):
                return item
            constant = None
            value = self._values.get(key_of(item))
            if value is None and item.is_leaf and item.requires_grad:
                constant = item
            return Source(value, constant, layout_of(item))

        return source(args), {n: source(v) for n, v in kwargs.items()}


def recipe_of(value: Value, is_saved: Callable[[int], bool]) -> Optional[Recipe]:
    """How to compute `value` again from storages for which `is_saved`."""
    steps: List[Step] = []
    reads: List[int] = []
    done: Dict[int, Value] = {}

    def visit(one: Value, target: bool) -> bool:
        if id(one) in done:
            return True
        if not target and one.saved is not None and is_saved(one.saved):
            if one.saved not in reads:
                reads.append(one.saved)
            return True
        step = _step_of(one)
        if step is None or len(steps) >= _MOST_STEPS:
            return False
        for source in step.reads:
            if source.constant is not None:
                continue
            if source.value is None or not visit(source.value, False):
                return False
        steps.append(step)
        done[id(one)] = one
        return True

    if not visit(value, True):
        return None
    return Recipe(steps, reads)


def _step_of(value: Value) -> Optional[Step]:
    call = value.call
    if call is None:
        return None
    if call.name in _NORMALIZATIONS:
        return _normalization(value, call)
    if call.name not in _CHEAP:
        return None
    func = call.func
    if call.name.endswith("_"):
        packet = getattr(torch.ops.aten, call.name[:-1])
        func = getattr(packet, func._overloadname, None)
        if func is None:
            return None
    reads: List[Source] = []

    def collect(item: Any) -> Any:
        if isinstance(item, Source):
            reads.append(item)
            return _Place(len(reads) - 1)
        if isinstance(item, (list, tuple)):
            return type(item)(collect(one) for one in item)
        return item

    args = collect(call.args)
    kwargs = {name: collect(item) for name, item in call.kwargs.items()}
    output = value.output

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        result = func(
            *_filled(args, tensors),
            **{n: _filled(item, tensors) for n, item in kwargs.items()},
        )
        return result[output] if isinstance(result, (tuple, list)) else result

    return Step(_form_of(call), value, run, tuple(reads))


class _Place:
    def __init__(self, index: int) -> None:
        self.index = index


def _filled(item: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """The argument with tensors in their places. Not an inner function: one that
    calls itself would keep the tensors until garbage is collected."""
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
    return Step("normalization", value, run, (taken, weight, bias, *sources))


def _form_of(call: Call) -> str:
    name = call.name.rstrip("_")
    two = len(call.args) == 2 and all(isinstance(a, Source) for a in call.args)
    if name == "add" and two and not call.kwargs:
        return "sum"
    return "relu" if name == "relu" else ""
