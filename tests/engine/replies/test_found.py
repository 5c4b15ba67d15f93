"""Marks of calls and reasoning, found in what a template wrote."""

import pytest

from engine.replies.families import FAMILIES, FamilyRow, ReasoningMarks
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
from engine.replies.syntax import ReplySyntax, syntax_of
from engine.replies.tools import Tool
from engine.replies.writing import write_call
from tests.engine.replies.reading import read

TOOL = Tool(NAME, {"type": "object", "properties": {KEY: {"type": "string"}}})
UNSEEN = (
    *("llama", "harmony", "minimax 3", "lfm", "gemma", "function gemma", "kimi 3", "firefunction"),
    *("olmo", "pythonic"),
)


def _written(family):
    """Answers of the family with a call, with two, and with a call of two arguments."""
    row = FAMILIES[family].calls[0]
    opening, between, closing = (
        mark.replace("{gap}", "") for mark in (row.opening, row.between, row.closing)
    )
    one, other = (
        write_call(family, NAME, {KEY: value}).removeprefix(opening).removesuffix(closing)
        for value in (VALUE, OTHER)
    )
    two = f"{opening}{one}{between}{other}{closing}"
    wide = write_call(family, NAME, {KEY: VALUE, OTHER_KEY: OTHER})
    return f"{opening}{one}{closing}", two, wide


@pytest.mark.parametrize("family", [one for one in FAMILIES if one not in UNSEEN])
def test_what_a_family_writes_is_read_by_the_row_that_is_found_in_it(family):
    one, two, wide = _written(family)
    row = call_row(one, two=two, wide=wide)
    assert row
    syntax = ReplySyntax("found", found=FamilyRow((row,)))
    for text, wanted in ((one, [VALUE]), (two, [VALUE, OTHER])):
        found = read(syntax, f"I look.\n{text}", tools=(TOOL,))
        assert found.content == "I look."
        assert found.calls == [(NAME, {KEY: value}) for value in wanted]


def test_an_answer_without_marks_shows_no_row():
    for text in (
        "",
        NAME,
        f"{NAME} {KEY} {VALUE}",
        f'{{"name": "{NAME}"}}',
        f'{NAME}\n{{"{KEY}": "{VALUE}"}}',
    ):
        assert call_row(text) is None


def test_an_answer_is_cut_at_whole_tags():
    chat = "<user>why?</user><{}></end>"
    assert answer_in(chat.format("call>x</call"), chat.format("text>y</text")) == "<call>x</call>"
    marks = ReasoningMarks("<thought>", "</thought>")
    assert reasoning_marks("<role><thought>\n", "\n</thought>\n") == marks
    assert reasoning_marks("Thought:", "\n") is None


def test_what_is_found_serves_only_where_no_family_is_known():
    one, two, wide = _written("hermes")
    row = call_row(one, two=two, wide=wide)
    assert row
    found = FamilyRow((row,), reasoning=ReasoningMarks("<thought>", "</thought>"))
    syntax = syntax_of("{{ calls() }}", knows_tools=True, special=["<thought>"], found=found)
    assert (syntax.family, syntax.found) == ("found", found)
    assert (syntax.reasoning, syntax.special) == (found.reasoning, ("<thought>",))
    assert syntax_of("[TOOL_CALLS]", knows_tools=True, found=found).found is None
    assert syntax_of("{{ calls() }}", found=found).family == "hermes"
