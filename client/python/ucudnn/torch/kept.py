"""What a step changes, and putting it back after measuring."""

from __future__ import annotations

import contextlib
import copy
import dis
import functools
import random
import sys
import types
import weakref
from typing import Any, Callable, Iterable, Iterator, Optional

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DataParallel, DistributedDataParallel

from ucudnn.torch.checks import refuse, refuse_lazy
from ucudnn.torch.devices import same_randomness

_SHORT = 100  # items of a list that are looked at
_NOT_NAMED = (
    types.MethodType, types.ModuleType, functools.partial, list, tuple, dict, type
)  # fmt: skip
_PLAIN = (bool, int, float, complex, str, bytes, torch.dtype, torch.device)


def reachable(step: Callable[..., Any]) -> list[tuple[str, Any]]:
    """The values that `step` uses, each with its name, once and in order: those
    of its closure, the globals that its code names, the object whose method it
    is, what functools.partial binds, what the attributes of such an object or the
    items of a short list or dictionary hold, and the same of the functions that
    it calls, but for those of installed packages."""
    found: list[tuple[str, Any]] = []
    seen: set[int] = set()
    # A loop, since a function that called itself would keep what it found, and
    # with it models, until Python collects garbage.
    waiting: list[tuple[str, Any, int]] = [("step", step, 2)]
    while waiting:
        name, value, depth = waiting.pop()
        if id(value) in seen and not isinstance(value, _PLAIN):
            continue
        seen.add(id(value))
        if not isinstance(value, _NOT_NAMED):
            found.append((name, value))
        inner = list(_inside(name, value, depth, value is step))
        waiting += reversed(inner)
    return found


def _inside(
    name: str, value: Any, depth: int, whole: bool
) -> Iterator[tuple[str, Any, int]]:
    """What a value uses or holds, each with its name and how deep to look into
    it. `whole`: also of a function of an installed package."""
    if isinstance(value, types.MethodType):
        yield f"{name}.self", value.__self__, depth
        yield name, value.__func__, depth
    elif isinstance(value, functools.partial):
        yield name, value.func, depth
        for index, item in enumerate(value.args):
            yield f"{name}.args[{index}]", item, depth
        for key, item in value.keywords.items():
            yield f"{name}.{key}", item, depth
    elif isinstance(value, types.FunctionType):
        if whole or not _installed(value):
            for key, item in _used_by(value):
                yield key, item, depth
    elif isinstance(value, (list, tuple, dict)):
        if depth == 0 or len(value) > _SHORT:
            return
        items: Iterable[tuple[Any, Any]] = (
            value.items() if isinstance(value, dict) else enumerate(value)
        )
        for key, item in items:
            yield f"{name}[{key!r}]", item, depth - 1
    elif not isinstance(value, (types.ModuleType, type)):
        if depth > 0 and not _has_state(value):
            for key, item in getattr(value, "__dict__", {}).items():
                yield f"{name}.{key}", item, depth - 1


def _installed(function: types.FunctionType) -> bool:
    return "-packages" in function.__code__.co_filename


def _used_by(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        # A cell is empty until its variable is assigned.
        with contextlib.suppress(ValueError):
            yield name, cell.cell_contents
    for name in names_in(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


@functools.lru_cache(maxsize=1024)
def names_in(code: types.CodeType) -> tuple[str, ...]:
    """The global names that a function's code reads, and the functions inside it: no
    names of attributes, which may be those of other things, too."""
    names = {
        one.argval: None
        for one in dis.get_instructions(code)
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(dict.fromkeys(names_in(constant)))
    return tuple(names)


def _has_state(value: Any) -> bool:
    return callable(getattr(value, "state_dict", None)) and callable(
        getattr(value, "load_state_dict", None)
    )


def stateful(step: Callable[..., Any], keep: Iterable[Any]) -> list[Any]:
    """The modules, optimizers, scalers and schedulers that `step` uses, and
    those of `keep`."""
    objects = [value for _, value in reachable(step) if _has_state(value)]
    for value in keep:
        if not _has_state(value):
            raise refuse(
                "profile: keep",
                f"a {type(value).__name__}",
                "objects with state_dict() and load_state_dict() are accepted",
            )
        if all(value is not other for other in objects):
            objects.append(value)
    return objects


def gradient_bytes(objects: Iterable[Any]) -> int:
    """The size of the modules' gradients."""
    parameters = {
        parameter
        for module in objects
        if isinstance(module, torch.nn.Module)
        for parameter in module.parameters()
        if parameter.requires_grad
    }
    return sum(p.numel() * p.element_size() for p in parameters)


@contextlib.contextmanager
def unchanged(objects: list[Any], device: torch.device) -> Iterator[None]:
    """Within it steps may run; afterwards the objects are as before: parameters,
    gradients, BatchNorm's statistics, the state of optimizers, and random
    numbers, of PyTorch, Python and numpy. Copies are in host memory, so that they do not take what the step
    needs. SyncBatchNorm counts this rank's images alone meanwhile, because no
    other rank may be measuring."""
    modules = [o for o in objects if isinstance(o, torch.nn.Module)]
    for module in modules:
        if isinstance(module, (DataParallel, DistributedDataParallel)):
            raise refuse(
                "profile: step",
                f"uses a {type(module).__name__}, whose passes wait for other " "ranks",
                "a step on the bare module is accepted: measure before wrapping "
                "it, or use ddp.module",
            )
    with contextlib.ExitStack() as stack:
        stack.enter_context(same_randomness(device))
        stack.callback(random.setstate, random.getstate())
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            stack.callback(numpy.random.set_state, numpy.random.get_state())
        for value in objects:
            if isinstance(value, torch.nn.Module):
                stack.callback(_saved_module(value))
            elif isinstance(value, torch.optim.Optimizer):
                stack.callback(_saved_optimizer(value))
            else:
                state = copy.deepcopy(value.state_dict())
                stack.callback(value.load_state_dict, state)
        for module in modules:
            stack.enter_context(_alone(module))
        yield


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu", copy=True)


def _saved_module(module: torch.nn.Module) -> Callable[[], None]:
    refuse_lazy("the step", module)
    tensors = {
        id(t): (t, _copied(t)) for t in (*module.parameters(), *module.buffers())
    }
    gradients = [(p, _saved_gradient(p)) for p in module.parameters()]
    modes = [(m, m.training) for m in module.modules()]

    def restore() -> None:
        with torch.no_grad():
            for tensor, copied in tensors.values():
                tensor.copy_(copied)
            for parameter, gradient in gradients:
                parameter.grad = gradient()
        for inner, training in modes:
            inner.training = training

    return restore


def _saved_gradient(
    parameter: torch.nn.Parameter,
) -> Callable[[], Optional[torch.Tensor]]:
    """Gives the gradient with its contents of now: the same tensor if somebody
    else still holds it. Steps that set gradients to None free them meanwhile."""
    gradient = parameter.grad
    if gradient is None:
        return lambda: None
    reference, copied = weakref.ref(gradient), _copied(gradient)

    def restored() -> torch.Tensor:
        held = reference()
        if held is None:
            return copied.to(parameter.device)
        return held.copy_(copied)

    return restored


def _saved_optimizer(optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """The tensors of its state and options, such as a learning rate, stay the
    same ones: CUDA graphs may read them."""
    state = {
        parameter: {name: _saved_value(value) for name, value in values.items()}
        for parameter, values in optimizer.state.items()
    }
    groups = [
        {n: _saved_value(v) for n, v in group.items() if n != "params"}
        for group in optimizer.param_groups
    ]

    def restore() -> None:
        optimizer.state.clear()
        for parameter, values in state.items():
            for name, value in values.items():
                optimizer.state[parameter][name] = value()
        for group, options in zip(optimizer.param_groups, groups):
            group.update({name: value() for name, value in options.items()})

    return restore


def _saved_value(value: Any) -> Callable[[], Any]:
    """Gives the value as it is now; a tensor with its contents of now."""
    if not isinstance(value, torch.Tensor):
        copied = copy.deepcopy(value)
        return lambda: copied
    contents = _copied(value)

    def restored() -> torch.Tensor:
        with torch.no_grad():
            return value.copy_(contents)

    return restored


@contextlib.contextmanager
def _alone(module: torch.nn.Module) -> Iterator[None]:
    shared = [m for m in module.modules() if isinstance(m, torch.nn.SyncBatchNorm)]
    for inner in shared:
        inner.forward = types.MethodType(_BatchNorm.forward, inner)
    try:
        yield
    finally:
        for inner in shared:
            del inner.forward
