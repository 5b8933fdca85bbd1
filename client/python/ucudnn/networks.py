"""Networks as the solvers take them: ONNX models, or convolutions as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, Optional, Sequence, SupportsIndex, Union

from ucudnn.files import PathLike, read_bytes
from ucudnn.sizes import as_int

NetworkLike = Union[PathLike, bytes]
# The sizes of a model's input without the batch, such as (3, 224, 224); where
# it has several inputs, by their names.
InputShapeLike = Union[Sequence[SupportsIndex], Mapping[str, Sequence[SupportsIndex]]]


def network_of(network: NetworkLike) -> tuple[bytes, str]:
    """Its contents, and the name that the command gives it."""
    if isinstance(network, bytes):
        return network, "network"
    name = Path(network).name
    for extension in (".gz", ".csv", ".onnx"):
        name = name.removesuffix(extension)
    return read_bytes(network), name


def shapes_of(shape: Optional[InputShapeLike]) -> Optional[list[str]]:
    """What a request has for the shapes; None for None."""
    if shape is None:
        return None
    if isinstance(shape, Mapping):
        return [f"{name}={_extents(sizes)}" for name, sizes in shape.items()]
    return [_extents(shape)]


def _extents(sizes: Sequence[SupportsIndex]) -> str:
    return ",".join(str(as_int(size)) for size in sizes)
