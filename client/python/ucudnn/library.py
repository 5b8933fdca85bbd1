"""Loads the shared libraries from the first of these places:

1. UCUDNN_LIBRARY, if set: a folder, or one of the libraries in it;
2. this package's folder;
3. where the system's loader searches.
"""

from __future__ import annotations

import ctypes
import functools
import json
import operator
import os
import weakref
from numbers import Real
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

from ucudnn.errors import LibraryNotFound, error_of


def load(name: str) -> ctypes.CDLL:
    """Loads `name`, such as "libucudnn_solve.so.1"."""
    chosen = os.environ.get("UCUDNN_LIBRARY")
    folder = Path(chosen or Path(__file__).parent)
    file = (folder.parent if ".so" in folder.name else folder) / name
    if file.exists():
        try:
            return ctypes.CDLL(str(file))
        except OSError as error:
            raise LibraryNotFound(str(error)) from error
    tried = f"{file} does not exist"
    if not chosen:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            tried += f"; {error}"
    raise LibraryNotFound(
        f"{name} cannot be loaded: {tried}; set UCUDNN_LIBRARY to its folder"
    )


def declared(
    library: ctypes.CDLL, prefix: str, **functions: Sequence[Any]
) -> ctypes.CDLL:
    """The library, with the types of each function's result and arguments. An older
    one lacks what was added since."""
    for name, (result, *arguments) in functions.items():
        function = getattr(library, prefix + name, None)
        if function is not None:
            function.restype, function.argtypes = result, arguments
    return library


@functools.lru_cache(maxsize=None)
def _solvers() -> ctypes.CDLL:
    status = ctypes.c_int
    text = (ctypes.c_char_p, ctypes.c_size_t)
    request = ctypes.c_char_p
    profile = ctypes.c_void_p
    answer = ctypes.POINTER(ctypes.c_void_p)
    asked = (status, *text, request, answer)
    of_profile = (status, profile, request, answer)
    return declared(
        load("libucudnn_solve.so.1"),
        "ucudnn_solve_",
        assign=asked,
        allocation=asked,
        joint_memory=asked,
        recorded_step=asked,
        step_shares=asked,
        memory=(status, *text, *text, request, answer),
        check_memory_plan=(status, *text, *text, answer),
        read_plan=(status, *text, answer),
        profile_open=(status, *text, answer, answer),
        profile_wr=of_profile,
        profile_wd=of_profile,
        profile_pareto=of_profile,
        profile_times=of_profile,
        profile_ws=(status, profile, *text, request, answer),
        profile_close=(None, profile),
        free=(None, ctypes.c_void_p),
        last_least=(ctypes.c_int64,),
    )


def ask_solver(
    function: str,
    *inputs: Union[str, bytes, None],
    request: Optional[Mapping[str, Any]] = None,
) -> Any:
    """What `ucudnn_solve_FUNCTION` answers (ucudnn/solve.h), from JSON. An input
    that is None is passed as NULL; fields of the request that are None or empty
    are left out. Raises what errors.py says."""
    return _ask(function, _arguments(inputs, request))


class OpenedProfile:
    """Measurements that the library has parsed, for many questions from any
    thread."""

    def __init__(self, csv: str) -> None:
        """Raises InvalidArgument if the CSV is malformed."""
        self._handle = ctypes.c_void_p()
        error = ctypes.c_void_p()
        status = _function("profile_open")(
            *_arguments([csv], None), ctypes.byref(self._handle), ctypes.byref(error)
        )
        _text_of(status, error)
        weakref.finalize(self, _function("profile_close"), self._handle)

    def ask(
        self, problem: str, *inputs: Union[str, bytes, None], request: Mapping[str, Any]
    ) -> Any:
        """As ask_solver of `profile_PROBLEM`."""
        arguments = [self._handle, *_arguments(inputs, request)]
        return _ask(f"profile_{problem}", arguments)


def _arguments(
    inputs: Sequence[Union[str, bytes, None]], request: Optional[Mapping[str, Any]]
) -> list[Any]:
    arguments: list[Any] = []
    for text in inputs:
        data = text.encode() if isinstance(text, str) else text
        arguments += [data, len(data or b"")]
    if request is not None:
        given = {n: v for n, v in request.items() if v is not None and v != ""}
        arguments.append(json.dumps(given, default=_plain).encode())
    return arguments


def _plain(value: Any) -> Any:
    """A number of another library, such as numpy's, as Python's."""
    if hasattr(value, "__index__"):
        return operator.index(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"{value!r} is of type {type(value).__name__}")


def _function(name: str) -> Any:
    function = getattr(_solvers(), f"ucudnn_solve_{name}", None)
    if function is None:
        raise LibraryNotFound(
            f"libucudnn_solve.so.1 has no ucudnn_solve_{name}: it is older than "
            "this package; install a newer one"
        )
    return function


def _ask(function: str, arguments: list[Any]) -> Any:
    answer = ctypes.c_void_p()
    status = _function(function)(*arguments, ctypes.byref(answer))
    return json.loads(_text_of(status, answer))


def _text_of(status: int, answer: ctypes.c_void_p) -> str:
    """The text, which this frees. Raises unless the status is 0."""
    try:
        text = ctypes.string_at(answer.value).decode() if answer.value else ""
    finally:
        _solvers().ucudnn_solve_free(answer)
    if status != 0:
        raise error_of(
            status,
            text or f"the solver failed with status {status}",
            _solvers().ucudnn_solve_last_least(),
        )
    return text
