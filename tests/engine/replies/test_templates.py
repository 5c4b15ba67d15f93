"""What the templates of all families render is read as what was rendered."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.conversation.template import render
from engine.replies.families import FAMILIES, FamilyRow
from engine.replies.found import (
    KEY,
    NAME,
    OTHER,
    OTHER_KEY,
    VALUE,
    answer_in,
    call_row,
    reasoning_marks,
)
from engine.replies.syntax import REASONING, ReasoningMarks, ReplySyntax, syntax_of
from engine.replies.tools import Tool
from engine.replies.writing import write_call
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
from tests.support.mostly_slow import examples, mostly_slow


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


# How a template shows its family, or the marks of one that is not known


THINK = REASONING[0]
BONN = {"city": "Bonn", "days": 3}
DATA = Path(__file__).parents[2] / "data" / "replies"
WRITTEN = json.loads((DATA / "written.json").read_text(encoding="utf-8"))
QWEN = '<tool_call>\n{"name": <name>, "arguments": <object>}\n</tool_call>'
FORMS = [case for case in CASES if case.name in ("hermes", "qwen_xml", "lfm", "gemma")]


def syntax(family):
    return ReplySyntax(family, FAMILIES[family].reasoning)


def test_the_template_shows_the_family():
    for template, family in (
        ("{{ messages }}", "hermes"),  # and it is told of tools as Hermes is
        ("{{ messages }}{{ tools }}", "none"),
        (QWEN, "hermes"),
        ("<|start_header_id|>" + QWEN + "tool_calls", "hermes"),
        ("<tool_call>\n<function=example>", "qwen xml"),
        ('<|start_header_id|>{% if m.tool_calls %}{"name": "", "parameters": {}}', "llama"),
        ("<|start_header_id|>{{ m.content }}", "hermes"),
        ("{{ tools }}<minimax:tool_call><invoke name=", "minimax"),
        ("{{ tools }}<|tool_call|>[", "granite"),
        ("<|tool_calls_section_begin|><|tool_call_begin|>", "kimi"),
        ("{{ tools }}<run>{{ name }}", "none"),
        ("[TOOL_CALLS] [", "mistral"),
        ("[TOOL_CALLS]{{ name }}[ARGS]", "mistral args"),
        ("List of tools: <|tool_list_start|>", "lfm"),
    ):
        assert syntax_of(template, knows_tools=family != "hermes").family == family


def test_the_tokenizer_shows_what_the_template_does_not():
    tokens = ["<|tool_call_start|>", "<|tool_call_end|>", "<think>", "</think>"]
    shown = syntax_of("{{ messages }}", tokens=tokens, special=tokens[:2])
    assert (shown.family, shown.reasoning) == ("lfm", THINK)
    assert shown.special == ("<|tool_call_end|>", "<|tool_call_start|>")


def test_where_a_reply_begins():
    for marks in REASONING:
        syntax = syntax_of(f"{marks.opening}{{{{ reasoning }}}}{marks.closing}")
        assert syntax.reasoning == marks
        assert syntax.begins_inside(f"<user>why?<assistant>{marks.opening}\n")
        assert not syntax.begins_inside(f"{marks.opening}<assistant>")
        assert syntax.reasoning_is_over(f"<assistant>{marks.opening}\n\n{marks.closing}\n\n")
        assert not syntax.reasoning_is_over("<assistant>")


@pytest.mark.parametrize("case", mostly_slow(CASES, quick=FORMS), ids=lambda case: case.name)
@given(data=st.data())
def test_a_written_call_is_read(case, data):
    arguments = data.draw(arguments_for(case))
    text = write_call(case.family, "get_weather", arguments)
    found = read(syntax_in(case), [text], inside_reasoning=False)
    assert (found.calls, found.content) == ([("get_weather", arguments)], "")


def calls_of(family, *arguments, name="get_weather"):
    """Calls as the family writes them, one after another between its marks."""
    row = FAMILIES[family].calls[0]
    opening, between, closing = (
        mark.replace("{gap}", "") for mark in (row.opening, row.between, row.closing)
    )
    calls = [write_call(family, name, each) for each in arguments]
    calls = [call.removeprefix(opening).removesuffix(closing) for call in calls]
    return f"{opening}{between.join(calls)}{closing}"


@pytest.mark.parametrize("family", FAMILIES)
def test_calls_are_written_and_read_as_the_template_writes_them(family):
    written = write_call(family, "get_weather", BONN)
    if family in WRITTEN:
        assert written == WRITTEN[family]
        found = read(syntax(family), f"I look.\n{written}")
        assert (found.content, found.calls) == ("I look.", [("get_weather", BONN)])
    if family != "harmony":  # there a call ends the reply
        found = read(syntax(family), calls_of(family, BONN, BONN))
        assert (found.content, found.calls) == ("", [("get_weather", BONN)] * 2)


# Marks that are found in what a template wrote

TOOL = Tool(NAME, {"type": "object", "properties": {KEY: {"type": "string"}}})
UNSEEN = (
    *("llama", "harmony", "minimax 3", "lfm", "gemma", "function gemma", "kimi 3", "firefunction"),
    *("olmo", "pythonic"),
)


def shown_by(family):
    """The row that is found in answers with a call, with two, and with a call of two arguments."""
    one = calls_of(family, {KEY: VALUE}, name=NAME)
    two = calls_of(family, {KEY: VALUE}, {KEY: OTHER}, name=NAME)
    wide = write_call(family, NAME, {KEY: VALUE, OTHER_KEY: OTHER})
    return call_row(one, two=two, wide=wide)


@pytest.mark.parametrize("family", [one for one in FAMILIES if one not in UNSEEN])
def test_what_a_family_writes_is_read_by_the_row_that_is_found_in_it(family):
    row = shown_by(family)
    assert row
    for calls in ([{KEY: VALUE}], [{KEY: VALUE}, {KEY: OTHER}]):
        text = f"I look.\n{calls_of(family, *calls, name=NAME)}"
        found = read(ReplySyntax("found", found=FamilyRow((row,))), text, tools=(TOOL,))
        assert (found.content, found.calls) == ("I look.", [(NAME, each) for each in calls])


def test_an_answer_without_marks_shows_no_row():
    bare = f'{{"name": "{NAME}"}}', f'{NAME}\n{{"{KEY}": "{VALUE}"}}'
    for text in ("", NAME, f"{NAME} {KEY} {VALUE}", *bare):
        assert call_row(text) is None
    assert reasoning_marks("Thought:", "\n") is None


def test_an_answer_is_cut_at_whole_tags():
    chat = "<user>why?</user><{}></end>"
    assert answer_in(chat.format("call>x</call"), chat.format("text>y</text")) == "<call>x</call>"
    marks = ReasoningMarks("<thought>", "</thought>")
    assert reasoning_marks("<role><thought>\n", "\n</thought>\n") == marks


def test_what_is_found_serves_only_where_no_family_is_known():
    row = shown_by("hermes")
    assert row
    found = FamilyRow((row,), reasoning=ReasoningMarks("<thought>", "</thought>"))
    shown = syntax_of("{{ calls() }}", knows_tools=True, special=["<thought>"], found=found)
    assert (shown.family, shown.found) == ("found", found)
    assert (shown.reasoning, shown.special) == (found.reasoning, ("<thought>",))
    assert syntax_of("[TOOL_CALLS]", knows_tools=True, found=found).found is None
    assert syntax_of("{{ calls() }}", found=found).family == "hermes"
