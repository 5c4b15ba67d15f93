"""The form of an answer, by whatever name a client knows for it: done, or refused by name."""

import json

import pytest

from engine.request import Grammar
from engine.server.bodies import read_body
from engine.server.errors import Refusal
from engine.server.forms import FormFields, form_in

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
HELD = Grammar("json schema", json.dumps(SCHEMA))
YES_OR_NO = Grammar("regex", "yes|no")


def form(**fields):
    return form_in(read_body(FormFields, fields))


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, None),
        ({"guided_json": SCHEMA}, HELD),
        ({"guided_json": json.dumps(SCHEMA)}, HELD),
        ({"json_schema": SCHEMA}, HELD),
        ({"guided_regex": "yes|no"}, YES_OR_NO),
        ({"regex": "yes|no"}, YES_OR_NO),
        ({"guided_choice": ["yes", "no"]}, YES_OR_NO),
        ({"guided_choice": ["a.b c"]}, Grammar("regex", r"a\.b\ c")),
        ({"guided_grammar": 'start: "a"'}, Grammar("lark", 'start: "a"')),
        ({"structured_outputs": {"json": SCHEMA}}, HELD),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, YES_OR_NO),
        ({"structured_outputs": {"regex": "yes|no"}}, YES_OR_NO),
        (
            {"structured_outputs": {"json_object": True}},
            Grammar("json schema", '{"type": "object"}'),
        ),
        ({"structured_outputs": {}}, None),
        (dict.fromkeys(("guided_json", "guided_regex", "structured_outputs", "grammar")), None),
    ],
)
def test_neighbours_names_are_done(fields, wanted):
    assert form(**fields) == wanted


def test_a_grammar_of_llama_cpp_becomes_lark():
    for name in ("grammar", "ebnf", "guided_grammar"):
        found = form(**{name: 'root ::= "yes" | "no"'})
        assert found.kind == "lark"
        assert "start:" in found.source


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"guided_json": "yes"}, "guided_json"),
        ({"guided_json": {"type": "string", "not": {}}}, "guided_json"),
        ({"guided_regex": "("}, "guided_regex"),
        ({"grammar": "yes or no"}, "guided_grammar"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
        ({"guided_json": {"description": "x" * (1 << 20)}}, "guided_json"),
        ({"guided_json": SCHEMA, "guided_regex": "a"}, None),
    ],
)
def test_what_cannot_be_followed_is_refused(fields, param):
    with pytest.raises(Refusal) as caught:
        form(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)
