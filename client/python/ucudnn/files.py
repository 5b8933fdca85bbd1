"""Files that functions take by their paths."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Union

from ucudnn.errors import InvalidArgument

PathLike = Union[str, Path]


def read_bytes(path: PathLike) -> bytes:
    """The contents, decompressed if they are gzip's."""
    data = Path(path).read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def read_json(path: PathLike) -> Any:
    """The contents. Raises InvalidArgument if they are not JSON."""
    try:
        return json.loads(Path(path).read_text())
    except ValueError as error:
        raise InvalidArgument(f"{path}: not JSON: {error}") from error


def write_json(path: PathLike, value: Any) -> None:
    Path(path).write_text(json.dumps(value, indent=2) + "\n")
