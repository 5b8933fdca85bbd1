"""Where the shared libraries are found, in this order:

1. where UCUDNN_LIBRARY says: a folder, or one of the libraries in it;
2. beside this package;
3. where the system's loader looks.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from ucudnn.errors import LibraryNotFound


def load(name: str) -> ctypes.CDLL:
    """Loads `name`, such as "libucudnn_solve.so.1"."""
    places = []
    chosen = os.environ.get("UCUDNN_LIBRARY")
    if chosen:
        path = Path(chosen)
        places.append(path.parent if ".so" in path.name else path)
    else:
        places.append(Path(__file__).parent)
    tried = []
    for place in places:
        file = place / name
        if not file.exists():
            tried.append(f"{file} does not exist")
            continue
        try:
            return ctypes.CDLL(str(file))
        except OSError as error:
            raise LibraryNotFound(str(error), 14) from error
    if not chosen:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
    raise LibraryNotFound(
        f"{name} cannot be loaded: {'; '.join(tried)}; UCUDNN_LIBRARY may name "
        "its folder",
        14,
    )
