"""What a step under planned memory may not do, noticed while it runs."""

from __future__ import annotations

import contextlib
import inspect
import threading
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import torch
from torch.autograd.graph import saved_tensors_hooks

from ucudnn.torch.checks import refuse, under_hooks
from ucudnn.torch.kept import reachable

Hook = Callable[[Any], Any]


class Watch:
    """What a running step does. `failed` is what its hooks raised: autograd
    passes exceptions on without their type."""

    def __init__(self) -> None:
        self.in_backward = False
        self.failed: Optional[BaseException] = None

    def fail(self, error: BaseException) -> BaseException:
        self.failed = self.failed or error
        return error


class _Here(threading.local):
    watch: Optional[Watch] = None


_here = _Here()
_lock = threading.Lock()
_watching = 0  # threads
_stack = contextlib.ExitStack()  # puts back what PyTorch had


@contextlib.contextmanager
def hooked(watch: Watch, pack: Hook, unpack: Hook) -> Iterator[None]:
    """Within it the step's saved tensors go through the hooks. Refuses a backward
    pass with retain_graph or create_graph, and other hooks for saved tensors."""
    _refuse_outer_hooks()
    with saved_tensors_hooks(pack, unpack), _watched_by(watch):
        try:
            yield
        except BaseException:
            if watch.failed is not None:
                raise watch.failed from None
            raise


@contextlib.contextmanager
def _watched_by(watch: Watch) -> Iterator[None]:
    """What PyTorch runs in this thread. Its functions are replaced while any thread
    is watched, and are themselves in the others."""
    global _watching
    with _lock:
        if _watching == 0:
            for name in ("backward", "grad"):
                _replace(torch.autograd, name, _watched(name))
            _replace(saved_tensors_hooks, "__enter__", _entering())
        _watching += 1
    before, _here.watch = _here.watch, watch
    try:
        yield
    finally:
        _here.watch = before
        with _lock:
            _watching -= 1
            if _watching == 0:
                _stack.close()


def _replace(owner: Any, name: str, value: Any) -> None:
    _stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def _entering() -> Callable[[Any], Any]:
    plain = saved_tensors_hooks.__enter__

    def enter(self: Any) -> Any:
        if _here.watch is not None:
            _refuse_hooks(self)
        return plain(self)

    return enter


def _refuse_hooks(self: Any) -> None:
    raise refuse(
        "memory: the step",
        f"uses hooks for saved tensors of its own ({type(self).__name__})",
        "a step without torch.utils.checkpoint, save_on_cpu or other "
        "saved_tensors_hooks is accepted",
    )


def _refuse_outer_hooks() -> None:
    """A tensor saved under hooks takes no others."""
    if under_hooks():
        raise refuse(
            "memory: saved_tensors_hooks",
            "other hooks are active",
            "a call outside of them is accepted",
        )


def _watched(name: str) -> Callable[..., Any]:
    plain = getattr(torch.autograd, name)
    signature = inspect.signature(plain)

    def run(*args: Any, **keywords: Any) -> Any:
        watch = _here.watch
        if watch is None:
            return plain(*args, **keywords)
        given = signature.bind(*args, **keywords).arguments
        for flag in ("create_graph", "retain_graph"):
            if given.get(flag):
                raise refuse(
                    f"memory: torch.autograd.{name}",
                    f"{flag}=True",
                    "a backward pass that runs once, without "
                    "retain_graph and create_graph, is accepted",
                )
        watch.in_backward = True
        try:
            return plain(*args, **keywords)
        finally:
            watch.in_backward = False

    return run


def refuse_compiled(step: Callable[..., Any], others: Sequence[Any]) -> None:
    """A compiler chooses itself what it saves."""
    named: List[Tuple[str, Any]] = [*reachable(step)]
    named += [(f"argument {i}", value) for i, value in enumerate(others)]
    for name, value in named:
        inner = value.modules() if isinstance(value, torch.nn.Module) else [value]
        for one in inner:
            if (
                type(one).__name__ == "OptimizedModule"
                or getattr(one, "_compiled_call_impl", None) is not None
                or getattr(one, "_torchdynamo_orig_callable", None) is not None
            ):
                raise refuse(
                    f"memory: {name}",
                    "compiled by torch.compile, which chooses what is saved",
                    "an uncompiled model is accepted; for compiled ones set "
                    "torch._functorch.config.activation_memory_budget",
                )
