"""Stretches: the same however a reply is cut, and from wherever it is continued."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import CallPiece
from engine.replies.reading import ReplyReader
from engine.replies.syntax import ReplySyntax
from engine.replies.tools import Tool
from engine.stretches import Kind, Stretch, divided, joined, said
from tests.engine.replies.reading import TOOLS, cut, read
from tests.engine.replies.test_parser import HARMONY, HERMES, LLAMA, MISTRAL, REPLIES, XML, altered


def stretches(reader: ReplyReader, pieces: list[str]) -> list[Stretch]:
    return [one for piece in pieces for one in reader.push(piece)] + reader.finish()


@pytest.mark.parametrize(("syntax", "reply"), REPLIES, ids=[one.family for one, _ in REPLIES])
@given(data=st.data())
def test_stretches_do_not_depend_on_cuts(
    syntax: ReplySyntax, reply: str, data: st.DataObject
) -> None:
    text, inside = data.draw(altered(reply)), data.draw(st.sampled_from(["", "<think>\n"]))
    whole = stretches(ReplyReader(syntax, prompt_ending=inside), [text])
    assert sum(one.length for one in whole) == len(text)
    pieces = cut(text, data.draw(st.lists(st.integers(0, 400), max_size=12)))
    assert joined(stretches(ReplyReader(syntax, prompt_ending=inside), pieces)) == joined(whole)

    place = data.draw(st.integers(0, len(text)))
    rest = ReplyReader(syntax, prompt_ending=inside, written=text[:place])
    going_on = list(divided(text[place:], joined(stretches(rest, [text[place:]]))))
    letters = [(kind, letter) for kind, part in divided(text, joined(whole)) for letter in part]
    assert [(kind, letter) for kind, part in going_on for letter in part] == letters[place:]


def test_what_a_person_reads_of_a_reply() -> None:
    for syntax, ending, text, thought, answer in (
        (HARMONY, "", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final"
         "<|message|>Four.", "Hm.", "Four."),
        (HERMES, "<think>\n", "Hm.\n</think>\n\nFour.", "Hm.", "Four."),
        (HERMES, "", "<think>\n\n</think>\n\nFour.", "", "Four."),
        (ReplySyntax(), "", "<think>Hm.</think>Four.", "", "<think>Hm.</think>Four."),
    ):  # fmt: skip
        found = joined(stretches(ReplyReader(syntax, prompt_ending=ending), [text]))
        assert said(text, found, "reasoning") == thought
        assert said(text, found) == answer


@pytest.mark.parametrize("tools", [TOOLS, ()], ids=["tools", "no tools"])
@pytest.mark.parametrize(("syntax", "reply"), REPLIES, ids=[one.family for one, _ in REPLIES])
def test_no_half_mark_of_a_reply_that_was_cut_is_content_or_reasoning(
    syntax: ReplySyntax, reply: str, tools: tuple[Tool, ...]
) -> None:
    if syntax.family == "llama" and tools:
        return  # half an object may be anything
    whole = joined(stretches(ReplyReader(syntax, tools=tools), [reply]))
    for end in range(len(reply)):
        reader, text = ReplyReader(syntax, tools=tools), reply[:end]
        found = joined([*reader.push(text), *reader.finish(cut=True)])
        assert sum(one.length for one in found) == (end if found else 0)
        kinds: tuple[Kind, ...] = ("content", "reasoning")
        for kind in kinds:
            assert said(reply, whole, kind).startswith(said(text, found, kind).rstrip()), text


@pytest.mark.parametrize(("syntax", "reply"), REPLIES, ids=[one.family for one, _ in REPLIES])
@given(data=st.data())
def test_calls_are_those_that_are_read_at_once(
    syntax: ReplySyntax, reply: str, data: st.DataObject
) -> None:
    certain = data.draw(st.booleans())
    begun = st.integers(0, len(reply)).map(lambda end: reply[:end])  # as a grammar has it
    text = data.draw(begun if certain else altered(reply))
    pieces = cut(text, data.draw(st.lists(st.integers(0, 400), max_size=12)))
    reader, calls = ReplyReader(syntax, tools=TOOLS, certain=certain), list[CallPiece]()
    found: list[Stretch] = []
    for piece in pieces:
        found += reader.push(piece)
        calls += reader.calls()
    found += reader.finish()
    calls += reader.calls()
    assert sum(one.length for one in found) == len(text)
    whole = read(syntax, [text])
    said_of = {one.index: (one.name, "") for one in calls if one.name}
    for one in calls:
        name, arguments = said_of[one.index]
        said_of[one.index] = name, arguments + one.arguments
    ended = {one.index for one in calls if one.ended}
    assert [(name, json.loads(each)) for n, (name, each) in said_of.items() if n in ended] == (
        whole.calls
    )
    if not certain:
        assert len(ended) == len(said_of), "only whole calls are told"
        kinds = dict.fromkeys(["content", "reasoning"], "")
        for kind, part in divided(text, found):
            kinds[kind] = kinds.get(kind, "") + part
        assert (kinds["content"], kinds["reasoning"]) == (whole.content, whole.reasoning)


CUT_OFF = (
    (HERMES, '<tool_call>\n{"name": "get_weather", "arguments": {"days": 12}}\n</tool_call>'),
    (LLAMA, '{"name": "get_weather", "parameters": {"days": 12}}'),
    (XML, "<tool_call>\n<function=get_weather>\n<parameter=days>\n12\n</parameter>\n</function>"),
    (MISTRAL, '[TOOL_CALLS]get_weather[ARGS]{"days": 12}'),
    (
        HARMONY,
        '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"days": 12}',
    ),
)


@pytest.mark.parametrize(("syntax", "call"), CUT_OFF, ids=[one.family for one, _ in CUT_OFF])
def test_a_call_that_a_grammar_makes_certain_is_no_content_wherever_it_is_cut(
    syntax: ReplySyntax, call: str
) -> None:
    for end in range(1, len(call) + 1):
        for pieces in ([call[:end]], list(call[:end])):
            reader = ReplyReader(syntax, tools=TOOLS, certain=True)
            found = [one for piece in pieces for one in reader.push(piece)]
            found += reader.finish(cut=True)
            assert sum(one.length for one in found) == end
            assert said(call[:end], joined(found)) == "", call[:end]
