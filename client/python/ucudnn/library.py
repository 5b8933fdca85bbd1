"""Loads the shared libraries from the first of these places:

1. UCUDNN_LIBRARY, if set: a folder, or one of the libraries in it;
2. this package's folder;
3. where the system's loader searches.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
from pathlib import Path
from typing import Any, List, Mapping, Optional, Union

from ucudnn.errors import LibraryNotFound, error_of


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
        f"{name} cannot be loaded: {'; '.join(tried)}; set UCUDNN_LIBRARY to "
        "its folder",
        14,
    )


@functools.lru_cache(maxsize=None)
def _solvers() -> ctypes.CDLL:
    library = load("libucudnn_solve.so.1")
    text = [ctypes.c_char_p, ctypes.c_size_t]
    request = ctypes.c_char_p
    answer = ctypes.POINTER(ctypes.c_void_p)
    arguments = {
        name: [*text, request, answer]
        for name in (
            "wr", "wd", "pareto", "times", "assign", "allocation", "joint_memory",
            "recorded_step",
        )
    }
    arguments["memory"] = [*text, *text, request, answer]
    arguments["check_memory_plan"] = [*text, *text, answer]
    arguments["read_plan"] = [*text, answer]
    for name, types in arguments.items():
        # An older library lacks what was added since.
        function = getattr(library, f"ucudnn_solve_{name}", None)
        if function is not None:
            function.argtypes = types
    library.ucudnn_solve_free.argtypes = [ctypes.c_void_p]
    library.ucudnn_solve_free.restype = None
    return library


def ask_solver(
    function: str,
    *inputs: Union[str, bytes, None],
    request: Optional[Mapping[str, Any]] = None,
) -> Any:
    """What `ucudnn_solve_FUNCTION` answers (ucudnn/solve.h), from JSON. An input
    that is None is passed as NULL; fields of the request that are None or empty
    are left out. Raises what errors.py says."""
    library = _solvers()
    arguments: List[Any] = []
    for text in inputs:
        data = text.encode() if isinstance(text, str) else text
        arguments += [data, len(data or b"")]
    if request is not None:
        given = {n: v for n, v in request.items() if v is not None and v != ""}
        arguments.append(json.dumps(given).encode())
    answer = ctypes.c_void_p()
    solve = getattr(library, f"ucudnn_solve_{function}", None)
    if solve is None:
        raise LibraryNotFound(
            f"libucudnn_solve.so.1 has no ucudnn_solve_{function}: it is older than "
            "this package; install a newer one",
            14,
        )
    status = solve(*arguments, ctypes.byref(answer))
    try:
        told = ctypes.string_at(answer.value).decode() if answer.value else ""
    finally:
        library.ucudnn_solve_free(answer)
    if status != 0:
        raise error_of(status, told or f"the solver failed with status {status}")
    return json.loads(told)
