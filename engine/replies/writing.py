"""Writes a tool call as a family of models does: what `engine.replies.reading` reads."""

import json
from collections.abc import Mapping
from typing import Any

from engine.replies.families import FAMILIES, CallRow, Family
from engine.replies.tools import type_of


def write_call(
    notation: Family | CallRow, name: str, arguments: Mapping[str, Any], number: int = 0
) -> str:
    """A call in a notation or a family's; in Hermes' if the family has none. `number`: of the
    call, where the notation has an id."""
    row = notation
    if not isinstance(row, CallRow):
        row = FAMILIES.get(row, FAMILIES["hermes"]).calls[0]
    before, named, behind = (
        mark.replace("{gap}", "").replace("{id}", str(number))
        for mark in (row.opening + row.begin, row.named, row.end + row.closing)
    )
    return f"{before}{name}{named}{_arguments(row, arguments)}{behind}"


def _arguments(row: CallRow, arguments: Mapping[str, Any]) -> str:
    if row.form == "tags":
        return "".join(_tagged(row, key, value) for key, value in arguments.items())
    if row.form == "nested":
        return "".join(_nested(row, key, value) for key, value in arguments.items())
    if row.form == "python":
        return ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    if row.form == "literals":
        return _literal(arguments, row.quote)
    return _json(arguments)


def _tagged(row: CallRow, key: str, value: object) -> str:
    before, keyed, behind = (mark.replace("{gap}", "") for mark in row.key)
    is_text = isinstance(value, str)
    keyed = keyed.replace("{text}", _json(is_text)).replace("{type}", type_of(value))
    return f"{before}{key}{keyed}{value if is_text else _json(value)}{behind}"


def _nested(row: CallRow, key: str, value: object) -> str:
    """A value between its tags. Null is an empty one, as templates write it."""
    before, behind, closing = row.key
    match value:
        case Mapping():
            inner = "".join(_nested(row, name, part) for name, part in value.items())
        case list():
            inner = "".join(_nested(row, "item", part) for part in value)
        case str():
            inner = value
        case _:
            inner = "" if value is None else _json(value)
    return f"{before}{key}{behind}{inner}{closing}{key}{behind}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _literal(value: object, quote: str) -> str:
    """A value in Gemma's notation: JSON with bare keys, and with `quote` around texts."""
    if isinstance(value, str):
        return f"{quote}{value}{quote}"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_literal(part, quote)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_literal(part, quote) for part in value) + "]"
    return _json(value)
