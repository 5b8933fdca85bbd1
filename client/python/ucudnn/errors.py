"""The exceptions of this package."""

from __future__ import annotations


class Error(Exception):
    """A call failed; `code` is the C function's number, which is gRPC's."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


class InvalidArgument(Error, ValueError):
    """The input is malformed; the message says where and what is accepted."""


class NoPlan(Error):
    """No plan satisfies the constraints; the message names the nearest that
    do."""


class LibraryNotFound(Error, OSError):
    """A library of ucudnn cannot be loaded."""


class NotAllowed(Error, PermissionError):
    """A coordinator does not know who calls, or does not let them."""


class Unreachable(Error, ConnectionError):
    """A coordinator cannot be reached, or cannot answer now."""


def error_of(code: int, message: str) -> Error:
    """The exception for a status number of the C functions."""
    if code == 3:
        return InvalidArgument(message, code)
    if code == 9:
        return NoPlan(message, code)
    return Error(message, code)
