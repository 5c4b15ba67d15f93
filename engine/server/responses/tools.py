"""Turns the tools of /v1/responses into functions with JSON arguments, the only kind models know.

A custom tool takes text: the model sees a function with that text as its only argument. The name of
a tool in a namespace includes the namespace.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from llguidance import LLMatcher

from engine.server.responses.bodies import (
    CustomTool,
    FunctionTool,
    GrammarFormat,
    Namespace,
    Tool,
)

INPUT = "input"  # the argument that holds the text


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A tool by the client's names, and the `function` that the model sees.

    `pattern`: a regular expression that holds a custom tool's text, if the client gives one.
    """

    name: str
    namespace: str | None
    custom: bool
    function: dict[str, Any]
    pattern: str = ""


def known_tools(tools: Iterable[Tool]) -> dict[str, KnownTool]:
    """The client's tools, by the names that the model sees, without those that run at OpenAI."""
    return {full_name(tool.name, tool.namespace): tool for tool in _known(tools, None)}


def full_name(name: str, namespace: str | None) -> str:
    """The name that the model sees: "read" in "files" is "files__read"."""
    return f"{namespace.rstrip('_')}__{name}" if namespace else name


def _known(tools: Iterable[Tool], namespace: str | None) -> Iterator[KnownTool]:
    for tool in tools:
        match tool:
            case FunctionTool():
                yield KnownTool(tool.name, namespace, False, _function(tool, namespace))
            case CustomTool():
                function, pattern = _custom(tool, namespace), _pattern(tool)
                yield KnownTool(tool.name, namespace, True, function, pattern)
            case Namespace():
                yield from _known(tool.tools, tool.name)


def _function(tool: FunctionTool, namespace: str | None) -> dict[str, Any]:
    return {
        "name": full_name(tool.name, namespace),
        "description": tool.description or "",
        "parameters": tool.parameters or {"type": "object", "properties": {}},
        "strict": bool(tool.strict),
    }


def _custom(tool: CustomTool, namespace: str | None) -> dict[str, Any]:
    text: dict[str, Any] = {"type": "string"}
    if isinstance(tool.format, GrammarFormat):
        kind = "Lark grammar" if tool.format.syntax == "lark" else "regular expression"
        text["description"] = f"A text that matches this {kind}:\n{tool.format.definition}"
    return {
        "name": full_name(tool.name, namespace),
        "description": tool.description or "",
        "parameters": {
            "type": "object",
            "properties": {INPUT: text},
            "required": [INPUT],
            "additionalProperties": False,
        },
        "strict": True,
    }


def _pattern(tool: CustomTool) -> str:
    """The regular expression that holds a custom tool's text; "" if it has none that can hold it,
    or a Lark grammar: then the model only reads it."""
    if not isinstance(tool.format, GrammarFormat) or tool.format.syntax == "lark":
        return ""
    pattern = tool.format.definition
    schema = json.dumps({"type": "string", "pattern": f"^(?:{pattern})$"})
    refused, _ = LLMatcher.validate_grammar_with_warnings(
        LLMatcher.grammar_from_json_schema(schema)
    )
    return "" if refused else pattern
