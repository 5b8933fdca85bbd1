"""Networks as the solvers take them: ONNX models, or convolutions as CSV."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Tuple, Union

from ucudnn.profiles import PathLike

NetworkLike = Union[PathLike, bytes]


def network_of(network: NetworkLike) -> Tuple[bytes, str]:
    """Its contents, and the name that the command gives it."""
    if isinstance(network, bytes):
        return network, "network"
    data = Path(network).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    name = Path(network).name
    for extension in (".gz", ".csv", ".onnx"):
        name = name.removesuffix(extension)
    return data, name
