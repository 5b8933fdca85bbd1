"""The convolutions of a model, from meta tensors: without memory or ONNX."""

from __future__ import annotations

import csv
import io
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from ucudnn.torch.checks import refuse, refuse_lazy
from ucudnn.torch.convolution.calls import CONVOLUTIONS, per_axis
from ucudnn.torch.convolution.places import Places, unwrapped

_PLAIN = (
    "name", "C", "H", "W", "K", "R", "S", "pad_h", "pad_w", "stride_h",
    "stride_w", "groups",
)  # fmt: skip
# Of depth, height and width.
_EXTENTS = (
    ("D", "H", "W"), ("T", "R", "S"), ("pad_d", "pad_h", "pad_w"),
    ("stride_d", "stride_h", "stride_w"), ("dilation_d", "dilation_h", "dilation_w"),
)  # fmt: skip
_DILATION = ("dilation_h", "dilation_w")
_DEPTH = ("D", "T", "pad_d", "stride_d", "dilation_d")
_FLAGS = ("transposed", "needs_input_gradient")


def network(model: torch.nn.Module, *example: Any, **keywords: Any) -> str:
    """The network CSV of a model: one row for each convolution in the order in
    which they run, as `ucudnn networks put`, `Session(network_csv=...)` and
    UCUDNN_NETWORK_FILE take it.

    `example` and `keywords` are what the model is called with; of tensors only
    shape and type count, so that they may be meta tensors too. The model runs
    once on tensors without memory and stays as it is: its mode decides which parts
    run. Rows are named after modules, with `#2` and so on where one runs again.
    Batch sizes are left out, and a transposed convolution is described by the one
    that it is the adjoint of. Raises InvalidArgument if the model cannot run so,
    such as one whose shapes depend on values, or if it has no convolution.
    """
    inner = unwrapped(model)
    refuse_lazy("network", inner)
    recorder = _Recorder()
    with recorder.following(inner), torch.enable_grad(), recorder:
        try:
            torch.func.functional_call(
                inner, _meta_state(inner), _meta(example), _meta(keywords)
            )
        except (RuntimeError, TypeError, ValueError) as error:
            text = str(error).strip().partition("\n")[0]
            raise refuse(
                f"network: {recorder.place}",
                f"{type(error).__name__}: {text}",
                "a model that runs on meta tensors is accepted, with an example "
                "of its input",
            ) from error
    if not recorder.rows:
        raise refuse(
            "network: the model",
            f"a {type(inner).__name__} that ran no convolution",
            "a model with convolutions is accepted",
        )
    return _csv(recorder.rows)


def _meta(value: Any) -> Any:
    """`value` with meta tensors in place of its tensors."""

    def replaced(item: Any) -> Any:
        if isinstance(item, torch.Tensor) and item.device.type != "meta":
            return torch.empty_like(
                item, device="meta", requires_grad=item.requires_grad
            )
        return item

    return tree_map(replaced, value)


def _meta_state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Meta tensors for all parameters and buffers; shared ones stay shared."""
    replaced: dict[int, torch.Tensor] = {}
    state = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if id(tensor) not in replaced:
                    replaced[id(tensor)] = torch.empty_like(
                        tensor, device="meta", requires_grad=tensor.requires_grad
                    )
                full = f"{prefix}.{name}" if prefix else name
                state[full] = replaced[id(tensor)]
    return state


class _Recorder(TorchDispatchMode):
    """Notes each convolution that runs, and in which module."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []  # of the CSV, with all columns
        self._places = Places()
        self.following = self._places.following
        self._names: dict[str, int] = {}

    @property
    def place(self) -> str:
        """The module that runs."""
        return self._places.now or "the model"

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = func._schema.name
        # Tensors that the model makes itself are on other devices.
        result = func(*_meta(args), **_meta(kwargs or {}))
        if name in CONVOLUTIONS:
            self._note(args, result)
        return result

    def _note(self, args: Any, output: torch.Tensor) -> None:
        taken, weight, _, stride, padding, dilation, transposed = args[:7]
        groups = args[8]
        # A transposed convolution is the adjoint of one from output to input.
        large = output if transposed else taken
        name = self.place if self.place != "the model" else "convolution"
        self._names[name] = self._names.get(name, 0) + 1
        if self._names[name] > 1:
            name = f"{name}#{self._names[name]}"
        row = {
            "name": name, "C": large.shape[1], "K": weight.shape[0], "groups": groups,
            "transposed": int(transposed),
            "needs_input_gradient": int(
                taken.requires_grad or not torch.is_grad_enabled()
            ),
        }  # fmt: skip
        axes = weight.dim() - 2
        for columns, values, neutral in zip(
            _EXTENTS,
            (
                large.shape[2:], weight.shape[2:], per_axis(padding, axes),
                per_axis(stride, axes), per_axis(dilation, axes),
            ),
            (1, 1, 0, 1, 1),
        ):  # fmt: skip
            # Of one dimension: the width.
            filled = [neutral, *values] if axes == 1 else values
            row.update(zip(columns[-len(filled) :], filled))
        self.rows.append(row)


def _csv(rows: list[dict[str, Any]]) -> str:
    columns = list(_PLAIN)
    if any(row.get(name, 1) != 1 for row in rows for name in _EXTENTS[-1]):
        columns += _DILATION
    if any("D" in row for row in rows):
        columns += _DEPTH
    if any(
        row["transposed"] or row["needs_input_gradient"] != (i > 0)
        for i, row in enumerate(rows)
    ):
        columns += _FLAGS
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
