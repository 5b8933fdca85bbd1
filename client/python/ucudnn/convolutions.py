"""Planned convolutions on a caller's stream and pointers:
ctypes over the C functions of libucudnn_conv.so (ucudnn/conv.h)."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Sequence

from ucudnn.errors import error_of
from ucudnn.library import declared, load

_POINTER = ctypes.c_void_p
_SIZE = ctypes.c_int64


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    handle = ctypes.c_void_p
    made = ctypes.POINTER(handle)
    text = ctypes.c_char_p
    status = ctypes.c_int
    return declared(
        load("libucudnn_conv.so.1"),
        "ucudnn_conv_",
        last_error=(text,),
        last_least=(_SIZE,),
        open_gpu=(status, handle, ctypes.c_int, made),
        open_cpu=(status, ctypes.c_int, made),
        device_kind=(text, handle),
        close=(None, handle),
        plan=(status, handle, text, _SIZE, _SIZE, made),
        divide=(
            status, handle, ctypes.POINTER(text), ctypes.POINTER(_SIZE),
            ctypes.c_size_t, _SIZE, made,
        ),
        workspace=(_SIZE, handle),
        text=(text, handle),
        run=(status, *[handle] * 5, *[ctypes.c_float] * 2, handle, _SIZE),
        free=(None, handle),
    )  # fmt: skip


def _check(status: int) -> None:
    if status != 0:
        said = _library().ucudnn_conv_last_error() or b""
        raise error_of(
            status,
            said.decode(errors="replace") or f"status {status}",
            _library().ucudnn_conv_last_least(),
        )


def _made(function: str, *arguments: Any) -> int:
    """The handle that a function makes."""
    handle = _POINTER()
    call = getattr(_library(), f"ucudnn_conv_{function}")
    _check(call(*arguments, ctypes.byref(handle)))
    return handle.value or 0


class Convolution:
    """One convolution, planned and prepared. Any thread may run it."""

    def __init__(self, handle: int) -> None:
        library = _library()
        self._handle = handle
        self._run = library.ucudnn_conv_run
        self._free = library.ucudnn_conv_free
        self.workspace: int = library.ucudnn_conv_workspace(handle)  # bytes
        self.text: str = library.ucudnn_conv_text(handle).decode()

    def __del__(self) -> None:
        if getattr(self, "_handle", 0):
            self._free(self._handle)

    def run(
        self, stream: int, a: int, b: int, out: int, workspace: int, workspace_size: int
    ) -> None:
        """Enqueues out = op(a, b); all are addresses, the stream 0 on a CPU."""
        status = self._run(
            self._handle, stream, a, b, out, 1.0, 0.0, workspace, workspace_size
        )
        if status != 0:
            _check(status)


class ConvolutionDevice:
    """A device to plan for: the GPU whose context is current, with the green
    context of `stream` if it belongs to one; or the CPU."""

    def __init__(self, handle: int) -> None:
        library = _library()
        self._handle = handle
        self._close = library.ucudnn_conv_close
        self.kind: str = library.ucudnn_conv_device_kind(handle).decode()

    @classmethod
    def gpu(cls, stream: int) -> ConvolutionDevice:
        return cls(_made("open_gpu", stream, 0))

    @classmethod
    def cpu(cls, threads: int) -> ConvolutionDevice:
        return cls(_made("open_cpu", threads))

    def __del__(self) -> None:
        if getattr(self, "_handle", 0):
            self._close(self._handle)

    def plan(self, problem: str, batch: int, limit: int) -> Convolution:
        """The fastest plan within `limit` bytes of workspace; measures. Raises
        NoPlan if nothing fits, Error for what the device cannot compute."""
        return Convolution(_made("plan", self._handle, problem.encode(), batch, limit))

    def divide(
        self, problems: Sequence[tuple[str, int]], total: int
    ) -> list[Convolution]:
        """Plans for all (problem, batch), whose workspaces take at most `total`
        bytes together."""
        count = len(problems)
        texts = (ctypes.c_char_p * count)(*(t.encode() for t, _ in problems))
        batches = (_SIZE * count)(*(b for _, b in problems))
        handles = (_POINTER * count)()
        _check(
            _library().ucudnn_conv_divide(
                self._handle, texts, batches, count, total, handles
            )
        )
        return [Convolution(handle or 0) for handle in handles]
