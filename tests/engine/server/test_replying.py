"""What a model is asked, so that its reply can be read."""

import asyncio
import json
from typing import Any

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


def tools(*names: str, **more: Any) -> str:
    functions = [{"name": name, "parameters": {"type": "object"}, **more} for name in names]
    return json.dumps([{"type": "function", "function": function} for function in functions])


def asked(ask: Ask, syntax: ReplySyntax, *, ending: str = "", counts: int = 0) -> Ask:
    """`ask` as it becomes; `ending` is the prompt's, which is asked for so many times."""
    asked_for: list[Prompt] = []

    async def ending_of(prompt: Prompt) -> str:
        asked_for.append(prompt)
        return ending

    made = asyncio.run(for_model(ask, syntax, ending_of))
    assert len(asked_for) == counts
    return made


def grammar(ask: Ask, syntax: ReplySyntax, **how: Any) -> Grammar | None:
    return asked(ask, syntax, **how).request.grammar


def test_a_text_is_continued_as_it_is() -> None:
    ask = Ask(prompt=Prompt(text="<think>"), request=Request(grammar=SCHEMA))
    assert asked(ask, THINKING) == ask


def test_tools_that_may_be_called_hold_the_reply_to_nothing() -> None:
    ask = Ask(prompt=Prompt(messages=MESSAGES, tools=tools("f", "g")))
    assert grammar(ask, THINKING) is None


def test_tools_that_must_be_called_hold_it_to_a_call() -> None:
    for choice in ("required", "g"):
        ask = Ask(prompt=Prompt(messages=MESSAGES, tools=tools("f", "g")), choice=choice)
        found = grammar(ask, PLAIN)
        assert found is not None
        assert ('"f"' in found.source) == (choice == "required")


def test_a_schema_begins_behind_the_reasoning_that_the_prompt_began() -> None:
    ask = Ask(prompt=Prompt(messages=MESSAGES), request=Request(grammar=SCHEMA))
    assert grammar(ask, PLAIN) == SCHEMA
    inside = grammar(ask, THINKING, ending="<think>\n", counts=1)
    assert inside is not None
    assert inside.after == "</think>"
    outside = grammar(ask, THINKING, ending="assistant\n", counts=1)
    assert outside is not None
    assert outside.after == ""


def test_a_prompt_that_has_closed_the_reasoning_gets_no_more_of_it() -> None:
    ask = Ask(prompt=Prompt(messages=MESSAGES), request=Request(grammar=SCHEMA))
    assert grammar(ask, THINKING, ending="<think>\n\n</think>\n\n", counts=1) == SCHEMA


def test_tools_that_nothing_can_be_held_to_are_refused() -> None:
    ask = Ask(prompt=Prompt(messages=MESSAGES, tools="[{}]"))
    with pytest.raises(Refusal) as caught:
        asked(ask, PLAIN)
    assert caught.value.status == 400


@pytest.mark.parametrize(("calls", "held"), [("hermes", True), ("qwen xml", False)])
def test_a_text_is_held_to_its_expression_where_calls_are_json(calls: str, held: bool) -> None:
    text = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    asks = Ask(
        prompt=Prompt(messages=MESSAGES, tools=tools("f", parameters=text, strict=True)),
        patterns={"f": "[ab]+c"},
    )
    found = grammar(asks, ReplySyntax(calls))
    assert found is not None
    assert ("[ab]+c" in found.source) == held
