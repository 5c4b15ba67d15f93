"""JSON schemas as answers can be held to them. Knows llguidance, and no MLX.

A keyword that says nothing is left out, and so is, where a schema need not be held whole, each that
cannot be held.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from llguidance import LLMatcher, LLTokenizer

from engine.replies.tools import part_of
from models.errors import Problem

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

JSON: "JsonCompileOptions" = {
    "item_separator": ", ",
    "key_separator": ": ",
    "whitespace_flexible": False,
    "coerce_one_of": False,
    "lenient": False,
}
"""JSON as Python writes it: ", " between items, ": " after a key, no other blanks."""

_LENIENT: "JsonCompileOptions" = {**JSON, "coerce_one_of": True, "lenient": True}
_BYTES = LLTokenizer("byte")
_LONGEST_TRIAL = 1000  # bytes
_TRIED = sorted(range(256), key=lambda byte: (b'"],'.find(byte) % 256, byte == ord("}")))
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
_NESTED = {"items", "additionalItems", "additionalProperties", "not", "contains", "propertyNames"}
_NESTED |= {"if", "then", "else", "unevaluatedItems", "unevaluatedProperties"}
_ANNOTATIONS = {"type", "title", "description", "examples", "default", "$comment"}
_EVERYTHING: tuple[Any, ...] = (True, {})
_SAYS_NOTHING: Mapping[str, tuple[Any, ...]] = {
    "uniqueItems": (False,),
    "unevaluatedItems": _EVERYTHING,
    "unevaluatedProperties": _EVERYTHING,
    "dependentRequired": ({},),
    "dependentSchemas": ({},),
    "dependencies": ({},),
    "not": (False,),
}
_UNKNOWN = re.compile(r"Unimplemented keys: (\[.*\])")
_REFUSALS = {  # llguidance's error -> our message and remedy
    r"Unimplemented keys: \[(.*)\]": ("The {kind} uses {0}, which is not supported.", "Remove it."),
    "oneOf constraints": (
        'Alternatives of "oneOf" in the {kind} exclude no other.',
        'Use "anyOf".',
    ),
    "Resource '(.*)' is": ("The {kind} refers to {0}, which is not loaded.", 'Copy it to "$defs".'),
    r"^NoExtension\w*(.*)": ("The {kind} allows no text{0}.", "Correct it."),
    "Expecting object": ("The {kind} is not an object.", "Send an object, such as {}."),
    "recursion|deeply|nest limit|Too many": ("The {kind} is nested too deeply.", "Nest it less."),
}


def problem(kind: str, complaint: str) -> Problem:
    """The problem of a `kind`, such as "JSON schema", that llguidance complains about."""
    for pattern, (message, remedy) in _REFUSALS.items():
        if found := re.search(pattern, complaint):
            return Problem(message.format(*found.groups(), kind=kind), remedy)
    return Problem(f"The {kind} is not supported: {telling_line(complaint)}.", "Change it.")


def complaint_about(schema: Mapping[str, Any]) -> str:
    """llguidance's reason why no answer can be held to a schema; "" if answers can be."""
    return _complaints(meaningful(schema), JSON)[0]


def meaningful(schema: Any) -> Any:
    """The schema without keywords that say nothing, such as a format that no one knows."""
    return mapped(schema, _without_empty)


def loosened(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a schema that answers can be held to: all of it, where they can.

    Alternatives that exclude each other become plain alternatives.
    """
    found: Mapping[str, Any] = meaningful(schema)
    if not _complaints(found, JSON)[0]:
        return schema
    _, warnings = _complaints(found, _LENIENT)
    listed = [key for warning in warnings for key in _UNKNOWN.findall(warning)]
    unknown = {key for keys in listed for key in json.loads(keys)}

    def change(part: dict[str, Any]) -> dict[str, Any]:
        return _loose(part, unknown)

    loose: Mapping[str, Any] = mapped(found, change)
    return loose if loose == found else loosened(loose)


def _loose(schema: dict[str, Any], unknown: Collection[str]) -> dict[str, Any]:
    kept = {key: value for key, value in schema.items() if key not in unknown}
    if "pattern" in kept and complaint_about({"type": "string", "pattern": kept["pattern"]}):
        del kept["pattern"]
    if "patternProperties" in kept:  # of known names alone, one allows no other
        names = part_of(kept, "properties", dict)
        known: dict[str, Any] = {"type": "object", "additionalProperties": False}
        known |= {"properties": dict.fromkeys(names, True), "required": [*names]}
        kept["patternProperties"] = {
            pattern: value
            for pattern, value in part_of(kept, "patternProperties", dict).items()
            if not complaint_about(known | {"patternProperties": {pattern: {}}})
        }
    if "oneOf" in kept and "anyOf" not in kept:
        kept["anyOf"] = kept.pop("oneOf")
    return kept


def _without_empty(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if not _empty(key, value, schema)}


def _empty(key: str, value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a keyword changes nothing: all values are allowed that are without it."""
    if value is None or (value == [] and key in _NAMED):  # as Go and PHP write nothing
        return key != "const"
    match key:
        case "format":
            return not isinstance(value, str) or not _known_format(value)
        case "propertyNames":  # names of properties are strings
            plain = isinstance(value, dict) and _ANNOTATIONS.issuperset(value)
            return value is True or (plain and value.get("type", "string") == "string")
        case "if":
            return not {"then", "else"} & schema.keys()
        case "then" | "else":
            return "if" not in schema
    return any(
        value == empty and type(value) is type(empty) for empty in _SAYS_NOTHING.get(key, ())
    )


@lru_cache(256)
def _known_format(name: str) -> bool:
    return not _complaints({"type": "string", "format": name}, JSON)[0]


def _complaints(schema: Mapping[str, Any], options: "JsonCompileOptions") -> tuple[str, list[str]]:
    """llguidance's reason against a schema, or "", and its warnings."""
    try:
        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=options)
    except ValueError as error:
        return str(error), []
    refused, said = LLMatcher.validate_grammar_with_warnings(grammar)
    return ("\n".join(said) or "It is refused", []) if refused else (_dead_end(grammar), said)


def _dead_end(grammar: str) -> str:
    """The reason why a long text that follows a grammar cannot go on; "" if it can.

    It has all properties in their order, the shortest values, and no item that may be missing.
    """
    matcher, written = LLMatcher(_BYTES, grammar, log_level=0), bytearray()
    while not matcher.is_stopped() and len(written) < _LONGEST_TRIAL:
        mask = int.from_bytes(matcher.compute_bitmask(), "little")
        token = next((byte for byte in _TRIED if mask >> byte & 1), _BYTES.eos_token)
        if matcher.is_error() or not matcher.consume_token(token):
            return f"{telling_line(matcher.get_error())} after {written.decode(errors='replace')!r}"
        written.append(token & 0xFF)
    return ""


def mapped(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """The schema with `change` made to it and to every schema within. Values are left alone."""
    if not isinstance(schema, dict):
        return schema
    found = change(schema)
    for key, value in found.items():
        if key in _NAMED and isinstance(value, dict):
            found[key] = {name: mapped(part, change) for name, part in value.items()}
        elif key in _LISTED and isinstance(value, list):
            found[key] = [mapped(part, change) for part in value]
        elif key in _NESTED:
            found[key] = mapped(value, change)
    return found


def telling_line(complaint: str) -> str:
    """The most telling line of a complaint."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith("error: ")]
    line = (marked or lines or [""])[0]
    return line.removeprefix("error: ")[:300].rstrip(".:")
