"""Reads plain JSON values as dataclasses, checked; `dataclasses.asdict` writes them.

Knows the annotations that our records have: texts, numbers, truth values, None, Literal, tuples,
mappings, and other dataclasses. Knows no particular record, and no file.
"""

import dataclasses
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, get_args, get_origin

_EXPECTED = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_NAMES = {dict: "an object", list: "a list", str: "a text", bool: "a truth value"}


Mistake = Literal[
    "unknown field",
    "missing field",
    "wrong type",
    "wrong value",
    # the rest are of a line: see `models.json_lines`
    "too long",
    "empty",
    "not utf 8",
    "nested too deeply",
    "not json",
    "not an object",
    "unknown name",
]


class WrongJson(ValueError):
    """A JSON value is not as expected: the `mistake` and its `place`, and both in words.

    Callers whose input comes from the user turn it into a `Problem`.
    """

    def __init__(self, mistake: Mistake, place: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.mistake = mistake
        self.place = place
        self.message = message
        self.remedy = remedy


def decode[T](kind: type[T], value: object, *, place: str, ignore_unknown: bool = False) -> T:
    """`value`, as `json.loads` gave it, as a `kind`; `place` is what messages call it.

    Fields that are missing get their defaults. Fields that `kind` does not have are refused, or
    left out with `ignore_unknown`, for what another version may have written. Raises WrongJson, and
    any error that the dataclass raises on values that it refuses.
    """
    decoded: T = _Decoder(ignore_unknown).value(kind, value, place)
    return decoded


def named(value: object) -> str:
    """Return the kind of a JSON value, in words."""
    return "null" if value is None else _NAMES.get(type(value), "a number")


def short(value: object) -> str:
    """A text, quoted and cut to fit in a line; for other values their kind."""
    return repr(value[:40]) if isinstance(value, str) else named(value)


@dataclasses.dataclass(frozen=True, slots=True)
class _Decoder:
    ignore_unknown: bool

    def value(self, kind: Any, value: Any, place: str) -> Any:
        if kind in (str, int, bool):
            if type(value) is kind:
                return value
            raise _wrong(value, place, _EXPECTED[kind])
        if kind is float:
            return _float(value, place)
        if dataclasses.is_dataclass(kind):
            return self.record(kind, value, place)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is UnionType:  # with None
            return None if value is None else self.value(arguments[0], value, place)
        if origin is Literal:
            if isinstance(value, str) and value in arguments:
                return value
            message = f"{place} is {short(value)}."
            raise WrongJson("wrong value", place, message, f"Give {' or '.join(arguments)}.")
        if origin is tuple:
            return self.items(arguments, value, place)
        if origin in (dict, Mapping):
            return self.mapping(arguments, value, place)
        if kind is Any:
            return value
        raise TypeError(f"{place} is annotated as {kind}, which has no JSON form here")

    def record(self, kind: Any, given: Any, place: str) -> Any:
        if not isinstance(given, dict):
            raise _wrong(given, place, "an object")
        known = {field.name: field for field in dataclasses.fields(kind) if field.init}
        remedy = f"Its fields are {', '.join(known)}." if known else "It has no fields."
        for name in given:
            if name not in known and not self.ignore_unknown:
                message = f"{place} has no field {short(name)}."
                raise WrongJson("unknown field", place, message, remedy)
        fields = {}
        for name, field in known.items():
            if name in given:
                fields[name] = self.value(field.type, given[name], f"{place}.{name}")
            elif field.default is field.default_factory is dataclasses.MISSING:
                message = f"{place} lacks {name!r}."
                raise WrongJson("missing field", f"{place}.{name}", message, remedy)
        return kind(**fields)

    def items(self, kinds: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _wrong(value, place, "a list")
        if kinds[1:] == (...,):
            kinds = kinds[:1] * len(value)
        if len(kinds) != len(value):
            message = f"{place} has {len(value)} items."
            raise WrongJson("wrong value", place, message, f"Give {len(kinds)}.")
        pairs = zip(kinds, value, strict=True)
        return tuple(
            self.value(kind, item, f"{place}[{i}]") for i, (kind, item) in enumerate(pairs)
        )

    def mapping(self, kinds: tuple[Any, ...], value: Any, place: str) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise _wrong(value, place, "an object")
        key_kind, kind = kinds
        return {
            _whole(key, place) if key_kind is int else key: self.value(kind, item, place)
            for key, item in value.items()
        }


def _float(value: Any, place: str) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise _wrong(value, place, "a number")
    try:
        return float(value)
    except OverflowError:
        message = f"{place} is out of range."
        raise WrongJson("wrong value", place, message, "Give a smaller number.") from None


def _whole(key: str, place: str) -> int:
    """Return the whole number that a key spells, as JSON keys are texts. Raises WrongJson."""
    if not (key.isascii() and key.isdecimal() and len(key) < 10):
        message = f"{place} has the key {short(key)}."
        raise WrongJson("wrong value", place, message, "Give whole numbers as keys.")
    return int(key)


def _wrong(value: object, place: str, expected: str) -> WrongJson:
    return WrongJson("wrong type", place, f"{place} is {named(value)}.", f"Give {expected}.")
