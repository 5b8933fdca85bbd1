"""Which operator made what each storage holds, during a forward pass."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ucudnn.torch.nested import tensors_in
from ucudnn.torch.saved.storages import Layout, key_of, layout_of
from ucudnn.torch.saved.watching import in_backward

# What may run again, often in less time than the link to the host takes; the plan
# knows what each one takes.
OPERATORS = {
    "relu", "relu_", "add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_",
    "sigmoid", "sigmoid_", "silu", "silu_", "gelu", "hardtanh", "hardtanh_",
    "hardswish", "hardswish_", "hardsigmoid", "hardsigmoid_", "leaky_relu",
    "leaky_relu_", "tanh", "tanh_", "clamp", "clamp_", "clamp_min", "clamp_min_",
    "cat", "max_pool2d_with_indices", "avg_pool2d", "_to_copy", "convolution",
}  # fmt: skip
NORMALIZATIONS = {"native_batch_norm", "cudnn_batch_norm"}
# Narrower types for the indices of pools, the smallest first.
_INDICES = [torch.int16, torch.uint16, torch.int32]


class Call:
    """An operator that ran. Tensors among its arguments are Sources."""

    def __init__(
        self, func: Any, args: Any, kwargs: Any, hook: int = 0, node: int = -1
    ) -> None:
        self.func = func
        self.name = func._schema.name.partition("::")[2]
        self.args, self.kwargs = args, kwargs
        self.hook = hook  # the next one after it
        self.node = node  # autograd's number of its node, if it has one
        self.outputs: list[Value] = []


class Value:
    """What a storage holds from one write to the next."""

    def __init__(
        self, call: Optional[Call], output: int, node: Optional[int] = None
    ) -> None:
        self.call = call  # none: what cannot be computed again
        self.output = output
        self.node = node  # of the operator that made it; none: not this step's
        self.saved: Optional[int] = None  # the number of the saved storage


class Source(NamedTuple):
    """A tensor that an operator read."""

    value: Optional[Value]
    constant: Optional[torch.Tensor]  # a parameter
    layout: Layout
    tracked: bool = True  # autograd's graph tells which view of the storage it is


class OperatorRecorder(TorchDispatchMode):
    """Follows which operator wrote each storage last, during the forward pass.
    `changed` is told the key of each storage that is written in place, `next_hook`
    tells where the step is."""

    def __init__(
        self, changed: Callable[[int], None], next_hook: Callable[[], int]
    ) -> None:
        super().__init__()
        self._changed = changed
        self._next_hook = next_hook
        self._values: dict[int, Value] = {}

    def save(self, tensor: torch.Tensor, number: int) -> Value:
        """Notes that the tensor's storage is saved under this number."""
        value = self._values.setdefault(key_of(tensor), Value(None, 0))
        value.saved = number
        return value

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if in_backward():
            return func(*args, **kwargs)
        # Of the node that autograd has just made, if it made one.
        node = torch._C._autograd._get_sequence_nr() - 1
        call = Call(func, *self._sources(func, args, kwargs), self._next_hook(), node)
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
            self._values[key] = Value(None, 0, node)
        outputs = result if isinstance(result, (tuple, list)) else [result]
        for index, output in enumerate(outputs):
            if not isinstance(output, torch.Tensor):
                continue
            key = key_of(output)
            if key in before and key not in written:
                continue  # a view
            whole = output.dim() > 0 and layout_of(output).whole(output)
            value = Value(call if whole else None, index, node)
            call.outputs.append(value)
            self._values[key] = value
        return result

    def _sources(self, func: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments with Sources in place of tensors, of what can run again."""
        name = func._schema.name.partition("::")[2]
        if name not in {*OPERATORS, *NORMALIZATIONS}:
            return (), {}
        return self._source(args), {n: self._source(v) for n, v in kwargs.items()}

    def _source(self, item: Any) -> Any:
        if isinstance(item, (list, tuple)):
            return type(item)(self._source(one) for one in item)
        if not isinstance(item, torch.Tensor):
            return item
        value = self._values.get(key_of(item))
        if (
            value is None
            and isinstance(item, torch.nn.Parameter)
            and item.requires_grad
        ):
            return Source(None, item, layout_of(item))
        if value is None:  # an input, which may be saved later
            value = self._values[key_of(item)] = Value(None, 0)
        return Source(value, None, layout_of(item), item.requires_grad)


def narrow_types(value: Value) -> list[torch.dtype]:
    """If the value is the indices of a max pool, the types that can hold them, the
    smallest first; an index counts the elements of a plane."""
    call = value.call
    if call is None or call.name != "max_pool2d_with_indices" or value.output != 1:
        return []
    height, width = call.args[0].layout.size[-2:]
    return [t for t in _INDICES if height * width - 1 <= torch.iinfo(t).max]
