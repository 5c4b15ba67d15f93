"""Schemas: what says nothing is dropped, what cannot be held is refused or left out."""

import pytest

from engine.replies.schemas import complaint_about, loosened, meaningful, problem

RECORD = {"type": "object", "additionalProperties": {"type": "integer"}}
PATH = {"type": "string", "maxLength": 12}
BOTH = {"anyOf": [PATH], "oneOf": [{"type": "string"}, {"type": "integer"}]}
NAMED = {"type": "object", "properties": {f"{'a' * 40}!": {"type": "integer"}}}
PATTERNS = NAMED | {"patternProperties": {r"\p{N}": {}, "^(a+)+$": {}}}


def of(schema):
    """A schema with another one in all places that schemas can stand in."""
    return {
        "type": "object",
        "properties": {"format": schema, "list": {"type": "array", "items": schema}},
        "$defs": {"pattern": schema},
        "anyOf": [{"type": "object", "properties": {"a": schema}}],
        "additionalProperties": schema,
    }


@pytest.mark.parametrize(
    ("says_nothing", "rest"),
    [
        (RECORD | {"propertyNames": {"type": "string"}}, RECORD),
        (RECORD | {"propertyNames": {"title": "Name"}}, RECORD),
        (RECORD | {"propertyNames": True}, RECORD),
        (PATH | {"format": "path"}, PATH),
        (PATH | {"format": 5}, PATH),
        ({"type": "array", "uniqueItems": False}, {"type": "array"}),
        (RECORD | {"unevaluatedProperties": {}, "dependentRequired": {}}, RECORD),
        (PATH | {"if": {"type": "string"}}, PATH),
        (PATH | {"then": {"maxLength": 2}}, PATH),
        (RECORD | {"properties": None, "required": None, "$defs": []}, RECORD),
    ],
)
def test_what_says_nothing_is_dropped_wherever_it_stands(says_nothing, rest):
    assert meaningful(of(says_nothing)) == of(rest)
    assert meaningful(of(rest)) == of(rest)
    assert complaint_about(says_nothing) == ""


def test_what_says_something_stays():
    for schema in (
        {"type": "string", "format": "date-time"},
        RECORD | {"propertyNames": {"pattern": "^a"}},
        {"type": "array", "uniqueItems": True},
        {"const": {"format": "path"}, "default": {"propertyNames": True}},
        *({"const": None}, True, []),
    ):
        assert meaningful(schema) == schema


def test_what_cannot_be_held_is_left_out_and_the_rest_is_held():
    for schema, held in (
        ({"type": "string", "not": {"const": "a"}}, {"type": "string"}),
        (RECORD | {"propertyNames": {"pattern": "^a"}}, RECORD),
        (PATH | {"pattern": "(?=a)b"}, PATH),
        (BOTH | {"uniqueItems": True}, BOTH),
        (PATTERNS | {"uniqueItems": True}, PATTERNS),  # for Python unreadable, or endless
        (
            {"oneOf": [PATH, {"type": "string"}], "uniqueItems": True},
            {"anyOf": [PATH, {"type": "string"}]},
        ),
        (
            NAMED | {"patternProperties": {"(?=a)b": {}}, "uniqueItems": True},
            NAMED | {"patternProperties": {}},
        ),
    ):
        assert complaint_about(of(schema))
        assert loosened(of(schema)) == of(held)
        assert not complaint_about(loosened(of(schema)))
    assert loosened(of(PATH)) == of(PATH)


def test_problems_are_told_in_words_of_ours():
    for schema, word in (
        ({"not": {}, "type": "string"}, '"not"'),
        ({"oneOf": [PATH, {"type": "string"}]}, "anyOf"),
        ({"$ref": "https://a.example/b"}, "a.example"),
        ({"type": "string", "pattern": "("}, "JSON schema"),
    ):
        told = str(problem("JSON schema", complaint_about(schema)))
        assert word in told
        assert "Unimplemented" not in told
