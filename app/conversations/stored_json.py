"""Values as lines of JSON, as the store keeps them: settings, figures, calls, permissions.

Knows dataclasses, tuples and mappings of them; no particular value, and no SQL.
"""

import dataclasses
import json
from typing import Any

from models.errors import Problem
from models.typed_json import decode


def write(value: object) -> str:
    """Return the value as one line of JSON; an empty text for an empty value and for None."""
    return json.dumps(value, default=_plain) if value else ""


def read_or[T](kind: type[T], text: str | None, default: T) -> T:
    """Return what `write` wrote. Returns `default` for a text that is empty, damaged, or
    not understood by this version."""
    try:
        return decode(kind, json.loads(text), place="stored") if text else default
    except (Problem, ValueError, RecursionError):
        return default


def _plain(value: Any) -> object:
    return dataclasses.asdict(value)
