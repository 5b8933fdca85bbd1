"""Which device a rank uses, and what makes measurements on two of them
interchangeable."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
from dataclasses import dataclass
from typing import Any, ContextManager, Iterable, Optional

import torch


@dataclass(frozen=True)
class Device:
    """The device of one rank."""

    device: torch.device
    kind: str  # ranks of one kind share measurements
    gpu: str  # a GPU's name that is unique in the job; empty: not a GPU


def find_device(device: Optional[Any] = None, kind: Optional[str] = None) -> Device:
    """The given device, else the current GPU, else the CPU. `kind` replaces the
    text that tells kinds of devices apart."""
    chosen = torch.device(device) if device is not None else None
    if chosen is None:
        chosen = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if chosen.type != "cuda":
        return Device(chosen, kind or _cpu_kind(), "")
    index = chosen.index
    if index is None:
        index = torch.cuda.current_device()
    chosen = torch.device("cuda", index)
    return Device(chosen, kind or _gpu_kind(chosen), _gpu_name(index))


def device_of(values: Iterable[Any]) -> Optional[torch.device]:
    """That of the first tensor, or model with parameters, among them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            return value.device
        if isinstance(value, torch.nn.Module):
            for parameter in value.parameters():
                return parameter.device
    return None


def current(device: torch.device) -> ContextManager[Any]:
    """Within it a GPU is the current one, on whose streams events and kernels are
    enqueued."""
    if device.type == "cuda":
        return torch.cuda.device(device)
    return contextlib.nullcontext()


def same_randomness(device: torch.device) -> ContextManager[None]:
    """After it random numbers, also the device's, are as before."""
    return torch.random.fork_rng([device] if device.type == "cuda" else [])


def _cpu_kind() -> str:
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        names = (
            line.partition(":")[2] for line in file if line.startswith("model name")
        )
        model = next(names, model).strip()
    return f"{model}, {torch.get_num_threads()} threads, torch {torch.__version__}"


def _gpu_kind(device: torch.device) -> str:
    found = torch.cuda.get_device_properties(device)
    units = slice_units(device)
    kind = (
        f"{found.name}, {units or found.multi_processor_count} SMs"
        f"{' of a slice' if units else ''}, "
        f"{found.total_memory / 2**30:.0f} GiB, torch {torch.__version__}, "
        f"cuDNN {torch.backends.cudnn.version()}"
    )
    percentage = os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
    return f"{kind}, MPS {percentage} %" if percentage else kind


def _gpu_name(index: int) -> str:
    found = torch.cuda.get_device_properties(index)
    return f"{'MIG' if ' MIG ' in found.name else 'GPU'}-{found.uuid}"


class _Resource(ctypes.Structure):
    """The beginning of CUdevResource (cuda.h): for multiprocessors, type 1, the
    count follows the padding. Larger than any version's."""

    _fields_ = [
        ("type", ctypes.c_uint),
        ("padding", ctypes.c_ubyte * 92),
        ("count", ctypes.c_uint),
        ("rest", ctypes.c_ubyte * 412),
    ]


def slice_units(device: torch.device) -> Optional[int]:
    """The multiprocessors of the green context that the current stream belongs
    to; None if it belongs to none, or the driver cannot tell (CUDA before
    12.4)."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        of_stream = driver.cuStreamGetGreenCtx
        of_context = driver.cuGreenCtxGetDevResource
    except (OSError, AttributeError):
        return None
    context = ctypes.c_void_p()
    stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
    if of_stream(stream, ctypes.byref(context)) != 0 or not context.value:
        return None
    resource = _Resource()
    if of_context(context, ctypes.byref(resource), 1) != 0:
        return None
    return resource.count or None


def current_stream(device: torch.device) -> int:
    """Of a GPU, as a cudaStream_t; 0 on the CPU."""
    if device.type != "cuda":
        return 0
    # PyTorch's own code generators call the first, which takes a tenth.
    if device.index is not None:
        return int(torch._C._cuda_getCurrentRawStream(device.index))
    return int(torch.cuda.current_stream(device).cuda_stream)
