"""Puts the schemas of tools into a plain form that every chat template can read.

Many templates read parts of a schema without asking whether they are there. The form is for them
alone: calls are checked by the schema that came with the tool.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.replies.tools import Tool

_TYPES = ("string", "number", "integer", "boolean", "array", "object")
"""The types that templates know; of several the first in a schema is shown."""
_DEEPEST = 8


def in_plain_form(tools: Sequence[Any]) -> list[Any]:
    """The tools with a type and a description in every schema, and properties in every object.
    Other types that a schema allows are named in its description."""
    found = []
    for tool in tools:
        function = {"name": "", "description": "", **tool["function"]}
        given = function.get("parameters")
        own = Tool(function["name"], given if isinstance(given, Mapping) else {})
        function["parameters"] = _plain(own, {**own.parameters, "type": "object"})
        found.append({**tool, "function": function})
    return found


def _plain(tool: Tool, given: object, *, depth: int = 0) -> dict[str, Any]:
    outer = given if isinstance(given, Mapping) else {}
    schema: dict[str, Any] = {**tool.resolved(outer), **outer}
    kinds, branches = list[str](), list[Mapping[str, Any]]()
    for name in ("anyOf", "oneOf", "allOf"):
        several = schema.pop(name, None)
        branches += map(tool.resolved, several) if isinstance(several, list) else []
    for part in (schema, *branches):
        kinds += [kind for kind in sorted(tool.types(part)) if kind not in kinds]
    kind = next((kind for kind in kinds if kind in _TYPES), "object" if depth == 0 else "string")
    fitting = next((branch for branch in branches if kind in tool.types(branch)), {})
    schema = {**fitting, **schema, "type": kind}
    description = schema.get("description")
    others = "".join(f" (or {other})" for other in kinds if other != kind)
    schema["description"] = f"{description if isinstance(description, str) else ''}{others}".strip()
    deeper = depth < _DEEPEST
    if kind == "object":
        properties = schema.get("properties")
        inner = properties if isinstance(properties, Mapping) and deeper else {}
        schema["properties"] = {
            name: _plain(tool, part, depth=depth + 1) for name, part in inner.items()
        }
        required = schema.get("required")
        schema["required"] = required if isinstance(required, list) else []
        more = schema.get("additionalProperties", True)
        plain = isinstance(more, Mapping) and deeper
        schema["additionalProperties"] = _plain(tool, more, depth=depth + 1) if plain else more
    if kind == "array":
        schema["items"] = _plain(tool, schema.get("items") if deeper else {}, depth=depth + 1)
    return schema
