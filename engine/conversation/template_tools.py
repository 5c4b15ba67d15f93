"""Puts the schemas of tools into a plain form that every chat template can read.

Many templates read parts of a schema without asking whether they are there. The form is for them
alone: calls are checked by the schema that came with the tool.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.replies.tools import Tool

_TYPES = ("string", "number", "integer", "boolean", "array", "object")
"""The types that templates know."""
_MOST_REFERENCES = 3  # one in another: a schema may be part of itself


def in_plain_form(tools: Sequence[Any]) -> list[Any]:
    """The tools with one type and a description in every schema, and properties in every object.
    Other types that a schema allows are named in its description."""
    found = []
    for tool in tools:
        function = {"description": "", "parameters": None, **tool["function"]}
        own = Tool(function["name"], _object(function["parameters"]))
        plain = _plain(own, {**own.parameters, "type": "object"})
        found.append({**tool, "function": {**function, "parameters": plain}})
    return found


def _plain(tool: Tool, given: object, references: int = _MOST_REFERENCES) -> dict[str, Any]:
    schema = {**tool.resolved(given), **_object(given)}
    several = [schema.pop(name, None) for name in ("anyOf", "oneOf", "allOf")]
    parts = [schema, *(_object(part) for parts in several for part in parts or ())]
    references -= any("$ref" in part for part in parts)
    if references < 0:
        return _plain(tool, {})
    parts = [{**tool.resolved(part), **part} for part in parts]
    kinds = [*dict.fromkeys(kind for part in parts for kind in sorted(tool.types(part)))]
    kind = next((kind for kind in kinds if kind in _TYPES), "string")
    fitting = next((part for part in parts if kind in tool.types(part)), {})
    others = [f"(or {other})" for other in kinds if other != kind]
    description = " ".join([str(schema.get("description", "")), *others]).strip()
    schema = {**fitting, **schema, "type": kind, "description": description}
    if kind == "object":
        inner = _object(schema.get("properties")).items()
        schema["properties"] = {name: _plain(tool, part, references) for name, part in inner}
        more = schema.get("additionalProperties", True)
        schema["additionalProperties"] = _plain(tool, more, references) if _object(more) else more
    if kind == "array":
        schema["items"] = _plain(tool, schema.get("items"), references)
    return schema


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
