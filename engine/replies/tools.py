"""The tools that a model may call, from OpenAI's JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from models.errors import Problem

_MOST_REFERENCES = 8  # one to another
_SAYS_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its name and the JSON schema of its arguments, which is enforced if `strict`."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False

    @property
    def properties(self) -> Mapping[str, Any]:
        """The schemas of its parameters, by their names."""
        return part_of(self.parameters, "properties", dict)

    def schema_of(self, parameter: str) -> Mapping[str, Any]:
        """The schema of one parameter; empty if the tool has none."""
        return self.resolved(self.properties.get(parameter))

    def types(self, schema: Mapping[str, Any]) -> set[str]:
        """The JSON types that a parameter's schema allows; empty if it names none."""
        found, seen, waiting = set[str](), set[int](), [schema]
        while waiting:
            part = waiting.pop()
            if id(part) in seen:
                continue
            seen.add(id(part))
            kind, values = part.get("type"), part.get("enum")
            if isinstance(kind, str):
                found.add(kind)
            elif isinstance(kind, list):
                found.update(name for name in kind if isinstance(name, str))
            elif "const" in part:
                found.add(type_of(part["const"]))
            elif isinstance(values, list):
                found.update(map(type_of, values))
            for several in ("anyOf", "oneOf"):
                choices = part.get(several)
                if isinstance(choices, list):
                    waiting += map(self.resolved, choices)
        return found

    def resolved(self, schema: object) -> Mapping[str, Any]:
        """The schema itself, or the schema that its `$ref` leads to."""
        for _ in range(_MOST_REFERENCES):
            if not isinstance(schema, Mapping):
                break
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            schema = self.parameters if reference == "#" else None
            for defined in ("$defs", "definitions"):
                if reference.startswith(f"#/{defined}/"):
                    name = reference.removeprefix(f"#/{defined}/")
                    schema = part_of(self.parameters, defined, dict).get(name)
        return _SAYS_NOTHING


def tools_of(text: str) -> tuple[Tool, ...]:
    """Parse the tools from a JSON list, as in `engine.request.Prompt`. Raises `Problem`."""
    try:
        found = json.loads(text) if text else []
        return tuple(_tool(tool["function"]) for tool in found)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Problem(
            f"The tools cannot be read: {error!r}.",
            'Send a list of {"type": "function", "function": {"name": ..., "parameters": ...}}.',
        ) from None


def type_of(value: object) -> str:
    """Return the type of a JSON value, as schemas name it: "null", "boolean", ..."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def named(tools: Sequence[Tool], name: str) -> Tool:
    """Return the tool with this name, or a tool without a schema if there is none."""
    return next((tool for tool in tools if tool.name == name), Tool(name))


def part_of[Kind](schema: Mapping[str, Any], field: str, kind: type[Kind]) -> Kind:
    """A part of a schema; empty if it is missing or of another kind."""
    found = schema.get(field)
    return found if isinstance(found, kind) else kind()


def _tool(function: Mapping[str, Any]) -> Tool:
    parameters = function.get("parameters") or {}
    if not isinstance(function["name"], str) or not isinstance(parameters, dict):
        raise TypeError("a name is not a text, or parameters are not an object")
    return Tool(function["name"], parameters, function.get("strict") is True)
