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
from typing import Any, NamedTuple, Optional

from ucudnn.errors import Error, InvalidArgument, error_of
from ucudnn.library import declared, load

_TYPES = {"f": 0, "d": 1}  # of a buffer's elements
_GPU_TYPES = {"<f4": 0, "<f8": 1}  # of __cuda_array_interface__
_NO_TYPE = -1


class _Memory(NamedTuple):
    """An array of gradients, as ucudnn_session_allreduce_device takes it."""

    address: int
    elements: int
    type: int
    stream: Optional[int]


def _on_gpu(array: dict[str, Any]) -> _Memory:
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
        address, math.prod(array["shape"]), _GPU_TYPES[form], array.get("stream")
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
    handle = ctypes.c_void_p
    made = ctypes.POINTER(handle)
    text = ctypes.c_char_p
    return declared(
        load("libucudnn.so.0"),
        "ucudnn_",
        last_error_message=(text, handle),
        last_error_least=(ctypes.c_int64, handle),
        options_create=(ctypes.c_int, made),
        options_destroy=(None, handle),
        options_set=(ctypes.c_int, handle, text, text),
        session_init_f=(ctypes.c_int, ctypes.c_int, handle, made),
        session_note=(text, handle, ctypes.c_size_t),
        session_report_step=(ctypes.c_int, handle, ctypes.c_double),
        session_refresh=(ctypes.c_int, handle, ctypes.POINTER(ctypes.c_int)),
        session_allreduce=(
            ctypes.c_int, handle, handle, ctypes.c_size_t, ctypes.c_int,
        ),
        session_allreduce_device=(
            ctypes.c_int, handle, handle, ctypes.c_size_t, ctypes.c_int, handle,
        ),
        session_finalize=(ctypes.c_int, handle),
        **{f"session_{name}": (result, handle) for name, result in _told.items()},
    )  # fmt: skip


# The results of functions that tell something of a session.
_told: dict[str, Any] = {}


class _Told(property):
    """By `ucudnn_session_NAME`, where NAME is its own without a leading "_"."""

    def __init__(self, result: Any, doc: str) -> None:
        super().__init__(self._read, doc=doc)
        self._result = result

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name.lstrip("_")
        _told[self._name] = self._result

    def _read(self, session: Session) -> Any:
        value = session._get(self._name)
        return (value or b"").decode() if self._result is ctypes.c_char_p else value


def _tells(result: Any, doc: str) -> Any:
    return _Told(result, doc)


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
        kind: Optional[type[BaseException]],
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

    def _get(self, name: str, *arguments: Any) -> Any:
        if not self._session:
            raise Error("the session is finalised", 9)
        return getattr(_library(), f"ucudnn_session_{name}")(self._session, *arguments)

    rank: int = _tells(ctypes.c_int, "This rank's number.")
    size: int = _tells(ctypes.c_int, "The number of ranks.")
    batch: int = _tells(
        ctypes.c_int64, "This rank's images of each mini-batch; 0 if it is left out."
    )
    first_image: int = _tells(
        ctypes.c_int64, "The index of its first image in the mini-batch of all ranks."
    )
    global_batch: int = _tells(ctypes.c_int64, "The mini-batch size over all ranks.")
    weight: float = _tells(
        ctypes.c_double, "The factor that allreduce applies to this rank's gradients."
    )
    predicted_ms: float = _tells(
        ctypes.c_double,
        """Predicted time of this rank's step in milliseconds: of convolutions only,
        or, with memory plans, of the whole iteration; 0 if nothing was measured.""",
    )
    predicted_step_ms: float = _tells(
        ctypes.c_double, "predicted_ms of the slowest rank."
    )
    revision: int = _tells(
        ctypes.c_int64, "1 at first; changes with each plan that refresh() adopts."
    )
    source: str = _tells(
        ctypes.c_char_p, '"plan file", "coordinator", "cache" or "undivided".'
    )
    reason: str = _tells(
        ctypes.c_char_p,
        "Where the plan comes from and why no better one is used; one line.",
    )
    sum_method: str = _tells(
        ctypes.c_char_p,
        """How the last gradients were summed, and why not by NCCL.

        One line; empty before the first sum.""",
    )
    job_id: str = _tells(ctypes.c_char_p, "The job's id in `ucudnn show job`.")
    device: str = _tells(ctypes.c_char_p, "The id of this rank's device.")
    device_kind: str = _tells(ctypes.c_char_p, "The kind of this rank's device.")
    _plan_json: str = _tells(ctypes.c_char_p, "")
    _memory_plan: str = _tells(ctypes.c_char_p, "")

    @property
    def notes(self) -> list[str]:
        """Further remarks on the plan, such as that ranks share a GPU."""
        notes: list[str] = []
        while (note := self._get("note", len(notes))) is not None:
            notes.append(note.decode())
        return notes

    @property
    def plan(self) -> dict[str, Any]:
        """The plan of all ranks, as `ucudnn show plan -o json` prints it."""
        plan: dict[str, Any] = json.loads(self._plan_json)
        return plan

    @property
    def memory_plan(self) -> Optional[dict[str, Any]]:
        """This rank's memory plan, as `ucudnn solve memory -o json` prints it,
        with its training graph as "graph"; None if it has none. The header
        ucudnn/ucudnn.h tells the order that makes executing it safe."""
        text = self._memory_plan
        plan: Optional[dict[str, Any]] = json.loads(text) if text else None
        return plan

    def report_step(self, milliseconds: float) -> None:
        """Reports how long this rank's last step took, without waiting for other
        ranks. Does not block."""
        self._check(self._get("report_step", milliseconds))

    def refresh(self) -> bool:
        """Collective, between two steps: adopts a newer plan if there is one;
        returns whether it did."""
        changed = ctypes.c_int()
        self._check(self._get("refresh", ctypes.byref(changed)))
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
        try:
            memory = _memory_of(gradients)
        except Exception:
            # Fails the call on the other ranks too, which would wait for this one.
            self._get("allreduce", None, 0, _NO_TYPE)
            raise
        self._check(self._get("allreduce_device", *memory))

    def finalize(self) -> None:
        """Collective: ends the job. The session cannot be used afterwards."""
        session, self._session = self._session, ctypes.c_void_p()
        self._check(_library().ucudnn_session_finalize(session))
