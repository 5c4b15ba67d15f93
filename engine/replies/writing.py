"""Writes a tool call as a family of models does: what `engine.replies.parser` reads."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from engine.replies.syntax import Family


def write_call(family: Family, name: str, arguments: Mapping[str, Any]) -> str:
    """A call in the notation of the family; in Hermes' if the family has none."""
    return _WRITERS.get(family, _hermes)(name, arguments)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _hermes(name: str, arguments: Mapping[str, Any]) -> str:
    return f"<tool_call>\n{_json({'name': name, 'arguments': arguments})}\n</tool_call>"


def _llama(name: str, arguments: Mapping[str, Any]) -> str:
    return _json({"name": name, "parameters": arguments})


def _mistral(name: str, arguments: Mapping[str, Any]) -> str:
    return f"[TOOL_CALLS] {_json([{'name': name, 'arguments': arguments}])}"


def _mistral_args(name: str, arguments: Mapping[str, Any]) -> str:
    return f"[TOOL_CALLS]{name}[ARGS]{_json(arguments)}"


def _qwen(name: str, arguments: Mapping[str, Any]) -> str:
    parts = "".join(
        f"<parameter={key}>\n{_text(value)}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{parts}</function>\n</tool_call>"


def _glm(name: str, arguments: Mapping[str, Any]) -> str:
    parts = "".join(
        f"<arg_key>{key}</arg_key><arg_value>{_text(value)}</arg_value>"
        for key, value in arguments.items()
    )
    return f"<tool_call>{name}\n{parts}</tool_call>"


def _lfm(name: str, arguments: Mapping[str, Any]) -> str:
    parts = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return f"<|tool_call_start|>[{name}({parts})]<|tool_call_end|>"


def _gemma(name: str, arguments: Mapping[str, Any]) -> str:
    return f"<|tool_call>call:{name}{_literal(arguments, '<|"|>')}<tool_call|>"


def _function_gemma(name: str, arguments: Mapping[str, Any]) -> str:
    literal = _literal(arguments, "<escape>")
    return f"<start_function_call>call:{name}{literal}<end_function_call>"


def _harmony(name: str, arguments: Mapping[str, Any]) -> str:
    return f"<|channel|>commentary to=functions.{name}<|message|>{_json(arguments)}<|call|>"


def _literal(value: object, quote: str) -> str:
    """A value in Gemma's notation: JSON with bare keys, and with `quote` around texts."""
    if isinstance(value, str):
        return f"{quote}{value}{quote}"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_literal(one, quote)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_literal(one, quote) for one in value) + "]"
    return _json(value)


_WRITERS: dict[Family, Callable[[str, Mapping[str, Any]], str]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mistral args": _mistral_args,
    "qwen xml": _qwen,
    "glm": _glm,
    "lfm": _lfm,
    "gemma": _gemma,
    "function gemma": _function_gemma,
    "harmony": _harmony,
}
