"""What a model is asked, so that its reply can be read."""

import asyncio
import json

import pytest

from engine.replies.syntax import ReasoningMarks, ReplySyntax
from engine.request import ChatMessage, Grammar, Prompt, Request
from engine.server.answers import Ask
from engine.server.errors import Refusal
from engine.server.replying import for_model

MESSAGES = (ChatMessage("user", "hello"),)
SCHEMA = Grammar("json schema", '{"type": "object"}')
THINKING = ReplySyntax("hermes", ReasoningMarks("<think>", "</think>"))
PLAIN = ReplySyntax("hermes")


def tools(*names, **more):
    functions = [{"name": name, "parameters": {"type": "object"}, **more} for name in names]
    return json.dumps([{"type": "function", "function": function} for function in functions])


def asked(ask, syntax, *, ending="", counts=0):
    """`ask` as it becomes; `ending` is the prompt's, which is asked for so many times."""
    asked_for = []

    async def ending_of(prompt):
        asked_for.append(prompt)
        return ending

    made = asyncio.run(for_model(ask, syntax, ending_of))
    assert len(asked_for) == counts
    return made


def grammar(ask, syntax, **how):
    return asked(ask, syntax, **how).request.grammar


def test_a_text_is_continued_as_it_is():
    ask = Ask(prompt=Prompt(text="<think>"), request=Request(grammar=SCHEMA))
    assert asked(ask, THINKING) == ask


def test_tools_that_may_be_called_hold_the_reply_to_nothing():
    ask = Ask(prompt=Prompt(messages=MESSAGES, tools=tools("f", "g")))
    assert grammar(ask, THINKING) is None


def test_tools_that_must_be_called_hold_it_to_a_call():
    for choice in ("required", "g"):
        ask = Ask(prompt=Prompt(messages=MESSAGES, tools=tools("f", "g")), choice=choice)
        found = grammar(ask, PLAIN)
        assert found is not None
        assert ('"f"' in found.source) == (choice == "required")


def test_a_schema_begins_behind_the_reasoning_that_the_prompt_began():
    ask = Ask(prompt=Prompt(messages=MESSAGES), request=Request(grammar=SCHEMA))
    assert grammar(ask, PLAIN) == SCHEMA
    inside = grammar(ask, THINKING, ending="<think>\n", counts=1)
    assert inside is not None
    assert inside.after == "</think>"
    outside = grammar(ask, THINKING, ending="assistant\n", counts=1)
    assert outside is not None
    assert outside.after == ""


def test_a_prompt_that_has_closed_the_reasoning_gets_no_more_of_it():
    ask = Ask(prompt=Prompt(messages=MESSAGES), request=Request(grammar=SCHEMA))
    assert grammar(ask, THINKING, ending="<think>\n\n</think>\n\n", counts=1) == SCHEMA


def test_tools_that_nothing_can_be_held_to_are_refused():
    ask = Ask(prompt=Prompt(messages=MESSAGES, tools="[{}]"))
    with pytest.raises(Refusal) as caught:
        asked(ask, PLAIN)
    assert caught.value.status == 400


@pytest.mark.parametrize(("calls", "held"), [("hermes", True), ("qwen xml", False)])
def test_a_text_is_held_to_its_expression_where_calls_are_json(calls, held):
    text = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    asks = Ask(
        prompt=Prompt(messages=MESSAGES, tools=tools("f", parameters=text, strict=True)),
        patterns={"f": "[ab]+c"},
    )
    found = grammar(asks, ReplySyntax(calls))
    assert found is not None
    assert ("[ab]+c" in found.source) == held
