"""The exceptions of this package."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """A call failed; `code` is the C function's number, which is gRPC's."""

    _code = 2

    def __init__(self, message: str, code: Optional[int] = None) -> None:
        super().__init__(message)
        self.code = self._code if code is None else code


class InvalidArgument(Error, ValueError):
    """The input is malformed; the message says where and what is accepted."""

    _code = 3


class NotFound(InvalidArgument, LookupError):
    """There is no network, plan, job or other thing of this name."""

    _code = 5


class NoPlan(Error):
    """No plan satisfies the constraints; the message names the nearest that
    do. `least` is the least that would do of what was limited (bytes of
    workspace, of a budget or of a pool), or None if it is not known."""

    _code = 9

    def __init__(self, message: str, least: Optional[int] = None) -> None:
        super().__init__(message)
        self.least = least


class LibraryNotFound(Error, OSError):
    """A library of ucudnn cannot be loaded."""

    _code = 14


class NotAllowed(Error, PermissionError):
    """A coordinator does not know who calls, or does not let them."""

    _code = 7


class Unreachable(Error, ConnectionError):
    """A coordinator cannot be reached, or cannot answer now."""

    _code = 14


def error_of(code: int, message: str, least: int = -1) -> Error:
    """The exception for a status number of the C functions, and for the least
    that they say would do."""
    if code == NoPlan._code:
        return NoPlan(message, None if least < 0 else least)
    for cls in (InvalidArgument, NotFound):
        if code == cls._code:
            return cls(message)
    return Error(message, code)
