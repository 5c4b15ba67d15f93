"""Replies read piece by piece: the same however they are cut, nothing lost, and calls whole."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.events import CallPiece
from engine.replies.reading import ReplyReader
from engine.replies.syntax import REASONING, ReplySyntax
from engine.replies.tools import Tool
from engine.replies.writing import write_call
from engine.stretches import divided, joined, said
from tests.engine.replies.reading import TOOLS, certain_calls, cut, read
from tests.support.mostly_slow import examples, mostly_slow

DATA = Path(__file__).parents[2] / "data" / "replies"
THINK = REASONING[0]
HERMES = ReplySyntax("hermes", THINK)
LLAMA = ReplySyntax("llama")
XML = ReplySyntax("qwen xml", THINK)
GLM = ReplySyntax("glm", THINK)
MISTRAL = ReplySyntax("mistral", REASONING[2], ("[THINK]", "[TOOL_CALLS]"))
LFM = ReplySyntax("lfm", THINK)
GEMMA = ReplySyntax("gemma", REASONING[7], ("<channel|>", "<|channel>"))
FUNCTION_GEMMA = ReplySyntax("function gemma")
HARMONY = ReplySyntax("harmony")

CALL = (
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Bonn", "days": 3}}\n</tool_call>'
)
BONN = ("get_weather", {"city": "Bonn", "days": 3})

REPLIES = [
    (ReplySyntax("none", THINK), "<think>\nWell.\n</think>\n\nYes, <b>so</b>.</think>"),
    (HERMES, f"<think>\nWell.\n</think>\n\nI look.\n{CALL}\n{CALL} Done."),
    (
        LLAMA,
        '{"name": "get_time", "parameters": {"zone": "\\n}\\""}}; {"name": "get_time", '
        '"parameters": {"zone": null}}<|python_tag|>get_time.call(zone="x")',
    ),
    (
        XML,
        "<think>Well.</think> <tool_call>\n<function=get_weather>\n<parameter=city>\nBo\nnn\n"
        "</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
        "<function=get_time></function>",
    ),
    (
        GLM,
        "<think>Well.</think><tool_call>get_weather<arg_key>city</arg_key><arg_value>B</arg_value>"
        "<arg_key>days</arg_key>\n<arg_value>3</arg_value></tool_call>So.",
    ),
    (
        MISTRAL,
        '[THINK]Well.[/THINK]So[TOOL_CALLS] [{"name": "get_time", "arguments": {}, "id": "a"}, '
        '{"name": "get_time"}][TOOL_CALLS]get_time[CALL_ID]a1[ARGS]{"zone": "x"}',
    ),
    (
        LFM,
        "<think>Well.</think><|tool_call_start|>[get_weather(city='Bo\\'n', days=-3, area={'a': "
        '[1.5, True, None]}), get_time(zone="it"s")]<|tool_call_end|>',
    ),
    (
        GEMMA,
        '<|channel>thought\nWell.<channel|>So<|tool_call>call:get_weather{area:{a:<|"|>x<|"|>,b:[1,'
        "2.50,None]},days:3}<tool_call|><|channel>thought\nHm.<channel|>",
    ),
    (
        FUNCTION_GEMMA,
        "So<start_function_call>call:get_weather{city:<escape>Bonn, {x}<escape>,days:3}"
        "<end_function_call>",
    ),
    *(
        (
            ReplySyntax(family, THINK),
            f"<think>Well.</think>So {write_call(family, 'get_time', {'zone': 'x'})}",
        )
        for family in ("kimi", "dsml", "cohere", "nemotron", "minicpm", "minimax 3")
    ),
    (
        HARMONY,
        "<|channel|>analysis<|message|>Well.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.get_time <|constrain|>json<|message|>{"zone": "x"}<|call|><|start|>assistant'
        "<|channel|>final<|message|>So.<|return|>",
    ),
]
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


FAMILIES = [syntax.family for syntax, _ in REPLIES]
OF_EACH_FORM = {
    *("hermes", "llama", "qwen xml", "mistral", "lfm", "gemma", "dsml", "minimax 3", "harmony")
}
MOSTLY_SLOW = mostly_slow(
    REPLIES, quick=[each for each in REPLIES if each[0].family in OF_EACH_FORM]
)
every_family = pytest.mark.parametrize(("syntax", "reply"), MOSTLY_SLOW, ids=FAMILIES)


@every_family
@given(data=st.data())
def test_every_cut_gives_the_same_parts(syntax, reply, data):
    text, inside = data.draw(altered(reply)), data.draw(st.booleans())
    places = data.draw(st.lists(st.integers(0, 400), max_size=12))
    whole = read(syntax, [text], inside_reasoning=inside)
    assert read(syntax, cut(text, places), inside_reasoning=inside).parts == whole.parts
    assert read(syntax, text, inside_reasoning=inside).parts == whole.parts


@pytest.mark.parametrize(("syntax", "reply"), MOSTLY_SLOW[:-1], ids=FAMILIES[:-1])
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
    found = read(HARMONY, [text], tools=())
    headers = r"(?:<.start.>|<.channel.>|^to=)((?!<.(?:end|call|return).>|to=).)*?<.message.>"
    ends = "<.(?:end|call|return).>"
    if "to=" not in text:
        wanted = re.sub(f"{headers}|{ends}", "", _black(text), flags=re.DOTALL)
        told = "".join(words for _, words in found.parts)
        assert re.sub(ends, "", _black(told)) == wanted


def _black(text):
    return "".join(text.split())


def timed(arguments):
    return f'<tool_call>{{"arguments": {arguments}, "name": "get_time"}}</tool_call>'


TOLD_APART = (
    # a reply, its reasoning, its content and its calls
    (f"<think>\nHm.\n</think>\n\nI look.\n{CALL}\n{CALL}\n", "Hm.", "I look.", [BONN, BONN]),
    (f"{CALL}\nDone. ", "", "Done. ", [BONN]),
    ("The tag <think> opens.", "", "The tag <think> opens.", []),
    (f"<think>{CALL}</think>No.", CALL, "No.", []),
    ("\n  a\n\n", "", "\n  a\n\n", []),
    (CALL.removesuffix("\n</tool_call>"), "", "", [BONN]),
    (CALL.replace("}}\n", '}}\n{"name": "get_time"}\n'), "", "", [BONN, ("get_time", {})]),
    (timed('"{\\"zone\\": 1}"'), "", "", [("get_time", {"zone": 1})]),
    (timed("null"), "", "", [("get_time", {})]),
    (timed("{}"), "", "", [("get_time", {})]),
    (timed('{"zone": "a\nb"}'), "", "", [("get_time", {"zone": "a\nb"})]),
    (timed('{"zone": "\\u00e9"}'), "", "", [("get_time", {"zone": "é"})]),
)


def test_reasoning_content_and_calls_are_told_apart():
    for text, reasoning, content, calls in TOLD_APART:
        reply = read(HERMES, text)
        assert (text, reply.reasoning) == (text, reasoning)
        assert (text, reply.content, reply.calls) == (text, content, calls)
    begun = read(HERMES, "Hm.\n</think>\n\nYes.", inside_reasoning=True)
    assert (begun.reasoning, begun.content) == ("Hm.", "Yes.")


def test_what_is_no_call_is_content():
    for text in (
        '<tool_call>\n{"name": 5}\n</tool_call>',
        *(timed(text) for text in ("[1]", '"[1]"', '"x"')),
        '<tool_call>{"name": "get_time", "arguments": {"zone": NaN}}</tool_call>',
        '<tool_call>{"name": "get_time", "arguments": {"zone": "x"',
        '<tool_call>{"name": "get_time", "arguments": {"zone": "x"}} '[:-2],
        "<tool_call>get_time()</tool_call>",
        "I call.\n\n<tool_call>",
    ):
        reply = read(HERMES, text)
        assert (reply.calls, reply.content) == ([], text)


def test_the_calls_before_and_behind_a_broken_one_are_calls():
    broken = '<tool_call>{"name": "get_time", "arguments": {"zone": x}}</tool_call>'
    reply = read(HERMES, f"{CALL}\n{broken}\n{CALL}")
    assert (reply.calls, reply.broken) == ([BONN, BONN], 1)
    assert reply.content == broken


def test_arguments_come_as_they_are_written_but_for_their_end():
    """So arguments that can be parsed belong to a call that has ended."""
    for zone, arguments in (('"B', '{"zone": "'), ('"x"}', '{"zone": "x"')):
        text = f'<tool_call>{{"name": "get_time", "arguments": {{"zone": {zone}'
        named, written = certain_calls(HERMES, [text])
        assert (named, written) == (CallPiece(0, "get_time"), CallPiece(0, arguments=arguments))


def test_the_schema_says_what_a_raw_value_is():
    for line in (DATA / "values.jsonl").read_text(encoding="utf-8").splitlines():
        schema, text, value = json.loads(line)
        defined = {"word": {"type": "string"}}
        tool = Tool("f", {"type": "object", "properties": {"a": schema}, "$defs": defined})
        reply = f"<tool_call>f<arg_key>a</arg_key><arg_value>{text}</arg_value></tool_call>"
        (call,) = read(GLM, reply, tools=(tool,)).calls
        assert call == ("f", {"a": value})
        assert type(call[1]["a"]) is type(value)


def test_a_value_that_is_not_closed_ends_where_the_next_begins():
    xml = "<tool_call>\n<function=get_weather>\n<parameter=city>\nBonn\n<parameter=days>\n3\n"
    glm = "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Bonn"
    for syntax, text in (
        (XML, f"{xml}</parameter>\n</function>\n</tool_call>"),
        (XML, f"{xml}</function>\n</tool_call>"),
        (GLM, f"{glm}<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>"),
        (ReplySyntax("minimax"), write_call("minimax", *BONN).replace("Bonn</parameter>", "Bonn")),
    ):
        assert read(syntax, text).calls == [BONN], text
    other = xml.replace("=days", "=day") + "</parameter>\n</function>\n</tool_call>"
    assert read(XML, other).calls == [("get_weather", {"city": "Bonn\n<parameter=day>\n3"})]


def test_marks_that_are_left_over_are_not_content():
    for syntax, text, content in (
        (HERMES, "First.</think>Final.", "First.Final."),
        (HERMES, "<think>Hm.</think>First.\n</think>\n\nFinal.", "First.\nFinal."),
        (MISTRAL, "[/THINK]Hi", "Hi"),
        (HERMES, "The tags <think> and </think>.", "The tags <think> and </think>."),
        (HERMES, "Close it with `</think>`.", "Close it with `</think>`."),
        (HERMES, f"{CALL}\n<tool_call", ""),
        (HERMES, f"{CALL}<tool_call>", ""),
        (HERMES, f"{CALL}\n</tool_call>So.", "So."),
        (GEMMA, "<|tool_call>call:get_time{}<tool_call|><|tool_call", ""),
        (HERMES, "So <tool_call", "So <tool_call"),
        (ReplySyntax("hunyuan", THINK), "<think>Hm.</think>\n<answer>\nHi\n</answer>", "Hi"),
        (ReplySyntax("kimi"), "So<|tool_call_section_begin|><|tool_call_section_end|>", "So"),
    ):
        assert read(syntax, text).content == content, text


def test_calls_as_a_list_or_as_lines_of_python():
    for syntax, text in (
        (LLAMA, "[get_weather(city='Bonn', days=3), get_time(zone=\"x\")]"),
        (ReplySyntax("pythonic"), "[get_weather(city='Bonn', days=3),get_time(zone='x')]"),
        (
            ReplySyntax("olmo"),
            "<function_calls>\nget_weather(city='Bonn', days=3)\nget_time(zone='x')\n"
            "</function_calls>",
        ),
    ):
        reply = read(syntax, text)
        assert (reply.calls, reply.content) == ([BONN, ("get_time", {"zone": "x"})], "")
    for text in ("[1, 2]", "[other(a=1)]", "[link](get_time())"):
        assert read(LLAMA, text).content == text


IN_OTHER_CLOTHES = (
    ('data_refs:["ds_1"]', {"data_refs": ["ds_1"]}),
    ("data_refs:['ds_1',]", {"data_refs": ["ds_1"]}),
    ('opts:{"mode": "fast"}', {"opts": {"mode": "fast"}}),
    ('save_as:"a, b.pdf"', {"save_as": "a, b.pdf"}),
    ('"city": "Rome", \'days\': 3,', {"city": "Rome", "days": 3}),
    ("a:True,b:None,c:false,d:NULL", {"a": True, "b": None, "c": False, "d": None}),
    ('a:"it\'s",b:\'say "hi" now\'', {"a": "it's", "b": 'say "hi" now'}),
    ('a:"x\ny",b:"caf\\u00e9 \\ud83d\\ude00\\n"', {"a": "x\ny", "b": "café 😀\n"}),
    ("a:-1.5e3,b:.5,c:+3,d:1_000", {"a": -1500.0, "b": 0.5, "c": 3, "d": 1000}),
    ('a:["x", <|"|>y, "z"<|"|>, w]', {"a": ["x", 'y, "z"', "w"]}),
    ('a:{b: {"c": [{}, [], ""]}}', {"a": {"b": {"c": [{}, [], ""]}}}),
    ("a:It's 5,b:12:30,c:007", {"a": "It's 5", "b": "12:30", "c": "007"}),
    ("save_as='a.docx', \"n\" = 2", {"save_as": "a.docx", "n": 2}),
    ('{"a": 1}', {"a": 1}),
    ("{a:1, b:{c:2}} ", {"a": 1, "b": {"c": 2}}),
    ("{}", {}),
    ('a:"x"b:"y"', {"a": "x", "b": "y"}),
    ('a:"x" b: <|"|>y<|"|>c:[1] d:{} "e":2', {"a": "x", "b": "y", "c": [1], "d": {}, "e": 2}),
    ('a:"say "b: hi"",b:"it\'s x:y"', {"a": 'say "b: hi"', "b": "it's x:y"}),
)


@pytest.mark.parametrize(("text", "wanted"), IN_OTHER_CLOTHES)
def test_gemmas_values_in_the_clothes_of_json_or_python(text, wanted):
    reply = f"<|tool_call>call:get_time{{{text}}}<tool_call|>"
    assert read(GEMMA, reply).calls == [("get_time", wanted)]
    in_brackets = f"<|tool_call>call:get_time({text})<tool_call|>"
    assert read(GEMMA, in_brackets).calls == [("get_time", wanted)]
    in_functions = reply.replace("<|tool_call>", "<start_function_call>").replace(
        "<tool_call|>", "<end_function_call>"
    )
    found = read(FUNCTION_GEMMA, in_functions.replace('<|"|>', "<escape>"))
    assert found.calls == [("get_time", wanted)]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('{"name": "get_time", "arguments": {"zone": "x"}}', 1),
        (
            '{"name":"get_time","parameters":{"zone":"x"}}{"name":"get_time","arguments":{"zone":"x"}}',
            2,
        ),
        ('[{"name": "get_time", "arguments": {"zone": "x"}}]', 1),
        ("call:get_time{zone:x}call:get_time{zone:x}", 2),
        ("call:get_time{zone:x}, call:get_time(zone:x)\ncall:get_time{{zone:x}}", 3),
        ("[call:get_time{zone:x},call:get_time{zone:x}]", 2),
    ],
)
@pytest.mark.parametrize(
    ("syntax", "opening", "closing"),
    [
        (GEMMA, "<|tool_call>", "<tool_call|>"),
        (FUNCTION_GEMMA, "<start_function_call>", "<end_function_call>"),
    ],
)
def test_calls_of_other_notations_and_numbers_between_gemmas_marks(
    syntax, opening, closing, text, count
):
    for reply in (f"So {opening}{text}{closing}", [*f"So {opening}{text}{closing}"]):
        found = read(syntax, reply)
        assert (found.content, found.calls) == ("So", [("get_time", {"zone": "x"})] * count)
    after = read(syntax, f"{opening}call:get_time{{}}{closing}call: me")
    assert (after.content, len(after.calls)) == ("call: me", 1)


PYTHONS = (
    ('opts={"mode": "fast", other: \'x\', 1: true,}', {"mode": "fast", "other": "x", "1": True}),
    ("opts={mode: {a: [1_000, +2, 007]}}", {"mode": {"a": [1000, 2, "007"]}}),
    ("opts: {'of'=(1, None)}", {"of": [1, None]}),
)


def test_calls_between_the_marks_of_lfm_in_the_clothes_of_javascript_or_json():
    call = '{"name": "get_time", "arguments": {"opts": 1}}'
    for text, wanted in (
        *((f"get_time({text})", [opts]) for text, opts in PYTHONS),
        (f"{call}, {call}", [1, 1]),
    ):
        found = read(LFM, f"So <|tool_call_start|>[{text}]<|tool_call_end|>")
        calls = [("get_time", {"opts": opts}) for opts in wanted]
        assert (found.content, found.calls) == ("So", calls)


def test_a_call_in_clothes_that_cannot_be_read_is_shown_whole():
    for text in ('a:"say "hi", now"', 'a:"open', "a:[1", "a:{1}", "a:x<y", 'a:"\\ud8'):
        reply = f"So <|tool_call>call:get_time{{{text}}}<tool_call|> and"
        found = read(GEMMA, reply)
        assert (found.calls, found.content) == ([], reply)


def test_an_unmarked_object_that_is_no_call_of_a_tool_is_content():
    for text in (
        '{"name": "Bob", "parameters": {}}',
        '{"name": "get_time", "age": 3}',
        '{"name": "get_time"}',
        '{"answer": 42}',
        'So: {"name": "get_time", "parameters": {}}',
    ):
        reply = read(LLAMA, text)
        assert (reply.calls, reply.content) == ([], text)


def test_deep_and_long_arguments():
    deep = '<tool_call>{"name": "get_time", "arguments": ' + '{"a":' * 100_000
    reply = read(HERMES, [deep])
    assert (reply.calls, reply.content) == ([], deep)
    long = json.dumps({"name": "get_time", "arguments": {"zone": "x" * 1_000_000}})
    assert read(HERMES, [f"<tool_call>{long}</tool_call>"]).calls[0][1]["zone"] == "x" * 1_000_000


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
def test_a_call_that_a_grammar_makes_certain_is_no_content_wherever_it_is_cut(syntax, call):
    for end in range(1, len(call) + 1):
        for pieces in ([call[:end]], list(call[:end])):
            reader = ReplyReader(syntax, tools=TOOLS, certain=True)
            found = [one for piece in pieces for one in reader.push(piece)]
            found += reader.finish(cut=True)
            assert sum(one.length for one in found) == end
            assert said(call[:end], joined(found)) == "", call[:end]
