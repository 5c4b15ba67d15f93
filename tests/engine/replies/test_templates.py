"""What the templates of all families render is read as what was rendered."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.conversation.template import render
from engine.request import ChatMessage, Prompt, ToolCall
from tests.engine.replies.reading import (
    CASES,
    arguments_for,
    cut,
    read,
    rendered,
    syntax_in,
    template_of,
)
from tests.support.mostly_slow import examples


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@given(data=st.data())
@settings(max_examples=examples(30))
def test_rendered_calls_are_read(tokenizer, case, data):
    drawn = st.lists(arguments_for(case), min_size=1, max_size=case.most_calls)
    wanted = [("get_weather", arguments) for arguments in data.draw(drawn)]
    calls = tuple(
        ToolCall(f"call{n}", name, json.dumps(arguments))
        for n, (name, arguments) in enumerate(wanted)
    )
    thinks = "I think." if case.reasons and data.draw(st.booleans()) else ""
    reply = ChatMessage("assistant", "", reasoning=thinks, tool_calls=calls)
    text = rendered(tokenizer, case, reply)
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
    found = read(syntax_in(case), cut(text, places), inside_reasoning=False)
    assert found.calls == wanted
    assert (found.content, found.reasoning) == ("", thinks)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_template_tells_the_syntax_in_which_content_and_any_letter_are_read(tokenizer, case):
    tokenizer.chat_template = template_of(case)
    syntax = syntax_in(case)
    prompt = render(tokenizer, Prompt(messages=(ChatMessage("user", "why?"),)))
    assert (syntax.family, syntax.reasons) == (case.family, case.reasons)
    assert syntax.begins_inside(prompt) == case.inside
    assert syntax.special == tuple(sorted(case.special))

    # Two of these letters mark what a client wrote while it is rendered. JSON may spell them.
    wanted = {"city": "\U000f0000\U000f0001 Vienna"}
    call = ToolCall("call0", "get_weather", json.dumps(wanted))
    assert "\U000f0000" not in call.arguments
    text = rendered(tokenizer, case, ChatMessage("assistant", "", tool_calls=(call,)))
    assert read(syntax, [text]).calls == [("get_weather", wanted)]

    thinks = "I think." if case.reasons else ""
    reply = ChatMessage("assistant", "I look.", reasoning=thinks)
    if case.family == "harmony":
        case = replace(case, behind="<|start|>user")
    found = read(syntax, rendered(tokenizer, case, reply))
    assert (found.content.strip(), found.reasoning, found.calls) == ("I look.", thinks, [])


def test_reasoning_that_the_prompt_closes_is_over(tokenizer):
    case = CASES[0]
    tokenizer.chat_template = template_of(case)
    chat = (ChatMessage("user", "why?"),)
    prompt = render(tokenizer, Prompt(messages=chat, options='{"enable_thinking": false}'))
    assert not syntax_in(case).begins_inside(prompt)
    assert syntax_in(case).reasoning_is_over(prompt)
