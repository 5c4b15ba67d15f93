"""How a template shows its family, and replies of each, as its models write them: calls, reasoning
and text apart."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.replies.families import FAMILIES, pieces
from engine.replies.syntax import REASONING, ReasoningMarks, ReplySyntax, syntax_of
from engine.replies.writing import write_call
from tests.engine.replies.reading import cut, read
from tests.engine.replies.rendering import CASES, arguments_for, syntax_in
from tests.support.mostly_slow import mostly_slow

THINK = REASONING[0]
BONN = {"city": "Bonn", "days": 3}
DATA = Path(__file__).parents[2] / "data" / "replies"
WRITTEN = json.loads((DATA / "written.json").read_text(encoding="utf-8"))
QWEN = '<tool_call>\n{"name": <name>, "arguments": <object>}\n</tool_call>'
every_family = pytest.mark.parametrize("family", FAMILIES)
OTHERS = ("kimi", "kimi 3", "dsml", "glm", "solar", "cohere", "olmo", "mistral args")
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
    syntax = syntax_of("{{ messages }}", tokens=tokens, special=tokens[:2])
    assert syntax.family == "lfm"
    assert syntax.reasoning == REASONING[0]
    assert syntax.special == ("<|tool_call_end|>", "<|tool_call_start|>")


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


@pytest.mark.parametrize("family", WRITTEN)
def test_a_call_is_written_and_read_as_the_template_writes_it(family):
    assert write_call(family, "get_weather", BONN) == WRITTEN[family]
    found = read(syntax(family), f"I look.\n{WRITTEN[family]}")
    assert (found.content, found.calls) == ("I look.", [("get_weather", BONN)])


@pytest.mark.parametrize("family", mostly_slow(FAMILIES, quick=OTHERS))  # than the parser's
@given(data=st.data())
def test_no_text_raises_and_every_cut_gives_the_same_parts(family, data):
    row = FAMILIES[family]
    words = [piece for mark in row.marks for piece in pieces(mark)]
    words += [*pieces(write_call(family, "get_weather", BONN)), *'{}[]" \n:,=', "get_time", "x"]
    text = "".join(data.draw(st.lists(st.sampled_from(words), max_size=24)))
    places = data.draw(st.lists(st.integers(0, 400), max_size=8))
    inside = data.draw(st.booleans())
    whole = read(syntax(family), [text], inside_reasoning=inside)
    assert read(syntax(family), text, inside_reasoning=inside).parts == whole.parts
    assert read(syntax(family), cut(text, places), inside_reasoning=inside).parts == whole.parts


@every_family
def test_two_calls_and_the_text_beside_them(family):
    row = FAMILIES[family].calls[0]
    if family == "harmony":
        return  # a call ends the reply
    opening, between, closing = (
        mark.replace("{gap}", "") for mark in (row.opening, row.between, row.closing)
    )
    call = write_call(family, "get_weather", BONN).removeprefix(opening).removesuffix(closing)
    found = read(syntax(family), f"{opening}{call}{between}{call}{closing}")
    assert (found.calls, found.content) == ([("get_weather", BONN)] * 2, "")


def test_forms_that_models_write_beside_their_own():
    dsml = WRITTEN["dsml"]
    for family, text, wanted in (
        ("dsml", dsml.replace("tool_calls>", "function_calls>"), BONN),
        ("dsml", dsml.replace("Bonn", "5"), BONN | {"city": "5"}),
        ("kimi", WRITTEN["kimi"].replace("functions.", ""), BONN),
        ("kimi", WRITTEN["kimi"].removeprefix("<|tool_calls_section_begin|>"), BONN),
        (
            "minicpm",
            WRITTEN["minicpm"].replace("Bonn", "<![CDATA[</param>]]>"),
            BONN | {"city": "</param>"},
        ),
        ("qwen xml", write_call("hermes", "get_weather", BONN), BONN),
        ("kimi", WRITTEN["kimi"].replace("calls_section", "call_section"), BONN),
        ("llama", "[get_weather(city='Bonn', days=3)]", BONN),
        ("hunyuan", f"<answer>{write_call('hunyuan', 'get_weather', BONN)}</answer>", BONN),
        ("deepseek r1", WRITTEN["deepseek"], BONN),
    ):
        found = read(syntax(family), text)
        assert (family, found.calls, found.content) == (family, [("get_weather", wanted)], "")


def test_an_object_in_pythons_notation_is_an_object():
    area = {"category": "books", "in_stock": True, "of": [None]}
    text = write_call("qwen xml", "get_weather", {"city": "x", "area": "?"}).replace(
        "?", repr(area)
    )
    assert read(syntax("qwen xml"), text).calls == [("get_weather", {"city": "x", "area": area})]


def test_nested_tags_are_objects_and_lists():
    wanted = {
        "city": "x",
        "area": {"a": {"b": [1, 2]}, "c": "y"},
        "marks": ["u", True],
        "share": 0.5,
    }
    found = read(syntax("minimax 3"), write_call("minimax 3", "get_weather", wanted))
    assert found.calls == [("get_weather", wanted)]
    empty = read(syntax("minimax 3"), write_call("minimax 3", "get_weather", {"marks": []}))
    assert empty.calls == [("get_weather", {"marks": []})]
    assert read(syntax("minimax 3"), write_call("minimax 3", "get_time", {})).calls == [
        ("get_time", {})
    ]


def test_only_calls_at_its_end_end_reasoning_that_was_not_closed():
    qwen = ReplySyntax("qwen xml", THINK)
    call = write_call("qwen xml", "get_weather", BONN)
    for text, inside in ((f"<think>Hm.\n{call}\n{call}", False), (f"Hm.\n{call}\n{call}", True)):
        found = read(qwen, text, inside_reasoning=inside)
        assert (found.reasoning, found.content) == ("Hm.", "")
        assert found.calls == [("get_weather", BONN)] * 2
    for text in (f"{call} So.", call[:-30], call.replace("get_weather", "get_whether")):
        found = read(qwen, text, inside_reasoning=True)
        assert (found.reasoning, found.content, found.calls) == (text, "", [])
    closed = read(qwen, f"{call}</think>No.", inside_reasoning=True)
    assert (closed.reasoning, closed.content, closed.calls) == (call, "No.", [])


def test_marks_around_text_are_in_no_part():
    gemma = ReasoningMarks("<|channel>thought\n", "<channel|>")
    cohere = ReasoningMarks("<|START_THINKING|>", "<|END_THINKING|>")
    for family, marks, text, reasoning in (
        ("gemma", gemma, "<|channel>thought<channel|>Hello", ""),
        ("gemma", gemma, "<channel|>Hello", ""),
        ("gemma", gemma, "<|channel><|channel>thought\n<channel|>Hello", ""),
        ("gemma", gemma, "<|channel>thought\n<|channel>thought\nHm.<channel|>Hello", "Hm."),
        ("gemma", gemma, "<|channel>Hello", ""),
        ("hermes", THINK, "<think>\n<think>\nHm.\n</think>\n\nHello", "Hm."),
        ("gemma", gemma, "<|channel>thought\nHm.<channel|>Hello<channel|>", "Hm."),
        (
            "cohere", cohere,
            "<|START_THINKING|>Hm.<|END_THINKING|><|START_TEXT|>Hello<|END_TEXT|>", "Hm.",
        ),
        ("cohere", cohere, "<|START_THINKING|>Hm.<|START_RESPONSE|>Hello", "Hm."),
        (
            "atem", None,
            " to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>Hello", "Hm.",
        ),
        ("solar", None, "<|think|>Hm.<|end|><|begin|>assistant<|content|>Hello<|end|>", "Hm."),
        (
            "kimi 3", None,
            "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>Hello"
            "<|close|>response<|sep|><|close|>message<|sep|>", "Hm.",
        ),
        (
            "harmony", None,
            "<|channel|>commentary to=assistant<|channel|>analysis<|message|>Hm.<|end|>"
            "<|start|>assistant<|channel|>final<|message|>Hello", "Hm.",
        ),
    ):  # fmt: skip
        found = read(ReplySyntax(family, marks or FAMILIES[family].reasoning), text)
        assert (family, found.reasoning, found.content) == (family, reasoning, "Hello")
