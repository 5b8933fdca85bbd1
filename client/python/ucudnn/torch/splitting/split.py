"""ucudnn.torch.split, and what it makes of a model."""

from __future__ import annotations

import copy
import itertools
import math
import operator
from typing import Any, Callable, Sequence

import torch
from torch import nn
from torch.nn import functional

from ucudnn.torch.checks import refuse, refuse_lazy, whole_number
from ucudnn.torch.convolution.places import unwrapped
from ucudnn.torch.splitting.layers import Layers

_MOST_PARTS = 64


def split(
    model: nn.Module,
    *example: Any,
    depth: float,
    parts: Sequence[int],
    stochastic: bool = False,
) -> Split:
    """Has the model compute its first layers in training in `parts`, rows and columns,
    of the image, one part after the other, which are joined behind the share `depth` of
    its convolutions (Split-CNN). So fewer of their activations are needed at once:
    ucudnn.torch.compile and memory plan them.

    This trains another network: at inner edges windows read padding in place of what
    lies in the next part, and normalizations have statistics of parts. With
    `stochastic` each step draws where the image is cut, up to a fifth of a part to
    either side; torch.compile leaves such a model as it is. In evaluation
    (`model.eval()`) the model is what it was. Parameters and `state_dict` stay. Hooks of
    convolutions and pools in parts do not run. Copies are split, pickles are not.

    `model(*example)` runs once; other batches are accepted later, other heights and
    widths are not. Raises InvalidArgument, by name, for what cannot be split so.
    """
    inner = unwrapped(model)
    refuse_lazy("split", inner)
    if not isinstance(depth, (int, float)) or not 0 < depth <= 1:
        raise refuse("split: depth", repr(depth), "a share up to 1 is accepted")
    if not isinstance(parts, Sequence) or len(parts) != 2:
        raise refuse("split: parts", repr(parts), "rows and columns are accepted")
    rows, columns = (whole_number("split: parts", n, 1) for n in parts)
    if not 1 < rows * columns <= _MOST_PARTS:
        told = f"2 to {_MOST_PARTS} in all are accepted"
        raise refuse("split: parts", f"{rows} x {columns}", told)
    if not inner.training or "forward" in vars(inner) or isinstance(inner, Splits):
        raise refuse(
            "split: the model",
            "in evaluation, split already, or with a forward of its own",
            "one in training whose class has its forward is accepted",
        )
    return Split(inner, Layers(inner, example, depth), (rows, columns), stochastic)


class Split:
    """What `split` did."""

    def __init__(
        self, model: nn.Module, layers: Layers, parts: tuple[int, int], stochastic: bool
    ) -> None:
        self.parts = parts
        self.stochastic = stochastic
        self.convolutions, self.of = layers.inside, layers.convolutions
        self.join = layers.told(layers.join)  # the last layer in parts
        self._model, self._plain = model, type(model)
        told = {
            "_plain": self._plain,
            "_stochastic": stochastic,
            "_compute": _in_parts(model, layers, parts, stochastic),
        }
        self._split = type(self._plain.__name__, (Splits, self._plain), told)
        model.__class__ = self._split

    def revert(self) -> None:
        """Makes the model what it was."""
        if type(self._model) is not self._split:
            told = f"a {type(self._model).__name__} that has changed since"
            raise refuse("split: revert", told, "the model as split is accepted")
        self._model.__class__ = self._plain

    def __str__(self) -> str:
        return (
            f"{self.convolutions} of {self.of} convolutions in {self.parts[0]} x "
            f"{self.parts[1]} parts, up to {self.join}"
            f"{', cut anew in each step' if self.stochastic else ''}"
        )


class Splits(nn.Module):
    """The first base of a split model's class."""

    _plain: Any  # the other base
    _stochastic: bool
    _compute: Callable[..., Any]

    def forward(self, *given: Any, **named: Any) -> Any:
        if not self.training:
            return self._plain.forward(self, *given, **named)
        return self._compute(*given, **named)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return other

    def __reduce_ex__(self, protocol: Any) -> Any:
        build, given, *state = super().__reduce_ex__(1)  # 2 insists on the class
        plain = (self._plain if one is type(self) else one for one in given)
        return (build, tuple(plain), *state)


def refuse_stochastic(place: str, model: Any) -> None:
    for module in model.modules() if isinstance(model, nn.Module) else ():
        if isinstance(module, Splits) and module._stochastic:
            raise refuse(
                f"{place}: the model", "split with stochastic cuts, another graph a step",
                "split without, or ucudnn.torch.memory, is accepted",
            )  # fmt: skip


def _in_parts(
    model: nn.Module, layers: Layers, parts: Sequence[int], stochastic: bool
) -> Callable[..., Any]:
    """The forward pass in training."""
    cuts = [layers.cuts(axis, n, stochastic) for axis, n in enumerate(parts)]
    forward = _forward(model, layers, parts)
    if not stochastic:
        where = layers.parts(cuts, lambda options: 0)
        return lambda self, *given, **named: forward(self, where, *given, **named)

    def drawn(self: Any, *given: Any, **named: Any) -> Any:
        where = layers.parts(cuts, lambda options: int(torch.randint(options, ())))
        return forward(self, where, *given, **named)

    return torch.compiler.disable(drawn, reason="cuts differ from step to step")


def _forward(model: nn.Module, layers: Layers, parts: Sequence[int]) -> Any:
    """A method of models of the class, whose first argument is `Layers.parts`. It reads
    modules and parameters as they are when it is called."""
    graph = torch.fx.Graph()
    where = graph.placeholder("where_")
    made: dict[Any, Any] = {}

    def of_part(one: dict[Any, Any], node: Any, told: Any) -> Any:
        if node is layers.image:
            return graph.call_function(_cropped, (made[node], told()))
        if not layers.windowed(node):
            return graph.node_copy(node, one.__getitem__)
        run = _convolved if issubclass(layers.kinds[node], nn.Conv2d) else _pooled
        read = one[node.all_input_nodes[0]]
        return graph.call_function(run, (graph.get_attr(node.target), read, told()))

    def copy_if(wanted: Callable[[Any], bool]) -> None:
        for node in layers.order:
            if node not in made and wanted(node):
                made[node] = graph.node_copy(node, made.__getitem__)

    copy_if(lambda node: node is layers.image or node not in layers.data)
    joined = []
    for number in range(parts[0] * parts[1]):
        numbers = itertools.count()

        def told() -> Any:
            part = graph.call_function(operator.getitem, (where, number))
            return graph.call_function(operator.getitem, (part, next(numbers)))

        one = dict(made)
        for node in [layers.image, *layers.windows]:
            one[node] = of_part(one, node, told)
        joined.append(one[layers.join])
    made[layers.join] = graph.call_function(_joined, (joined, parts[1]))
    copy_if(lambda node: node not in layers.windows)
    return type(torch.fx.GraphModule(model, graph)).forward


def _joined(parts: Sequence[torch.Tensor], columns: int) -> torch.Tensor:
    rows = range(0, len(parts), columns)
    return torch.cat([torch.cat(parts[n : n + columns], 3) for n in rows], 2)


def _cropped(image: torch.Tensor, where: Any) -> torch.Tensor:
    extents, (top, bottom), (left, right) = where
    if tuple(image.shape[2:]) != extents:
        told = f"{list(extents)}, as the model was split for, is accepted"
        raise refuse("split: the image", f"of {list(image.shape[2:])}", told)
    return image[:, :, top:bottom, left:right]


def _convolved(module: nn.Conv2d, read: torch.Tensor, pads: Any) -> torch.Tensor:
    left, right, top, bottom = pads
    padding = [top, left]
    if left != right or top != bottom or min(pads) < 0:
        read, padding = functional.pad(read, pads), [0, 0]
    return functional.conv2d(
        read, module.weight, module.bias, module.stride, padding, module.dilation,
        module.groups,
    )  # fmt: skip


def _pooled(module: Any, read: torch.Tensor, pads: Any) -> torch.Tensor:
    size, stride = module.kernel_size, module.stride
    if isinstance(module, nn.MaxPool2d):
        padded = functional.pad(read, pads, value=-math.inf)
        return functional.max_pool2d(padded, size, stride, 0, module.dilation)
    by = module.divisor_override
    padded = functional.pad(read, pads)
    return functional.avg_pool2d(padded, size, stride, divisor_override=by)
