"""Replies read piece by piece: the same however they are cut, nothing lost, and calls whole."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.replies.parts import CallArguments, CallBegan, CallEnded, ContentPart, ReasoningPart
from engine.replies.syntax import REASONING, ReplySyntax
from tests.engine.replies.reading import TOOLS, cut, read

THINK = REASONING[0]
HERMES = ReplySyntax("hermes", THINK)
LLAMA = ReplySyntax("llama")
SYNTAXES = [ReplySyntax("none", THINK), HERMES, LLAMA]

MARKS = "(?:</?think>)*"
CALL = (
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Bonn", "days": 3}}\n</tool_call>'
)
BONN = ("get_weather", {"city": "Bonn", "days": 3})

PIECES = [
    *["<think>", "</think>", "<tool_call>", "</tool_call>", "<|python_tag|>", "\n", " ", ";"],
    *['{"name": "get_weather", ', '"arguments": ', '"parameters": ', '{"city": "a', '"}', "}"],
    *['{"name": "get_time", "parameters": {}}', '{"name": "get_time", "arguments": {}}'],
    *['{"arguments": {"zone": "x"}, "name": "get_time"}', "text", "<", "{", "\\", '"', CALL],
]


def texts() -> st.SearchStrategy[str]:
    """Replies that look like some with calls, whole and broken."""
    mixed = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=14)
    return mixed.map("".join)


@pytest.mark.parametrize("syntax", SYNTAXES, ids=lambda syntax: syntax.family)
@given(text=texts(), places=st.lists(st.integers(0, 400), max_size=12), inside=st.booleans())
def test_every_cut_gives_the_same_parts(
    syntax: ReplySyntax, text: str, places: Sequence[int], inside: bool
) -> None:
    whole = read(syntax, [text], inside_reasoning=inside)
    assert read(syntax, cut(text, places), inside_reasoning=inside).parts == whole.parts
    assert read(syntax, text, inside_reasoning=inside).parts == whole.parts


@pytest.mark.parametrize("syntax", SYNTAXES, ids=lambda syntax: syntax.family)
@given(text=texts())
def test_nothing_is_lost(syntax: ReplySyntax, text: str) -> None:
    """Between the parts are marks of reasoning, white space, and calls that were told."""
    told = ""
    for part in read(syntax, [text]).parts:
        match part:
            case ContentPart(words) | ReasoningPart(words):
                told += f"{MARKS}{re.escape(_black(words))}"
            case CallEnded():
                told += f"{MARKS}(?:<tool_call>|<.python_tag.>)?;?{{.+}}(?:</tool_call>)?"
    assert re.fullmatch(told + MARKS, _black(text), re.DOTALL)


@given(text=st.text() | texts())
def test_content_is_the_text_where_nothing_is_looked_for(text: str) -> None:
    assert read(ReplySyntax(), [text]).content == text
    assert read(ReplySyntax("hermes"), [text], tools=()).content == text


def _black(text: str) -> str:
    return "".join(text.split())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(max_size=6), JSON, max_size=4)


@given(calls=st.lists(st.tuples(st.sampled_from(TOOLS), ARGUMENTS), min_size=1, max_size=3))
@example([(TOOLS[0], {"city": "</tool_call>", "days": 2**63})])
def test_calls_that_are_written_are_read(calls: list[tuple[Any, dict[str, Any]]]) -> None:
    wanted = [(tool.name, arguments) for tool, arguments in calls]
    objects = [json.dumps({"name": name, "arguments": given}) for name, given in wanted]
    hermes = "\n".join(f"<tool_call>\n{one}\n</tool_call>" for one in objects)
    llama = "; ".join(json.dumps({"name": name, "parameters": given}) for name, given in wanted)
    for syntax, text in [(HERMES, hermes), (LLAMA, llama), (LLAMA, "<|python_tag|>" + llama)]:
        reply = read(syntax, text)
        assert reply.calls == wanted
        assert reply.content == ""
        assert reply.ending == "tool_calls"


def test_reasoning_text_and_calls() -> None:
    reply = read(HERMES, f"<think>\nHm.\n</think>\n\nI look.\n{CALL}\n{CALL}\n")
    assert (reply.reasoning, reply.content) == ("Hm.", "I look.")
    assert reply.calls == [BONN, BONN]
    assert reply.ending == "tool_calls"


def test_text_behind_a_call_is_content() -> None:
    reply = read(HERMES, f"{CALL}\nDone. ")
    assert (reply.calls, reply.content) == ([BONN], "Done. ")


def test_reasoning_that_the_prompt_began() -> None:
    reply = read(HERMES, "Hm.\n</think>\n\nYes.", inside_reasoning=True)
    assert (reply.reasoning, reply.content) == ("Hm.", "Yes.")


def test_a_mark_in_the_middle_of_a_text_begins_no_reasoning() -> None:
    assert read(HERMES, "The tag <think> opens.").content == "The tag <think> opens."


def test_a_call_within_reasoning_is_reasoning() -> None:
    reply = read(HERMES, f"<think>{CALL}</think>No.")
    assert (reply.calls, reply.reasoning, reply.content) == ([], CALL, "No.")


def test_white_space_of_a_plain_reply_stays() -> None:
    assert read(HERMES, "\n  a\n\n").content == "\n  a\n\n"


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": 5}\n</tool_call>',
        '<tool_call>{"name": "get_time", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "get_time", "arguments": {"zone": NaN}}</tool_call>',
        '<tool_call>{"name": "get_time", "arguments": {"zone": "x"',
        '<tool_call>{"name": "get_time", "arguments": {"zone": "x"}} '[:-2],
        "<tool_call>get_time()</tool_call>",
        "I call.\n\n<tool_call>",
    ],
)
def test_what_is_no_call_is_content(text: str) -> None:
    reply = read(HERMES, text)
    assert (reply.calls, reply.content, reply.ending) == ([], text, "stop")


def test_the_calls_before_and_behind_a_broken_one_are_calls() -> None:
    broken = '<tool_call>{"name": "get_time", "arguments": {"zone": x}}</tool_call>'
    reply = read(HERMES, f"{CALL}\n{broken}\n{CALL}")
    assert (reply.calls, reply.broken) == ([BONN, BONN], 1)
    assert reply.content == broken


def test_arguments_come_as_they_are_written_but_for_their_end() -> None:
    text = '<tool_call>{"name": "get_time", "arguments": {"zone": "Bonn"'
    reply = read(HERMES, [text[:-3]])
    assert reply.parts[:2] == [CallBegan(0, "get_time"), CallArguments(0, '{"zone": "B')]


def test_an_end_mark_may_be_missing_and_two_calls_share_marks() -> None:
    reply = read(HERMES, CALL.removesuffix("\n</tool_call>"))
    assert reply.calls == [BONN]
    two = CALL.replace("}}\n", '}}\n{"name": "get_time"}\n')
    assert read(HERMES, two).calls == [BONN, ("get_time", {})]


def test_arguments_before_the_name_as_a_text_or_null() -> None:
    for arguments, wanted in [('"{\\"zone\\": 1}"', {"zone": 1}), ("null", {}), ("{}", {})]:
        text = f'<tool_call>{{"arguments": {arguments}, "name": "get_time"}}</tool_call>'
        assert read(HERMES, text).calls == [("get_time", wanted)]


def test_a_line_break_in_a_string_is_escaped() -> None:
    text = '<tool_call>{"name": "get_time", "arguments": {"zone": "a\nb"}}</tool_call>'
    assert read(HERMES, text).calls == [("get_time", {"zone": "a\nb"})]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Bob", "parameters": {}}',
        '{"name": "get_time", "age": 3}',
        '{"name": "get_time"}',
        '{"answer": 42}',
        'So: {"name": "get_time", "parameters": {}}',
    ],
)
def test_an_unmarked_object_that_is_no_call_of_a_tool_is_content(text: str) -> None:
    reply = read(LLAMA, text)
    assert (reply.calls, reply.content) == ([], text)


def test_deep_and_long_arguments() -> None:
    deep = '<tool_call>{"name": "get_time", "arguments": ' + '{"a":' * 100_000
    reply = read(HERMES, [deep])
    assert (reply.calls, reply.content) == ([], deep)
    long = json.dumps({"name": "get_time", "arguments": {"zone": "x" * 1_000_000}})
    assert read(HERMES, [f"<tool_call>{long}</tool_call>"]).calls[0][1]["zone"] == "x" * 1_000_000


def test_the_last_piece_of_the_arguments_comes_with_the_end() -> None:
    text = '<tool_call>{"name": "get_time", "arguments": {"zone": "x"}'
    told = read(HERMES, [text]).parts
    assert CallArguments(0, '{"zone": "x"') in told
    assert not any(isinstance(part, CallEnded) for part in told)
