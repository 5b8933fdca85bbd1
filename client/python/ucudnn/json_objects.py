"""Frozen dataclasses from JSON, with errors that name the place, and back."""

from __future__ import annotations

import functools
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import (
    Any,
    Dict,
    Hashable,
    Type,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from ucudnn.errors import InvalidArgument

_Object = TypeVar("_Object")
_ACCEPTED = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}


def decode(cls: Type[_Object], value: Any, place: str) -> _Object:
    """The object of dataclass `cls` that `value` stands for; unknown fields are
    ignored, because later versions may add some. Raises InvalidArgument, naming
    the field by its path from `place`, its value and what is accepted; also what
    the classes raise."""
    if not isinstance(value, dict):
        raise _refuse(place, value, "an object")
    hints = _hints(cast(Hashable, cls))
    values = {}
    for field in fields(cls):
        if field.name in value:
            values[field.name] = _value(
                hints[field.name], value[field.name], f"{place}.{field.name}"
            )
        elif _default(field) is MISSING:
            raise InvalidArgument(f"{place}.{field.name} is missing")
    try:
        return cls(**values)
    except InvalidArgument as error:
        raise InvalidArgument(f"{place}: {error}") from error


def encode(value: Any) -> Any:
    """The JSON of a value; fields that have their default are left out."""
    if is_dataclass(value):
        return {
            field.name: encode(getattr(value, field.name))
            for field in fields(value)
            if getattr(value, field.name) != _default(field)
        }
    if isinstance(value, list):
        return [encode(item) for item in value]
    return value


@functools.lru_cache(maxsize=None)
def _hints(cls: Any) -> Dict[str, Any]:
    return get_type_hints(cls)


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def _value(hint: Any, value: Any, place: str) -> Any:
    if type(None) in get_args(hint):
        if value is None:
            return None
        hint = get_args(hint)[0]
    if get_origin(hint) is list:
        if not isinstance(value, list):
            raise _refuse(place, value, "a list")
        (item,) = get_args(hint)
        return [_value(item, v, f"{place}[{i}]") for i, v in enumerate(value)]
    if is_dataclass(hint):
        return decode(hint, value, place)
    if get_origin(hint) is dict:
        if not isinstance(value, dict):
            raise _refuse(place, value, "an object")
        return value
    kinds = (int, float) if hint is float else hint
    if not isinstance(value, kinds) or isinstance(value, bool) != (hint is bool):
        raise _refuse(place, value, _ACCEPTED[hint])
    return value


def _refuse(place: str, value: Any, accepted: str) -> InvalidArgument:
    shown = repr(value)
    if len(shown) > 60:
        shown = shown[:60] + "..."
    return InvalidArgument(f"{place}: {shown}; {accepted} is accepted")
