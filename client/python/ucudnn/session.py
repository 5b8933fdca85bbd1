"""The session of an MPI job, over libucudnn.so.

>>> from mpi4py import MPI
>>> with ucudnn.Session(MPI.COMM_WORLD, network_file="resnet18.onnx",
...                     batch=256) as session:
...     images = batch[session.first_image:][: session.batch]
...     session.allreduce(gradients)    # float32 or float64, in place
...     session.report_step(milliseconds)
...     if session.refresh():           # a new plan
...         ...

Options are those of ucudnn_options_set in ucudnn/ucudnn.h: batch, network,
network_file, network_csv, precision, layout, workspace_limit, memory_budget,
device and so on.
All ranks must make collective calls in the same order. These have the same
outcome on all ranks, raise ucudnn.Error if they fail, and return within
agree_within_ms. One thread at a time uses a session.
"""

from __future__ import annotations

import ctypes
import functools
import json
import math
from types import TracebackType
from typing import Any, Dict, List, NamedTuple, Optional, Type

from ucudnn.errors import Error, InvalidArgument, error_of
from ucudnn.library import load

_INTEGERS = ("batch", "first_image", "global_batch", "revision")
_NUMBERS = ("weight", "predicted_ms", "predicted_step_ms")
_TEXTS = (
    "source",
    "reason",
    "sum_method",
    "job_id",
    "device",
    "device_kind",
    "plan_json",
    "memory_plan",
)
_TYPES = {"f": 0, "d": 1}  # of a buffer's elements
_GPU_TYPES = {"<f4": 0, "<f8": 1}  # of __cuda_array_interface__
_NO_TYPE = -1


class _Memory(NamedTuple):
    """An array of gradients, as ucudnn_session_allreduce_device takes it."""

    address: int
    elements: int
    type: int
    stream: Optional[int]


def _on_gpu(array: Dict[str, Any]) -> _Memory:
    """The memory that a __cuda_array_interface__ describes."""
    address, read_only = array["data"]
    form = array["typestr"]
    if form not in _GPU_TYPES or read_only or array.get("strides"):
        raise InvalidArgument(
            f"gradients of type {form!r} on a GPU; a writable, contiguous "
            "array of float32 or float64 is accepted"
        )
    # 1 and 2 are CUDA's handles of the default streams; None: the array is
    # ready.
    return _Memory(
        address,
        math.prod(array["shape"]),
        _GPU_TYPES[form],
        array.get("stream"),
    )


def _memory_of(gradients: Any) -> _Memory:
    array = getattr(gradients, "__cuda_array_interface__", None)
    if array is not None:
        return _on_gpu(array)
    view = memoryview(gradients)
    if view.format not in _TYPES or view.readonly or not view.c_contiguous:
        raise InvalidArgument(
            f"gradients of format {view.format!r}; a writable, contiguous "
            "buffer of float32 or float64 is accepted"
        )
    count = view.nbytes // view.itemsize
    memory = (ctypes.c_char * view.nbytes).from_buffer(view.cast("B"))
    return _Memory(ctypes.addressof(memory), count, _TYPES[view.format], None)


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    library = load("libucudnn.so.0")
    pointer = ctypes.c_void_p

    def declare(name: str, result: Any, *arguments: Any) -> None:
        function = getattr(library, f"ucudnn_{name}")
        function.restype = result
        function.argtypes = arguments

    declare("last_error_message", ctypes.c_char_p, pointer)
    declare("last_error_least", ctypes.c_int64, pointer)
    declare("options_create", ctypes.c_int, ctypes.POINTER(pointer))
    declare("options_destroy", None, pointer)
    declare(
        "options_set", ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_char_p
    )
    declare(
        "session_init_f",
        ctypes.c_int,
        ctypes.c_int,
        pointer,
        ctypes.POINTER(pointer),
    )
    for name in ("rank", "size"):
        declare(f"session_{name}", ctypes.c_int, pointer)
    for name in _INTEGERS:
        declare(f"session_{name}", ctypes.c_int64, pointer)
    for name in _NUMBERS:
        declare(f"session_{name}", ctypes.c_double, pointer)
    for name in _TEXTS:
        declare(f"session_{name}", ctypes.c_char_p, pointer)
    declare("session_note", ctypes.c_char_p, pointer, ctypes.c_size_t)
    declare("session_report_step", ctypes.c_int, pointer, ctypes.c_double)
    declare(
        "session_refresh", ctypes.c_int, pointer, ctypes.POINTER(ctypes.c_int)
    )
    declare(
        "session_allreduce",
        ctypes.c_int,
        pointer,
        pointer,
        ctypes.c_size_t,
        ctypes.c_int,
    )
    declare(
        "session_allreduce_device",
        ctypes.c_int,
        pointer,
        pointer,
        ctypes.c_size_t,
        ctypes.c_int,
        pointer,
    )
    declare("session_finalize", ctypes.c_int, pointer)
    return library


class Session:
    """A job's session. finalize() or the end of a `with` block ends it."""

    def __init__(self, comm: Any, **options: Any) -> None:
        """Collective over `comm`, an mpi4py communicator or a Fortran communicator
        handle. Raises InvalidArgument if an option is malformed or differs
        between ranks, if no network is named or the plan file cannot be read;
        NotFound if the coordinator does not know the network, whose layers no option
        gives; NoPlan if a kernel does not fit into the limit. If a coordinator is
        away, the job runs a cached plan or undivided, and rank 0 says so on
        stderr."""
        self._session = ctypes.c_void_p()
        library = _library()
        handle = comm if isinstance(comm, int) else comm.py2f()
        chosen = ctypes.c_void_p()
        self._check(library.ucudnn_options_create(ctypes.byref(chosen)))
        try:
            for name, value in options.items():
                self._check(
                    library.ucudnn_options_set(
                        chosen, name.encode(), str(value).encode()
                    )
                )
            self._check(
                library.ucudnn_session_init_f(
                    handle, chosen, ctypes.byref(self._session)
                )
            )
        finally:
            library.ucudnn_options_destroy(chosen)

    def __repr__(self) -> str:
        return f"<Session: {self.reason if self._session else 'finalised'}>"

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # After an error on this rank alone, do not wait for the others again.
        if self._session and kind is None:
            self.finalize()

    def _check(self, status: int) -> None:
        if status == 0:
            return
        message = _library().ucudnn_last_error_message(self._session) or b""
        least = _library().ucudnn_last_error_least(self._session)
        raise error_of(status, message.decode() or f"status {status}", least)

    def _get(self, name: str) -> Any:
        if not self._session:
            raise Error("the session is finalised", 9)
        return getattr(_library(), f"ucudnn_session_{name}")(self._session)

    def _text(self, name: str) -> str:
        text: bytes = self._get(name) or b""
        return text.decode()

    @property
    def rank(self) -> int:
        return int(self._get("rank"))

    @property
    def size(self) -> int:
        return int(self._get("size"))

    @property
    def batch(self) -> int:
        """This rank's images of each mini-batch; 0 if it is left out."""
        return int(self._get("batch"))

    @property
    def first_image(self) -> int:
        """The index of its first image in the mini-batch of all ranks."""
        return int(self._get("first_image"))

    @property
    def global_batch(self) -> int:
        """The mini-batch size over all ranks."""
        return int(self._get("global_batch"))

    @property
    def weight(self) -> float:
        """The factor that allreduce applies to this rank's gradients."""
        return float(self._get("weight"))

    @property
    def predicted_ms(self) -> float:
        """Predicted time of this rank's step in milliseconds: of convolutions only,
        or, with memory plans, of the whole iteration; 0 if nothing was measured."""
        return float(self._get("predicted_ms"))

    @property
    def predicted_step_ms(self) -> float:
        """predicted_ms of the slowest rank."""
        return float(self._get("predicted_step_ms"))

    @property
    def revision(self) -> int:
        """1 at first; changes with each plan that refresh() adopts."""
        return int(self._get("revision"))

    @property
    def source(self) -> str:
        """"plan file", "coordinator", "cache" or "undivided"."""
        return self._text("source")

    @property
    def reason(self) -> str:
        """Where the plan comes from and why no better one is used; one line."""
        return self._text("reason")

    @property
    def sum_method(self) -> str:
        """How the last gradients were summed, and why not by NCCL.

        One line; empty before the first sum.
        """
        return self._text("sum_method")

    @property
    def job_id(self) -> str:
        """The job's id in `ucudnn show job`."""
        return self._text("job_id")

    @property
    def device(self) -> str:
        """The id of this rank's device."""
        return self._text("device")

    @property
    def device_kind(self) -> str:
        """The kind of this rank's device."""
        return self._text("device_kind")

    @property
    def notes(self) -> List[str]:
        """Further remarks on the plan, such as that ranks share a GPU."""
        self._get("rank")
        notes: List[str] = []
        while True:
            note = _library().ucudnn_session_note(self._session, len(notes))
            if note is None:
                return notes
            notes.append(note.decode())

    @property
    def plan(self) -> Dict[str, Any]:
        """The plan of all ranks, as `ucudnn show plan -o json` prints it."""
        plan: Dict[str, Any] = json.loads(self._text("plan_json"))
        return plan

    @property
    def memory_plan(self) -> Optional[Dict[str, Any]]:
        """This rank's memory plan, as `ucudnn solve memory -o json` prints it,
        with its training graph as "graph"; None if it has none. The header
        ucudnn/ucudnn.h tells the order that makes executing it safe."""
        text = self._text("memory_plan")
        plan: Optional[Dict[str, Any]] = json.loads(text) if text else None
        return plan

    def report_step(self, milliseconds: float) -> None:
        """Reports how long this rank's last step took, without waiting for other
        ranks. Does not block."""
        self._get("rank")
        self._check(
            _library().ucudnn_session_report_step(self._session, milliseconds)
        )

    def refresh(self) -> bool:
        """Collective, between two steps: adopts a newer plan if there is one;
        returns whether it did."""
        self._get("rank")
        changed = ctypes.c_int()
        self._check(
            _library().ucudnn_session_refresh(
                self._session, ctypes.byref(changed)
            )
        )
        return changed.value != 0

    def allreduce(self, gradients: Any) -> None:
        """Collective: turns gradients, means over this rank's images, into means
        over the whole mini-batch, in place and on every rank.

        `gradients` is a writable, contiguous buffer of float32 or float64: a
        numpy array, array.array or memoryview, or a GPU array with
        __cuda_array_interface__, such as those of CuPy, Numba and PyTorch. The
        result is ready for every stream. PyTorch does not report its stream, so
        call torch.cuda.synchronize() first. Raises InvalidArgument on all ranks
        if one rank's type is not supported, or if ranks differ in count or type;
        the gradients are unusable after an error."""
        self._get("rank")
        try:
            memory = _memory_of(gradients)
        except Exception:
            # Fails the call on the other ranks too, which would wait for this
            # one.
            _library().ucudnn_session_allreduce(self._session, None, 0, _NO_TYPE)
            raise
        self._check(
            _library().ucudnn_session_allreduce_device(
                self._session,
                memory.address,
                memory.elements,
                memory.type,
                memory.stream,
            )
        )

    def finalize(self) -> None:
        """Collective: ends the job. The session cannot be used afterwards."""
        session, self._session = self._session, ctypes.c_void_p()
        self._check(_library().ucudnn_session_finalize(session))
