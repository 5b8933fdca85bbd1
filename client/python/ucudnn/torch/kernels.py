"""CUDA kernels compiled while running, by the NVRTC that PyTorch carries."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from typing import Any, List, Sequence

import torch

from ucudnn.torch.devices import current, current_stream

_POINTER = ctypes.c_void_p
# What a thread reads or writes at once.
VECTOR_BYTES = 16
# How elements are stored, and become float32 and back. Without CUDA's headers,
# which not every installation has.
ELEMENTS = {
    torch.float32: (
        "float",
        "__device__ float wide(float x) { return x; }\n"
        "__device__ float narrow(float x) { return x; }",
    ),
    torch.float16: (
        "unsigned short",
        "__device__ float wide(unsigned short x) {\n"
        '  float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y;\n'
        "}\n"
        "__device__ unsigned short narrow(float x) {\n"
        "  unsigned short y;\n"
        '  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y;\n'
        "}",
    ),
    torch.bfloat16: (
        "unsigned short",
        "__device__ float wide(unsigned short x) {\n"
        "  return __uint_as_float((unsigned)x << 16);\n"
        "}\n"
        "__device__ unsigned short narrow(float x) {\n"
        "  const unsigned bits = __float_as_uint(x);\n"
        "  if (x != x) return 0x7fff;\n"
        "  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;\n"
        "}",
    ),
}


class Kernel:
    """A kernel of one device. Its arguments are 64-bit numbers and pointers."""

    def __init__(self, source: str, name: str, device: torch.device) -> None:
        self._device = device
        self._driver = _driver()
        with torch.cuda.device(device):
            torch.cuda.current_stream()  # makes the context current
            major, minor = torch.cuda.get_device_capability()
            image = compiled(source, f"sm_{major}{minor}")
            # Of the library, not of a context: it runs in green ones too.
            library, self._function = _POINTER(), _POINTER()
            self._check(
                self._driver.cuLibraryLoadData(
                    ctypes.byref(library), image, None, None, 0, None, None, 0
                )
            )
            self._check(
                self._driver.cuLibraryGetKernel(
                    ctypes.byref(self._function), library, name.encode()
                )
            )
        self._lock = threading.Lock()
        self._values: Any = None
        self._pointers: Any = None

    def launch(
        self, blocks: int, threads: int, arguments: Sequence[int]
    ) -> None:
        """On the current stream."""
        with self._lock:
            if self._values is None:
                count = len(arguments)
                self._values = (ctypes.c_uint64 * count)()
                first = ctypes.addressof(self._values)
                self._pointers = (_POINTER * count)(
                    *(first + 8 * index for index in range(count))
                )
            self._values[:] = arguments
            stream = current_stream(self._device)
            # The default stream, 0, is that of the current context.
            with current(self._device):
                status = self._driver.cuLaunchKernel(
                    self._function, blocks, 1, 1, threads, 1, 1, 0, _POINTER(stream),
                    self._pointers, None,
                )  # fmt: skip
            self._check(status)

    def _check(self, status: int) -> None:
        if status != 0:
            raise RuntimeError(f"a kernel compiled while running: CUDA error {status}")


def processors(device: torch.device) -> int:
    """Raises RuntimeError without a GPU."""
    if device.type != "cuda":
        raise RuntimeError(f"{device} is no GPU")
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@functools.lru_cache(maxsize=8)
def compiled(source: str, architecture: str) -> bytes:
    """Machine code. Raises OSError without NVRTC, RuntimeError with its log if it
    refuses the source or does not know the architecture."""
    library = _nvrtc()
    program = _POINTER()
    status = library.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"ucudnn.cu", 0, None, None
    )
    if status != 0:
        raise RuntimeError(f"NVRTC: error {status}")
    try:
        options: List[bytes] = [f"--gpu-architecture={architecture}".encode()]
        status = library.nvrtcCompileProgram(
            program, len(options), (ctypes.c_char_p * len(options))(*options)
        )
        if status != 0:
            log = _text_of(library, program, "ProgramLog").rstrip(b"\0")
            raise RuntimeError(f"NVRTC: error {status}: {log.decode()}")
        return _text_of(library, program, "CUBIN")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _text_of(library: Any, program: Any, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, text)
    return text.raw


@functools.lru_cache(maxsize=None)
def _nvrtc() -> Any:
    """Through PyTorch's library that links it, which knows where it is; a symbol
    is looked for in what a library links, too."""
    path = os.path.join(torch.__path__[0], "lib", "libcaffe2_nvrtc.so")
    return ctypes.CDLL(path if os.path.exists(path) else "libnvrtc.so")


@functools.lru_cache(maxsize=None)
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")
