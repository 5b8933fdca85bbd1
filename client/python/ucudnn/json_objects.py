"""Frozen dataclasses from JSON, with errors that name the place, and back."""

from __future__ import annotations

import functools
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import (
    Any,
    Callable,
    Hashable,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from ucudnn.errors import InvalidArgument

_Object = TypeVar("_Object")
_Reader = Callable[[Any, str], Any]  # of a value and its place
# Of each type in fields: the types of its values, and what they are called.
_ACCEPTED: dict[Any, tuple[Any, str]] = {
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: ((int, float), "a number"),
    str: (str, "text"),
    dict: (dict, "an object"),
}


def decode(cls: type[_Object], value: Any, place: str) -> _Object:
    """The object of dataclass `cls` that `value` stands for; unknown fields are
    ignored, because later versions may add some. Raises InvalidArgument, naming
    the field by its path from `place`, its value and what is accepted; also what
    the classes raise."""
    if not isinstance(value, dict):
        raise _refuse(place, value, "an object")
    values = {}
    for name, read, required in _readers(cast(Hashable, cls)):
        if name in value:
            values[name] = read(value[name], f"{place}.{name}")
        elif required:
            raise InvalidArgument(f"{place}.{name} is missing")
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


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


# Types are looked at once, since fronts have thousands of points.
@functools.lru_cache(maxsize=None)
def _readers(cls: Any) -> list[tuple[str, _Reader, bool]]:
    """Of each field; and whether it is required."""
    hints = get_type_hints(cls)
    return [
        (field.name, _reader(hints[field.name]), _default(field) is MISSING)
        for field in fields(cls)
    ]


def _reader(hint: Any) -> _Reader:
    if type(None) in get_args(hint):
        inner = _reader(get_args(hint)[0])
        return lambda value, place: None if value is None else inner(value, place)
    if get_origin(hint) is list:
        item = _reader(get_args(hint)[0])

        def read_list(value: Any, place: str) -> Any:
            if not isinstance(value, list):
                raise _refuse(place, value, "a list")
            return [item(v, f"{place}[{i}]") for i, v in enumerate(value)]

        return read_list
    if isinstance(hint, type) and is_dataclass(hint):
        return lambda value, place: decode(hint, value, place)
    kinds, accepted = _ACCEPTED[get_origin(hint) or hint]

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, kinds) or isinstance(value, bool) != (hint is bool):
            raise _refuse(place, value, accepted)
        return value

    return read


def _refuse(place: str, value: Any, accepted: str) -> InvalidArgument:
    shown = repr(value)
    if len(shown) > 60:
        shown = shown[:60] + "..."
    return InvalidArgument(f"{place}: {shown}; {accepted} is accepted")
