"""The layers of a model that are computed in parts, how each reads its input, and where
that is cut."""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, Mapping, Sequence

import torch
from torch import nn
from torch.nn import functional

from ucudnn.torch.checks import refuse
from ucudnn.torch.convolution.calls import buffers_kept, per_axis
from ucudnn.torch.splitting.cuts import NoCut, Range, Step, Window, find_cuts

_WINDOWED = (nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d)
# What computes each place of an image for itself, but for statistics, which are of
# parts then.
_PLACEWISE = (
    nn.modules.batchnorm._BatchNorm, nn.GroupNorm, nn.InstanceNorm2d, nn.Identity,
    nn.Dropout, nn.Dropout2d, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SiLU,
    nn.GELU, nn.Mish, nn.Hardswish, nn.Hardsigmoid, nn.Sigmoid, nn.Tanh,
)  # fmt: skip
_FUNCTIONS = (
    operator.add, operator.iadd, operator.sub, operator.mul, operator.imul, torch.add,
    torch.mul, torch.cat, torch.relu, torch.sigmoid, torch.tanh, functional.relu,
    functional.relu6, functional.leaky_relu, functional.silu, functional.gelu,
    functional.hardswish, functional.dropout, "add", "mul", "relu", "sigmoid", "tanh",
)  # fmt: skip


class Layers:
    """Of a model, as it computes such an example in training: the shortest beginning
    with the share `depth` of the convolutions, rounded up, after which one tensor alone
    is live. Keeps none of the model's tensors."""

    def __init__(
        self, model: nn.Module, example: Sequence[torch.Tensor], depth: float
    ) -> None:
        self._trace(model, example)
        self.order = list(self.graph.nodes)
        at = {node: place for place, node in enumerate(self.order)}
        modules = dict(model.named_modules())
        self.kinds = {
            n: type(modules[n.target]) for n in self.order if n.op == "call_module"
        }
        images = [n for n in self.order if len(self.shapes[n]) == 4]
        if not images or images[0].op != "placeholder":
            raise refuse("split: the example", "no image", "one of 4 axes is accepted")
        self.image = images[0]
        self.data = {self.image}  # what depends on it
        for node in self.order:
            if self._read_by(node):
                self.data.add(node)
        self.join = self._find_join(depth, at)
        self.windows = {
            node: self._windows(node, modules.get(str(node.target)))
            for node in self.order[: at[self.join] + 1]
            if node in self.data and node is not self.image
        }

    def _trace(self, model: nn.Module, example: Sequence[torch.Tensor]) -> None:
        self.shapes: dict[Any, tuple[int, ...]] = {}
        try:
            self.graph = torch.fx.Tracer().trace(model)
            with torch.no_grad(), buffers_kept(model, example[0].device):
                _Shapes(model, self.shapes, self.graph).run(*example)
        except Exception as error:
            text = str(error).strip().partition("\n")[0]
            raise refuse(
                "split: the model", f"{type(error).__name__}: {text}",
                "one that torch.fx traces, with an example of its input, is accepted",
            ) from error  # fmt: skip

    def _read_by(self, node: Any) -> list[Any]:
        return [one for one in node.all_input_nodes if one in self.data]

    def _find_join(self, depth: float, at: Mapping[Any, int]) -> Any:
        found = {n for n, kind in self.kinds.items() if issubclass(kind, _CONVOLUTION)}
        wanted = math.ceil(depth * len(found) - 1e-9)
        self.inside, self.convolutions, deepest = 0, len(found), 0
        live: set[Any] = set()
        for node in self.order:
            self.inside += node in found
            live |= {node} & self.data
            live = {n for n in live if any(at[user] > at[node] for user in n.users)}
            if live == {node} and self.inside and len(self.shapes[node]) == 4:
                deepest = self.inside
                if deepest >= wanted:
                    return node
        raise refuse(
            "split: depth", f"{depth}, after which no tensor with height and width is "
            "live alone", f"up to {deepest} of {len(found)} convolutions is accepted",
        )  # fmt: skip

    def _windows(self, node: Any, module: Any) -> tuple[Window, Window]:
        """How the node reads height and width."""
        why, windowed = _unfit(module), isinstance(module, _WINDOWED)
        known = isinstance(module, _PLACEWISE) or node.target in _FUNCTIONS
        if not (known or windowed):
            why = "it may read more than a place of the image at once"
        extents = self.shapes[node][2:]
        for one in node.all_input_nodes:
            accepted = [extents] if one in self.data else [(1, 1), (1,), ()]
            if not (windowed or why or self.shapes[one][-2:] in accepted):
                why = f"it reads {list(self.shapes[one])} for {list(self.shapes[node])}"
        if why:
            raise refuse(
                f"split: {self.told(node)}", why,
                "convolutions, pools, normalizations and what computes each place for "
                "itself are accepted, or a depth that ends before it",
            )  # fmt: skip
        if not windowed:
            return Window(), Window()
        sizes = self.shapes[self._read_by(node)[0]][2:]
        height, width = (_window(module, n, sizes[n], extents[n]) for n in range(2))
        return height, width

    def told(self, node: Any) -> str:
        kind = self.kinds.get(node, node.target)
        return f"{node.target if node in self.kinds else node.name} ({_name(kind)})"

    def windowed(self, node: Any) -> bool:
        return issubclass(self.kinds.get(node, object), _WINDOWED)

    def cuts(self, axis: int, parts: int, stochastic: bool) -> list[list[dict[Any, int]]]:
        """Before each part but the first: where each tensor may be cut, evenly or up to
        a fifth of a part to either side."""
        steps = [
            Step(one, node, windows[axis])
            for node, windows in self.windows.items()
            for one in self._read_by(node)
        ]
        sizes = {n: self.shapes[n][axis + 2] for n in [self.image, *self.windows]}
        size = sizes[self.join]
        drift = size // (5 * parts) if stochastic else 0
        try:
            found = [
                [
                    find_cuts(steps, sizes, self.join, part * size // parts + by)
                    for by in range(-drift, drift + 1)
                ]
                for part in range(1, parts)
            ]
            for earlier, later in zip(found, found[1:]):
                for node in sizes:
                    if earlier[-1][node] >= later[0][node]:
                        raise NoCut(node)
        except NoCut as error:
            node = error.args[0]
            raise refuse(
                f"split: parts: {self.told(node)}", f"{parts} parts of {sizes[node]} "
                f"{('rows', 'columns')[axis]} cannot be cut as the other layers need it",
                "fewer parts, or a depth that ends before it, are accepted",
            ) from error  # fmt: skip
        return found

    def parts(
        self, cuts: Sequence[list[list[dict[Any, int]]]], draw: Callable[[int], int]
    ) -> list[tuple[Any, ...]]:
        """`cuts` of both axes, of which `draw` chooses one of so many. Of each part: its
        place in the image, and the padding of each windowed layer."""
        spans: list[list[_Span]] = []
        for axis, options in enumerate(cuts):
            ends = {n: self.shapes[n][axis + 2] for n in [self.image, *self.windows]}
            places = [one[draw(len(one))] for one in options]
            begins: dict[Any, int] = dict.fromkeys(ends, 0)
            spans.append(list(zip([begins, *places], [*places, ends])))
        return [self._part(rows, columns) for rows in spans[0] for columns in spans[1]]

    def _part(self, *spans: _Span) -> Any:
        def of(node: Any) -> list[Range]:
            return [(begins[node], ends[node]) for begins, ends in spans]

        pads = []
        for node, windows in self.windows.items():
            if self.windowed(node):
                every = zip(windows, of(self._read_by(node)[0]), of(node))
                outputs = self.shapes[node][2:]
                rows, columns = (
                    window.pads(part, output, all_of_them)
                    for (window, part, output), all_of_them in zip(every, outputs)
                )
                pads.append((*columns, *rows))
        return (self.shapes[self.image][2:], *of(self.image)), *pads


_CONVOLUTION = nn.modules.conv._ConvNd
_Span = tuple[dict[Any, int], dict[Any, int]]  # where tensors of a part begin and end


class _Shapes(torch.fx.Interpreter):
    """Notes the shape of each result; () of what is no tensor."""

    def __init__(self, model: nn.Module, shapes: dict[Any, Any], graph: Any) -> None:
        super().__init__(model, graph=graph)
        self._shapes = shapes

    def run_node(self, node: Any) -> Any:
        result = super().run_node(node)
        shape = result.shape if isinstance(result, torch.Tensor) else ()
        self._shapes[node] = tuple(shape)
        return result


def _name(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))


def _unfit(module: Any) -> str:
    """Why such a module cannot be split; "" if it can."""
    if getattr(module, "padding_mode", "zeros") != "zeros":
        return f"it pads by {module.padding_mode!r}"
    if getattr(module, "return_indices", False):
        return "it returns indices"
    if not getattr(module, "count_include_pad", True):
        return "its means leave padding out"
    if isinstance(module, nn.AvgPool2d) and module.ceil_mode:
        return "its last windows are smaller"
    return ""


def _window(module: Any, axis: int, size: int, outputs: int) -> Window:
    def at_axis(value: Any) -> int:
        return per_axis([value] if isinstance(value, int) else value, 2)[axis]

    extent = at_axis(getattr(module, "dilation", 1)) * (at_axis(module.kernel_size) - 1) + 1
    stride, before = at_axis(module.stride), module.padding
    if isinstance(before, str):
        before = (extent - 1) // 2 if before == "same" else 0
    before = at_axis(before)
    # Of what no window reads, less than nothing.
    return Window(extent, stride, before, (outputs - 1) * stride + extent - size - before)
