"""Replies read piece by piece: the same however they are cut, nothing lost, and calls whole."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.events import CallPiece
from engine.replies.families import FAMILIES
from engine.replies.reading import ReplyReader
from engine.replies.syntax import ReasoningMarks, ReplySyntax
from engine.replies.tools import Tool
from engine.replies.writing import write_call
from engine.stretches import divided, joined, said
from tests.engine.replies.reading import TOOLS, certain_calls, cut, read
from tests.support.mostly_slow import examples, mostly_slow

DATA = Path(__file__).parents[2] / "data" / "replies"
BONN = {"city": "Bonn", "days": 3}


def rows_of(name):
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def syntax_in(row):
    marks, special = row.get("marks"), tuple(row.get("special", ()))
    return ReplySyntax(row["family"], marks and ReasoningMarks(*marks), special)


REPLIES = [(syntax_in(row), row["text"]) for row in rows_of("whole.jsonl")]
"""Replies of many families, with reasoning, content and calls; harmony's, whose marks stand within
content too, is the last."""
SYNTAXES = {syntax.family: syntax for syntax, _ in REPLIES}
_WORD = re.compile(r"<[^<>\s]*>|\[[A-Z_]+\]|\w+|\s|.")


@st.composite
def altered(draw, reply):
    """The reply with some of its words left out, doubled, exchanged, or others between them."""
    words = _WORD.findall(reply)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(words)))
        others = draw(st.lists(st.sampled_from(words) | st.text(max_size=3), max_size=3))
        words[place : place + draw(st.integers(0, 3))] = others
    return "".join(words[: draw(st.none() | st.integers(0, len(words)))])


def stretches(reader, pieces):
    return [one for piece in pieces for one in reader.push(piece)] + reader.finish()


NAMES = [*SYNTAXES]
OTHERS = [
    (ReplySyntax(name, row.reasoning), f"So {write_call(name, 'get_weather', BONN)}")
    for name, row in FAMILIES.items()
    if name not in NAMES
]
OF_EACH_FORM = {
    *("hermes", "llama", "qwen xml", "mistral", "lfm", "gemma", "dsml", "minimax 3", "harmony")
}
ALSO_CUT = {*OF_EACH_FORM, "kimi 3", "solar", "olmo", "mistral args"}


def mostly_of_these(replies, quick):
    return mostly_slow(replies, quick=[each for each in replies if each[0].family in quick])


MOSTLY_SLOW = mostly_of_these(REPLIES, OF_EACH_FORM)
every_family = pytest.mark.parametrize(("syntax", "reply"), MOSTLY_SLOW, ids=NAMES)


@pytest.mark.parametrize(
    ("syntax", "reply"),
    mostly_of_these([*REPLIES, *OTHERS], ALSO_CUT),
    ids=[*NAMES, *(syntax.family for syntax, _ in OTHERS)],
)
@given(data=st.data())
def test_every_cut_gives_the_same_parts(syntax, reply, data):
    text, inside = data.draw(altered(reply)), data.draw(st.booleans())
    places = data.draw(st.lists(st.integers(0, 400), max_size=12))
    whole = read(syntax, [text], inside_reasoning=inside)
    assert read(syntax, cut(text, places), inside_reasoning=inside).parts == whole.parts
    assert read(syntax, text, inside_reasoning=inside).parts == whole.parts


@pytest.mark.parametrize(("syntax", "reply"), MOSTLY_SLOW[:-1], ids=NAMES[:-1])
@given(data=st.data())
@settings(max_examples=examples(25))
def test_nothing_is_lost(syntax, reply, data):
    """Between the parts are marks, white space, and calls that were told. Harmony's marks stand
    within content too: its own test is below."""
    text = data.draw(altered(reply))
    skipped = "|".join(map(re.escape, syntax.row.skipped)) or "(?!)"
    marks = f"(?:</?think>|.?/?THINK.|<.channel>thought|<channel.>|{skipped})*"
    told = ""
    for kind, words in read(syntax, text).parts:
        letters = "".join(marks + re.escape(letter) for letter in _black(words))
        told += ".+" if kind == "call" else letters  # a mark may also be left out within a part
    assert re.fullmatch(told + marks, _black(text), re.DOTALL)


@given(data=st.data())
def test_nothing_of_harmony_is_lost_but_its_headers(data):
    text = data.draw(altered(REPLIES[-1][1]))
    found = read(SYNTAXES["harmony"], [text], tools=())
    headers = r"(?:<.start.>|<.channel.>|^to=)((?!<.(?:end|call|return).>|to=).)*?<.message.>"
    ends = "<.(?:end|call|return).>"
    if "to=" not in text:
        wanted = re.sub(f"{headers}|{ends}", "", _black(text), flags=re.DOTALL)
        told = "".join(words for _, words in found.parts)
        assert re.sub(ends, "", _black(told)) == wanted


def _black(text):
    return "".join(text.split())


READ = rows_of("read.jsonl")
"""Replies, the syntax in which each is written, and what is read of it."""


@pytest.mark.parametrize("rule", dict.fromkeys(row["rule"] for row in READ))
def test_a_reply_is_read(rule):
    """Each as a whole, and letter by letter."""
    for row in (row for row in READ if row["rule"] == rule):
        syntax = syntax_in(row)
        wanted = [row.get("reasoning", ""), row.get("content", ""), row.get("calls", [])]
        for pieces in ([row["text"]], row["text"]):
            found = read(syntax, pieces, inside_reasoning=row.get("inside", False))
            told = [found.reasoning, found.content, [[*call] for call in found.calls]]
            assert (row["text"], *told) == (row["text"], *wanted)


def test_arguments_come_as_they_are_written_but_for_their_end():
    """So arguments that can be parsed belong to a call that has ended."""
    for zone, arguments in (('"B', '{"zone": "'), ('"x"}', '{"zone": "x"')):
        text = f'<tool_call>{{"name": "get_time", "arguments": {{"zone": {zone}'
        named, written = certain_calls(SYNTAXES["hermes"], [text])
        assert (named, written) == (CallPiece(0, "get_time"), CallPiece(0, arguments=arguments))


def test_the_schema_says_what_a_raw_value_is():
    for schema, text, value in rows_of("values.jsonl"):
        defined = {"word": {"type": "string"}, "round": {"$ref": "#/$defs/round"}}
        tool = Tool("f", {"type": "object", "properties": {"a": schema}, "$defs": defined})
        reply = f"<tool_call>f<arg_key>a</arg_key><arg_value>{text}</arg_value></tool_call>"
        (call,) = read(SYNTAXES["glm"], reply, tools=(tool,)).calls
        assert call == ("f", {"a": value})
        assert type(call[1]["a"]) is type(value)


def test_deep_and_long_arguments():
    for family, begun, deeper in (
        ("hermes", '<tool_call>{"name": "get_time", "arguments": ', '{"a":'),
        ("lfm", "<|tool_call_start|>[get_time(zone=", "["),
    ):
        deep = begun + deeper * 100_000
        reply = read(SYNTAXES[family], [deep])
        assert (reply.calls, reply.content) == ([], deep)
    long = json.dumps({"name": "get_time", "arguments": {"zone": "x" * 1_000_000}})
    reply = read(SYNTAXES["hermes"], [f"<tool_call>{long}</tool_call>"])
    assert reply.calls == [("get_time", {"zone": "x" * 1_000_000})]


@every_family
@given(data=st.data())
def test_a_reply_is_read_on_from_anywhere(syntax, reply, data):
    text, inside = data.draw(altered(reply)), data.draw(st.sampled_from(["", "<think>\n"]))
    whole = stretches(ReplyReader(syntax, prompt_ending=inside), [text])
    place = data.draw(st.integers(0, len(text)))
    rest = ReplyReader(syntax, prompt_ending=inside, written=text[:place])
    going_on = list(divided(text[place:], joined(stretches(rest, [text[place:]]))))
    letters = [(kind, letter) for kind, part in divided(text, joined(whole)) for letter in part]
    assert [(kind, letter) for kind, part in going_on for letter in part] == letters[place:]


@pytest.mark.parametrize("tools", [TOOLS, ()], ids=["tools", "no tools"])
@every_family
def test_no_half_mark_of_a_reply_that_was_cut_is_content_or_reasoning(syntax, reply, tools):
    if syntax.family == "llama" and tools:
        return  # half an object may be anything
    whole = joined(stretches(ReplyReader(syntax, tools=tools), [reply]))
    for end in range(len(reply)):
        reader, text = ReplyReader(syntax, tools=tools), reply[:end]
        found = joined([*reader.push(text), *reader.finish(cut=True)])
        assert sum(one.length for one in found) == (end if found else 0)
        kinds = ("content", "reasoning")
        for kind in kinds:
            assert said(reply, whole, kind).startswith(said(text, found, kind).rstrip()), text


@every_family
@given(data=st.data())
def test_calls_that_a_grammar_makes_certain_are_those_that_are_read_at_once(syntax, reply, data):
    text = reply[: data.draw(st.integers(0, len(reply)))]
    pieces = cut(text, data.draw(st.lists(st.integers(0, 400), max_size=12)))
    given_ = {}
    told = certain_calls(syntax, pieces)
    for piece in told:
        given_[piece.index] = given_.get(piece.index, "") + piece.arguments
    ended = [piece.index for piece in told if piece.ended]
    names = {piece.index: piece.name for piece in told if piece.name}
    wanted = read(syntax, [text]).calls
    assert [(names[n], json.loads(given_[n])) for n in ended] == wanted


CUT_OFF = {
    "hermes": '<tool_call>\n{"name": "get_weather", "arguments": {"days": 12}}\n</tool_call>',
    "llama": '{"name": "get_weather", "parameters": {"days": 12}}',
    "qwen xml": (
        "<tool_call>\n<function=get_weather>\n<parameter=days>\n12\n</parameter>\n</function>"
    ),
    "mistral": '[TOOL_CALLS]get_weather[ARGS]{"days": 12}',
    "harmony": (
        '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"days": 12}'
    ),
}


@pytest.mark.parametrize(("family", "call"), CUT_OFF.items(), ids=CUT_OFF)
def test_a_call_that_a_grammar_makes_certain_is_no_content_wherever_it_is_cut(family, call):
    for end in range(1, len(call) + 1):
        for pieces in ([call[:end]], list(call[:end])):
            reader = ReplyReader(SYNTAXES[family], tools=TOOLS, certain=True)
            found = [one for piece in pieces for one in reader.push(piece)]
            found += reader.finish(cut=True)
            assert sum(one.length for one in found) == end
            assert said(call[:end], joined(found)) == "", call[:end]
