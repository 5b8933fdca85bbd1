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


@contextlib.contextmanager
def hooked(watch: Watch, pack: Hook, unpack: Hook) -> Iterator[None]:
    """Within it the step's saved tensors go through the hooks. Refuses a backward
    pass with retain_graph or create_graph, and other hooks for saved tensors."""
    _refuse_outer_hooks()
    with contextlib.ExitStack() as stack:
        stack.enter_context(saved_tensors_hooks(pack, unpack))
        stack.enter_context(_replaced(saved_tensors_hooks, "__enter__", _refuse_hooks))
        for name in ("backward", "grad"):
            stack.enter_context(
                _replaced(torch.autograd, name, _watched(watch, name))
            )
        try:
            yield
        except BaseException:
            if watch.failed is not None:
                raise watch.failed from None
            raise


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


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """For this thread; others find what was there."""
    before = getattr(owner, name)
    here = threading.get_ident()

    def chosen(*args: Any, **keywords: Any) -> Any:
        mine = threading.get_ident() == here
        return (value if mine else before)(*args, **keywords)

    setattr(owner, name, chosen)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _watched(watch: Watch, name: str) -> Callable[..., Any]:
    plain = getattr(torch.autograd, name)
    signature = inspect.signature(plain)

    def run(*args: Any, **keywords: Any) -> Any:
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
