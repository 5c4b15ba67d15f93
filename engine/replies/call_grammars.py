"""The grammars of calls, for each family of models.

A `strict` tool is called with arguments of its schema, any other tool with any arguments. Only JSON
can be held to all of a schema. Gemma's texts, and texts between tags (Qwen3-Coder, GLM), end at a
mark: a strict tool that sets a pattern, a format or a length of one is refused with a `Problem`.
Between tags this is so for texts within lists and objects too, which must not spell the tag.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.replies.families import CallRow, Form, pieces
from engine.replies.lark import Rules, either, members, text
from engine.replies.schemas import mapped
from engine.replies.tools import Tool, part_of
from models.errors import Problem

_SAYS_NOTHING = {"title", "description", "default", "examples", "$comment", "deprecated"}
_UNDERSTOOD = _SAYS_NOTHING | {
    "type", "enum", "const", "anyOf", "oneOf", "properties", "required", "additionalProperties",
    "items", "$ref", "$defs", "definitions", "$schema", "$id",
}  # fmt: skip
_NO_TYPES: set[str] = set()
_SCALARS = ("integer", "number", "boolean", "null")


@dataclass(frozen=True, slots=True)
class Calls:
    """Grammar bodies of a family's calls, each after its `trigger`.

    In a `section`, all calls of a reply are between `opening` and `closing`; otherwise each has its
    own trigger. `between` separates them. `unmarked`: the beginnings of calls that have no mark of
    their own; then a reply has at most one.
    """

    trigger: str
    calls: tuple[str, ...]
    opening: str
    closing: str
    between: str
    section: bool
    unmarked: tuple[str, ...]

    def behind_trigger(self, *, parallel: bool) -> str:
        call = either(self.calls)
        if self.section and parallel:
            call = f"{call} ({self.between} {call})*"
        return f"{self.opening} {call} {self.closing}"

    def whole(self, rules: Rules, *, parallel: bool) -> str:
        """The grammar body of a reply that consists of calls."""
        call = f"{rules.mark(self.trigger)} {self.behind_trigger(parallel=parallel)}"
        if self.section or self.unmarked or not parallel:
            return call
        return f"{call} ({self.between} {call})*"


def calls_of(rows: Sequence[CallRow], rules: Rules, tools: Sequence[Tool]) -> Calls:
    """The calls of these tools, as the first of a family's rows writes them."""
    row, trigger = rows[0], rows[0].trigger
    opening, begin = row.opening.removeprefix(trigger), row.begin
    if not row.opening:
        begin = begin.removeprefix(trigger)
    arguments = _ARGUMENTS[row.form](rules, row)
    return Calls(
        trigger,
        tuple(
            f"{rules.mark(begin)} {text(tool.name)} {rules.mark(row.named)} {arguments(tool)} "
            f"{rules.mark(row.end)}"
            for tool in tools
        ),
        opening=rules.mark(opening),
        closing=rules.mark(row.closing),
        between=rules.mark(row.between),
        section=bool(row.opening),
        unmarked=tuple(row.trigger for row in rows) if row.unmarked else (),
    )


def understood(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a schema to which calls of every form can be held."""

    def change(part: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in part.items() if key in _UNDERSTOOD}

    return mapped(schema, change)


def arguments_of(rules: Rules, tool: Tool) -> str:
    """A rule for a tool's arguments as JSON; returns its name."""
    return rules.json({**(tool.parameters if tool.strict else {}), "type": "object"})


def _json(rules: Rules, row: CallRow) -> Callable[[Tool], str]:
    return lambda tool: arguments_of(rules, tool)


def _tags(rules: Rules, row: CallRow) -> Callable[[Tool], str]:
    """Keys and values between tags, with an optional line end after a value."""
    before, keyed, closing = row.key
    end = pieces(closing)[0]
    after = rules.mark(closing.partition(end)[2])
    words = rules.up_to("TEXT", end)

    def part(name: str, value: str, *, types: set[str] = _NO_TYPES) -> str:
        return f"{rules.mark(before)} {name} {_keyed(rules, keyed, types)} {value} {after}"

    def arguments(tool: Tool) -> str:
        if not tool.strict:
            return f"({part('TAGGED', words)})*"
        _refuse_beyond(tool, tool.parameters)
        parts = []
        for name, schema, must in _parameters(tool, allowed=r'[^<>\n"]+'):
            value = _tagged_value(rules, tool, schema, end, words)
            parts.append((part(text(name), value, types=tool.types(schema)), must))
        return members(rules, parts)

    return arguments


def _keyed(rules: Rules, mark: str, types: set[str]) -> str:
    """The mark after a key, whose value has one of these types."""
    if types == {"string"}:
        mark = mark.replace("{text}", "true").replace("{type}", "string")
    elif types and "string" not in types:
        mark = mark.replace("{text}", "false")
    return rules.mark(mark)


def _python(rules: Rules, row: CallRow) -> Callable[[Tool], str]:
    """A value is JSON, as the templates write lists and objects, or True, False, None or a text in
    single quotes."""
    anything = (
        f"({rules.json({})} | {either([text(w) for w in ('True', 'False', 'None')])} | QUOTED)"
    )

    def arguments(tool: Tool) -> str:
        if not tool.strict:
            argument = f"WORD {text('=')} {anything}"
            return f"({argument} ({text(', ')} {argument})*)?"
        _refuse_beyond(tool, tool.parameters)
        parts = [
            (f"{text(f'{name}=')} {_python_value(rules, tool, schema)}", must)
            for name, schema, must in _parameters(tool, allowed=r"\w+")
        ]
        return members(rules, parts, comma=text(", "))

    return arguments


def _literals(rules: Rules, row: CallRow) -> Callable[[Tool], str]:
    return _Literals(rules, quote=row.quote).arguments


def _parameters(tool: Tool, *, allowed: str) -> list[tuple[str, Mapping[str, Any], bool]]:
    """The parameters of a strict tool: (name, schema, whether it is required)."""
    required = part_of(tool.parameters, "required", list)
    found = []
    for name in tool.properties:
        if not re.fullmatch(allowed, name):
            raise Problem(
                f"This model's calls cannot contain the parameter {name!r} of {tool.name}.",
                "Rename it with letters, digits and underscores.",
            )
        found.append((name, tool.schema_of(name), name in required))
    return found


def _definitions(tool: Tool) -> dict[str, Any]:
    """The definitions that parts of a tool's schema may refer to."""
    shared = ("$defs", "definitions")
    return {name: tool.parameters[name] for name in shared if name in tool.parameters}


def _refuse_beyond(tool: Tool, schema: Mapping[str, Any]) -> None:
    """Raise `Problem` for a keyword that can be enforced in JSON only."""
    for keyword in schema:
        if keyword not in _UNDERSTOOD:
            raise Problem(
                f"{tool.name} is strict, but this model's calls cannot enforce {keyword}.",
                f"Remove {keyword} from its schema, or do not set strict.",
            )


def _values(schema: Mapping[str, Any]) -> list[object] | None:
    """Return the only values that a schema allows, if it lists them as an enum or const; None
    otherwise."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _tagged_value(
    rules: Rules, tool: Tool, schema: Mapping[str, Any], closing: str, words: str
) -> str:
    """A value and its closing tag, with an optional line end between them."""
    end = f"{text('\n')}? {rules.mark(closing)}"
    types, values = tool.types(schema), _values(schema)
    if values is not None and types == {"string"}:
        return f"{either([text(str(value)) for value in values])} {end}"
    if types == {"boolean"}:
        return f"{either([text(word) for word in ('true', 'false', 'True', 'False')])} {end}"
    if types and "string" not in types:
        return f"{rules.json(_definitions(tool) | dict(schema))} {end}"
    _refuse_beyond(tool, schema)
    return words


def _python_value(rules: Rules, tool: Tool, schema: Mapping[str, Any]) -> str:
    """A JSON value, or Python's spelling of a boolean or a plain text."""
    choices = [rules.json(_definitions(tool) | dict(schema))]
    types, values = tool.types(schema), _values(schema)
    if types == {"boolean"} and values is None:
        choices += map(text, ("True", "False"))
    if types == {"string"} and values is not None:
        choices += [text(f"'{value}'") for value in values if re.fullmatch(r"[\w ]*", str(value))]
    elif types == {"string"} and schema.keys() <= _UNDERSTOOD:
        choices.append("QUOTED")
    return either(choices)


class _Literals:
    """Gemma's literals: bare keys, texts between marks. Its templates sort the keys of objects."""

    def __init__(self, rules: Rules, *, quote: str) -> None:
        self._rules, self._quote = rules, rules.mark(quote)
        self._known: dict[int, tuple[object, str]] = {}  # schemas by identity, and their rules
        self._text = f"{self._quote} {rules.up_to('TEXT', quote)}"
        number = rules.json({"type": "number"})
        words = [text(word) for word in ("true", "false", "null")]
        self._anything, self._any_object = rules.name(), rules.name()
        several = f"{self._anything} ({text(',')} {self._anything})*"
        pair = f"WORD {text(':')} {self._anything}"
        rules.add(f"{text('{')} ({pair} ({text(',')} {pair})*)? {text('}')}", name=self._any_object)
        rules.add(
            either([self._text, number, *words, f"{text('[')} ({several})? {text(']')}"])
            + f" | {self._any_object}",
            name=self._anything,
        )

    def arguments(self, tool: Tool) -> str:
        return self._object(tool, tool.parameters) if tool.strict else self._any_object

    def _object(self, tool: Tool, schema: Mapping[str, Any]) -> str:
        _refuse_beyond(tool, schema)
        properties = part_of(schema, "properties", dict)
        required = part_of(schema, "required", list)
        if not properties and schema.get("additionalProperties") is not False:
            return self._any_object
        parts = [
            (f"{text(f'{name}:')} {self._value(tool, value)}", name in required)
            for name, value in sorted(properties.items(), key=lambda pair: pair[0].lower())
        ]
        return f"{text('{')} {members(self._rules, parts, comma=text(','))} {text('}')}"

    def _value(self, tool: Tool, given: object) -> str:
        schema = tool.resolved(given)
        if id(schema) not in self._known:
            name = self._rules.name()
            self._known[id(schema)] = schema, name
            self._rules.add(self._written(tool, schema), name=name)
        return self._known[id(schema)][1]

    def _written(self, tool: Tool, schema: Mapping[str, Any]) -> str:
        if (values := _values(schema)) is not None:
            return either([self._spelled(value) for value in values])
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            _refuse_beyond(tool, schema)
            return either([self._value(tool, choice) for choice in choices])
        found = [self._of_kind(tool, schema, kind) for kind in sorted(tool.types(schema))]
        return either(found) if found else self._anything

    def _of_kind(self, tool: Tool, schema: Mapping[str, Any], kind: str) -> str:
        if kind in _SCALARS:
            limits = {key: value for key, value in schema.items() if key not in _UNDERSTOOD}
            return self._rules.json({**limits, "type": kind})
        if kind == "object":
            return self._object(tool, schema)
        _refuse_beyond(tool, schema)
        if kind == "string":
            return f"({self._text})"
        item = self._value(tool, schema.get("items", {}))
        return f"{text('[')} ({item} ({text(',')} {item})*)? {text(']')}"

    def _spelled(self, value: object) -> str:
        if isinstance(value, str):
            return f"{self._quote} {text(value)} {self._quote}"
        return text(json.dumps(value))


# Of all forms but "nested", which is not enforced.
_ARGUMENTS: dict[Form, Callable[[Rules, CallRow], Callable[[Tool], str]]] = {
    "object": _json,
    "json": _json,
    "tags": _tags,
    "python": _python,
    "literals": _literals,
}
