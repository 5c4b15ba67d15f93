"""The form of an answer, by whatever name a client knows for it: done, or refused by name."""

import json
from typing import Any

import pytest

from engine.request import Grammar
from engine.server.anthropic import MessagesBody
from engine.server.anthropic import ask_of as anthropic_ask
from engine.server.bodies import Body, read_body
from engine.server.errors import Refusal
from engine.server.forms import FormFields, form_in, schema_form
from engine.server.responses import ResponsesBody
from engine.server.responses import ask_of as responses_ask
from tests.support.engine.scripted_host import LOADED

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
HELD = Grammar("json schema", json.dumps(SCHEMA))
YES_OR_NO = Grammar("regex", "yes|no")


def form(**fields: Any) -> Grammar | None:
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
def test_neighbours_names_are_done(fields: dict[str, Any], wanted: Grammar | None) -> None:
    assert form(**fields) == wanted


def test_a_grammar_of_llama_cpp_becomes_lark() -> None:
    for name in ("grammar", "ebnf", "guided_grammar"):
        found = form(**{name: 'root ::= "yes" | "no"'})
        assert found is not None
        assert found.kind == "lark"
        assert "start:" in found.source


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"guided_json": "yes"}, "guided_json"),
        ({"guided_json": {"type": "string", "not": {}}}, "guided_json"),
        ({"guided_regex": "("}, "guided_regex"),
        ({"guided_choice": []}, "guided_choice"),
        ({"grammar": "yes or no"}, "guided_grammar"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
        ({"guided_json": {"description": "x" * (64 << 10)}}, "guided_json"),
        ({"guided_json": SCHEMA, "guided_regex": "a"}, None),
    ],
)
def test_what_cannot_be_followed_is_refused(fields: dict[str, Any], param: str | None) -> None:
    with pytest.raises(Refusal) as caught:
        form(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_a_schema_that_is_not_strict_is_held_as_far_as_possible() -> None:
    beyond = {"type": "object", "properties": {"a": {"type": "string", "not": {"const": ""}}}}
    with pytest.raises(Refusal) as caught:
        schema_form(beyond, "format", strict=True)
    assert caught.value.param == "format"
    held = json.loads(schema_form(beyond, "format", strict=False).source)
    assert held == {"type": "object", "properties": {"a": {"type": "string"}}}


def test_every_dialect_takes_them() -> None:
    hi = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}
    kept = {"guided_choice": ["yes", "no"], "seed": 3, "min_p": 0.1, "repeat_penalty": 1.2}
    for ask in (
        anthropic_ask(read_body(MessagesBody, hi | kept), LOADED),
        responses_ask(read_body(ResponsesBody, {"input": "Hi"} | kept), LOADED),
    ):
        sampling = ask.request.sampling
        assert ask.request.grammar == YES_OR_NO
        assert sampling is not None
        assert (sampling.seed, sampling.min_p, sampling.repetition_penalty) == (3, 0.1, 1.2)


@pytest.mark.parametrize(
    ("kind", "body", "form"),
    [
        (ResponsesBody, {"input": "Hi"}, "text.format"),
        (MessagesBody, {"messages": [], "max_tokens": 5}, "output_config.format"),
    ],
)
def test_a_form_in_the_field_of_another_dialect_is_refused(
    kind: type[Body], body: dict[str, Any], form: str
) -> None:
    for field in ({"response_format": {"type": "json_object"}}, {"format": "json"}):
        with pytest.raises(Refusal) as caught:
            read_body(kind, body | field)
        assert caught.value.param in field
        assert form in caught.value.message
