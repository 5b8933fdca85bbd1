"""Batch normalizations channels first with the sum and the ReLU behind them, which
cuDNN has no operation for: by kernels compiled while running."""

from __future__ import annotations

import functools
import struct
from typing import Dict

import torch

from ucudnn.convolutions import NormBackward, NormForward
from ucudnn.errors import Error
from ucudnn.torch.kernels import Kernel, processors
from ucudnn.torch.normalization.calls import NormCall
from ucudnn.torch.normalization.plane_source import THREADS, source_of, width_of

# Of a multiprocessor at once.
_BLOCKS = 4
_MOST_PARTS = 64
_SUMS_BYTES = 8  # two float32
_COUNTS = 2**31


class PlaneNorm:
    """One prepared normalization, as `ucudnn.convolutions.Normalization`. Any thread
    may use it, on the current stream. Raises Error where it cannot run."""

    def __init__(self, call: NormCall) -> None:
        images, channels, height, width = call.input
        if images * channels * height * width >= _COUNTS:
            raise Error(f"channels first, it has more than {_COUNTS - 1} elements")
        pack = width_of(call.dtype, height * width)
        plane = height * width // pack
        packs = images * plane
        try:
            wanted = _BLOCKS * processors(call.device) // channels
            self._kernels = _kernels(call.dtype, pack, call.adds, call.device)
        except (OSError, AttributeError, RuntimeError) as error:
            raise Error(f"channels first, its kernels: {error}") from error
        parts = max(1, min(wanted, packs // THREADS, _MOST_PARTS))
        self._counts = (packs, channels, plane, parts)
        self._blocks = channels * parts
        self.reserve = packs * channels if call.adds else 0
        self.forward_workspace = self._blocks * _SUMS_BYTES
        self.backward_workspace = self.forward_workspace

    def forward(self, stream: int, operands: NormForward, workspace: int) -> None:
        told = operands
        self._launch("moments", told.x, workspace)
        self._launch(
            "forward", told.x, told.z, told.scale, told.bias, told.running_mean,
            told.running_variance, _bits(told.momentum), _bits(told.epsilon), told.y,
            told.mean, told.inverse_deviation, told.reserve, workspace,
        )  # fmt: skip

    def backward(self, stream: int, operands: NormBackward, workspace: int) -> None:
        told = operands
        common = (
            told.x, told.dy, told.scale, told.bias, told.mean,
            told.inverse_deviation,
        )  # fmt: skip
        self._launch("reduce", *common, told.reserve, told.dz, workspace)
        self._launch(
            "backward", *common, told.dz, told.dx, told.dscale, told.dbias, workspace
        )

    def _launch(self, name: str, *operands: "int | None") -> None:
        arguments = [*(one or 0 for one in operands), *self._counts]
        try:
            self._kernels[name].launch(self._blocks, THREADS, arguments)
        except RuntimeError as error:
            raise Error(str(error)) from error


def _bits(number: float) -> int:
    """A double as a kernel's argument."""
    told: int = struct.unpack("<Q", struct.pack("<d", number))[0]
    return told


@functools.lru_cache(maxsize=None)
def _kernels(
    dtype: torch.dtype, width: int, adds: bool, device: torch.device
) -> Dict[str, Kernel]:
    source = source_of(dtype, width, adds)
    names = ("moments", "forward", "reduce", "backward")
    return {name: Kernel(source, name, device) for name in names}
