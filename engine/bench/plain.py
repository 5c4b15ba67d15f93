"""Frozen dataclasses to plain JSON values and back. Knows no particular one.

What is read may be of another version: fields that it lacks get their defaults, those that it has
besides are left alone. Anything that does not fit raises ValueError, naming the place.
"""

import dataclasses
from types import UnionType
from typing import Any, get_args, get_origin


def restored[T](kind: type[T], value: Any, place: str = "report") -> T:
    """The dataclass `kind` from what `json.loads` made of it."""
    if not isinstance(value, dict):
        raise ValueError(f"{place} is no object")
    fields = {}
    for item in dataclasses.fields(kind):  # type: ignore[arg-type]  # any dataclass will do
        if item.name in value:
            fields[item.name] = _value(item.type, value[item.name], f"{place}.{item.name}")
        elif item.default is dataclasses.MISSING:
            raise ValueError(f"{place} lacks {item.name}")
    return kind(**fields)


def _value(kind: Any, value: Any, place: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is UnionType:  # with None
        return None if value is None else _value(arguments[0], value, place)
    if dataclasses.is_dataclass(kind):
        return restored(kind, value, place)  # type: ignore[arg-type]
    if origin is dict and isinstance(value, dict):
        return {key: _value(arguments[1], item, place) for key, item in value.items()}
    if origin is tuple and isinstance(value, list):
        kinds = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        if len(kinds) == len(value):
            pairs = zip(kinds, value, strict=True)
            return tuple(_value(k, item, f"{place}[{i}]") for i, (k, item) in enumerate(pairs))
    if kind is float and type(value) in (int, float):
        return float(value)
    if kind in (int, str, bool) and type(value) is kind:
        return value
    raise ValueError(f"{place} is {value!r:.40}")
