"""What a batch normalization returns before it is known what follows it: a tensor
that is computed once it is used. ReLU and sums are fused with it; whatever else
uses it gets what PyTorch computes."""

from __future__ import annotations

from typing import Any, Iterator, Optional

import torch
from torch.nn import functional

from ucudnn.torch.normalization.calls import form_of, tensors_of

_Tensor = torch.Tensor
_RELUS = {functional.relu, torch.relu, _Tensor.relu}
_RELUS_IN_PLACE = {torch.relu_, _Tensor.relu_}
_SUMS = {torch.add, _Tensor.add, _Tensor.__add__, _Tensor.__radd__}
_SUMS_IN_PLACE = {_Tensor.add_, _Tensor.__iadd__}
# What needs no value, since the input has the same.
_SAME_AS_INPUT = {
    _Tensor.shape.__get__, _Tensor.dtype.__get__, _Tensor.device.__get__,
    _Tensor.ndim.__get__, _Tensor.size, _Tensor.dim, _Tensor.numel,
}  # fmt: skip


_READ = ("input", "weight", "bias")


class Plan:
    """What a module's normalization does once something follows it."""

    def takes(self, module: Any, taken: Any) -> bool:
        """Whether what follows `module(taken)` is waited for."""
        raise NotImplementedError

    def fused(
        self, run: Run, addend: Optional[torch.Tensor]
    ) -> Optional[torch.Tensor]:
        """relu(run [+ addend]); none if PyTorch's operators compute it."""
        raise NotImplementedError

    def read(self, run: Run, why: str) -> None:
        """Something else needs the normalization's own result, or may."""

    def unused(self, run: Run) -> None:
        """Nothing has used it."""

    def elsewhere(self, run: Run, why: str) -> None:
        """It is used where gradients are off, such as in a checkpoint or a
        torch.autograd.Function, which would lose its gradient."""
        raise NotImplementedError


class Run:
    """One run of a module's normalization, with what the module held then."""

    def __init__(self, module: Any, taken: torch.Tensor, plan: Plan) -> None:
        self.taken, self.plan = taken, plan
        self.tensors = tensors_of(module)
        self.momentum, self.eps = module.momentum, module.eps
        self._read = (taken, *self.tensors[:2])
        self._versions = [tensor._version for tensor in self._read]
        self.counted = False  # whether the running statistics know of it

    def __del__(self) -> None:
        if not self.counted:
            self.plan.unused(self)

    def check(self) -> None:
        for tensor, version, name in zip(self._read, self._versions, _READ):
            if tensor._version != version:
                raise _changed(f"the {name} of")

    def plain(self) -> torch.Tensor:
        """As PyTorch computes it. Only the first run updates the statistics."""
        self.check()
        weight, bias, mean, var = self.tensors
        if self.counted:
            mean = var = None
        self.counted = True
        return functional.batch_norm(
            self.taken, mean, var, weight, bias, True, self.momentum, self.eps
        )


class Pending(torch.Tensor):
    """A run's result, with what was added to it."""

    _made_by: Run
    _run: Optional[Run]  # none once there is a value
    _addend: Optional[torch.Tensor]
    _addend_version: int
    _value: Optional[torch.Tensor]

    @staticmethod
    def __new__(
        cls: Any, run: Run, addend: Optional[torch.Tensor] = None
    ) -> Pending:
        taken = run.taken
        made: Pending = torch.Tensor._make_wrapper_subclass(
            cls, taken.shape, strides=taken.stride(), dtype=taken.dtype,
            device=taken.device,
        )  # fmt: skip
        made._made_by = made._run = run
        made._value = None
        made._add(addend)
        return made

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        first = args[0] if args else None
        if isinstance(first, Pending) and func in _SAME_AS_INPUT:
            return func(first._made_by.taken, *args[1:], **kwargs)
        why = f"{_name(func)} uses its result"
        if not torch.is_grad_enabled():
            for one in pending_in((args, kwargs)):
                one._made_by.plan.elsewhere(
                    one._made_by, f"{why} where gradients are off"
                )
        if isinstance(first, Pending) and first._run is not None:
            if func in _RELUS and not kwargs.get("inplace"):
                return first._relu()
            if func in _RELUS or func in _RELUS_IN_PLACE:
                return first._become(first._relu())
        if func in _SUMS or func in _SUMS_IN_PLACE:
            told = _sum(args, kwargs, func in _SUMS_IN_PLACE)
            if told is not None:
                return told
        return func(*_valued(args, why), **_valued(kwargs, why))

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise RuntimeError(
            "ucudnn: a fused normalization's result went where PyTorch's functions "
            "do not see it; revert() what convert returned"
        )

    def value(self, why: str) -> torch.Tensor:
        """The tensor; `why` it is needed now."""
        run = self._run
        if run is not None:
            run.plan.read(run, why)
            self._become(self._plain())
        assert self._value is not None
        return self._value

    def _plain(self) -> torch.Tensor:
        run = self._run
        assert run is not None
        self._check_addend()
        plain = run.plain()
        return plain if self._addend is None else plain + self._addend

    def _relu(self) -> torch.Tensor:
        run = self._run
        assert run is not None
        self._check_addend()
        run.check()
        out = run.plan.fused(run, self._addend)
        if out is not None:
            return out
        return torch.relu_(self._plain())

    def _become(self, value: torch.Tensor) -> torch.Tensor:
        """Operators in place make this the value, whoever holds it."""
        self._run = self._addend = None
        self._value = value
        return value

    def _add(self, addend: Optional[torch.Tensor]) -> None:
        self._addend = addend
        self._addend_version = 0 if addend is None else addend._version

    def _check_addend(self) -> None:
        if self._addend is not None:
            if self._addend._version != self._addend_version:
                raise _changed("what was added to")


def _sum(args: Any, kwargs: Any, in_place: bool) -> Optional[Pending]:
    """A sum that waits for a ReLU; none if none can be fused with it."""
    if kwargs or len(args) != 2:
        return None
    first, other = args
    if not _waits(first):
        if in_place or not _waits(other):
            return None
        first, other = other, first
    if isinstance(other, Pending):
        other = other.value("it is added to another")
    if not _alike(other, first._run.taken):
        return None
    if in_place:
        first._add(other)
        told: Pending = first
        return told
    return Pending(first._run, other)


def _waits(item: Any) -> bool:
    return (
        isinstance(item, Pending)
        and item._run is not None
        and item._addend is None
    )


def _alike(addend: Any, taken: torch.Tensor) -> bool:
    return (
        type(addend) is torch.Tensor
        and addend.shape == taken.shape
        and addend.dtype == taken.dtype
        and addend.device == taken.device
        and form_of(addend) == form_of(taken)
    )


def _name(func: Any) -> str:
    """Of a function, or of the attribute that it gets."""
    name = getattr(func, "__name__", str(func))
    return getattr(func.__self__, "__name__", name) if name == "__get__" else name


def _valued(item: Any, why: str) -> Any:
    if isinstance(item, Pending):
        return item.value(why)
    if isinstance(item, (list, tuple)) and any(True for _ in pending_in(item)):
        return type(item)([_valued(one, why) for one in item])
    if isinstance(item, dict):
        return {key: _valued(one, why) for key, one in item.items()}
    return item


def _changed(what: str) -> RuntimeError:
    return RuntimeError(
        f"ucudnn: {what} a fused normalization was changed in place before the "
        "ReLU behind it, or its result was used; revert() what convert returned"
    )


def pending_in(value: Any) -> Iterator[Pending]:
    if isinstance(value, Pending):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from pending_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from pending_in(item)
