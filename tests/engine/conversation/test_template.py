"""Chat templates that came with a model: what they may take, what they are given, and that no one's
text becomes a special token by them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import load as load_tokenizer

from engine.conversation.gaps import knows, with_gap
from engine.conversation.template import abilities_for, encode_prompt, render, with_thinking
from engine.replies.syntax import syntax_of
from engine.replies.tools import Tool
from engine.request import ChatMessage, Prompt, Request, ToolCall
from models.errors import Problem
from tests.engine.replies.reading import read, template
from tests.support.engine.tiny import SPECIAL_TOKENS, byte_tokenizer

QUESTION = Prompt(messages=(ChatMessage("user", "why?"),))


def _with_template(tokenizer, source):
    tokenizer.chat_template = source
    return tokenizer


@pytest.fixture
def own_tokenizer(tmp_path):
    """One whose template may be changed."""
    byte_tokenizer(tmp_path)
    return load_tokenizer(tmp_path, eos_token_ids=[256])


def test_a_template_that_refuses_fills_the_memory_or_writes_a_book(own_tokenizer):
    for source, said in (
        ("{{ 'all work and no play ' * 100_000 }}", "into 2,100,000"),
        ("{{ 'a' * 10 ** 15 }}", "memory"),
        ("{{ raise_exception('no tools here') }}", "no tools here"),
    ):
        with pytest.raises(Problem, match=said):
            render(_with_template(own_tokenizer, source), QUESTION)
    assert abilities_for(own_tokenizer).notation is None
    with pytest.raises(Problem):
        encode_prompt(own_tokenizer, _chat(ChatMessage("user", "half a character: \ud800")))


STORIES = Path(__file__).parents[2] / "data" / "stories260K"
WITH_THINK = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1] }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant><think>{% endif %}"
)
SHOWING = "{{ [messages, tools, mood | default(0)] | tojson }}"


def _ids(tokenizer, *names):
    return [tokenizer.convert_tokens_to_ids(name) for name in names]


def _chat(*messages, tools="", options=""):
    return Prompt(messages=messages, tools=tools, options=options)


@pytest.fixture(scope="module", params=["bytes", "sentencepiece"])
def tokenizer(request, tmp_path_factory):
    """One that knows `<think>` as a token that is not special."""
    folder = tmp_path_factory.mktemp("tokenizer")
    if request.param == "bytes":
        byte_tokenizer(folder)
    found = load_tokenizer(folder if request.param == "bytes" else STORIES, eos_token_ids=[256])
    found.add_special_tokens({"additional_special_tokens": [*SPECIAL_TOKENS]})
    found.add_tokens(["<think>", "</think>"])
    return _with_template(found, WITH_THINK)


@given(
    pieces=st.lists(st.sampled_from([*SPECIAL_TOKENS, "<think>", "</think>", "<", "e", " ", "\n"]))
)
def test_what_the_user_says_is_text(tokenizer, pieces):
    said = "".join(pieces)
    tokens = encode_prompt(tokenizer, _chat(ChatMessage("system", said), ChatMessage("user", said)))
    found = [token for token in tokens if token in tokenizer.added_tokens_decoder]
    assert found == _ids(tokenizer, "<system>", "<user>", "<assistant>", "<think>")
    rest = said.split("</think>")[-1]
    text = tokenizer.decode(tokens, skip_special_tokens=False)
    assert text.replace(" ", "") == f"<system>{rest}<user>{rest}<assistant><think>".replace(" ", "")


def test_names_of_tokens_are_tokens_in_a_text_and_where_the_assistant_may_write_them(tokenizer):
    eos, think, user = _ids(tokenizer, "<eos>", "<think>", "<user>")
    tokens = encode_prompt(tokenizer, _chat(ChatMessage("user", "a<eos>b")))
    assert "a<eos>b" in tokenizer.decode(tokens), "no space is put where a name is taken apart"
    wrote = ChatMessage("assistant", "<think>so<eos>")
    tokens = encode_prompt(tokenizer, _chat(*QUESTION.messages, wrote, *QUESTION.messages))
    assert eos not in tokens
    assert tokens.count(think) == 2
    tokens = encode_prompt(tokenizer, Prompt(text="<user>a<eos>"))
    assert [token for token in tokens if token in (user, eos)] == [user, eos]


def test_a_gap_is_filled_between_tokens_that_the_tokenizer_has(own_tokenizer):
    prompt, request = Prompt(text="a", suffix="b"), Request(stops=("c",))
    with pytest.raises(Problem):
        with_gap(prompt, request, knows(own_tokenizer))
    marks = ["<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>"]
    own_tokenizer.add_special_tokens({"additional_special_tokens": marks})
    filled, asked = with_gap(prompt, request, knows(own_tokenizer))
    before, after, middle, end = own_tokenizer.convert_tokens_to_ids(marks)
    assert encode_prompt(own_tokenizer, filled) == [before, ord("a"), after, ord("b"), middle]
    assert (asked.special, asked.stops) == (True, ("c", "<file_sep>"))
    assert own_tokenizer.encode("<file_sep>", add_special_tokens=False) == [end]


def test_a_text_begins_once():
    tokenizer = load_tokenizer(STORIES)
    begin = tokenizer.bos_token_id
    texts = (Prompt(text="Once"), Prompt(text=tokenizer.bos_token + "Once"))
    for prompt in (*texts, QUESTION):  # it has no template
        tokens = encode_prompt(tokenizer, prompt)
        assert tokens[0] == begin
        assert tokens.count(begin) == 1


def test_what_a_template_is_given(own_tokenizer):
    call = ToolCall("c1", "look", '{"at": 9007199254740993}')
    prompt = _chat(
        ChatMessage("user", "a"),
        ChatMessage("system", "late"),
        ChatMessage("assistant", "", reasoning="hm", tool_calls=(call,)),
        ChatMessage("tool", "seen", tool_call_id="c1"),
        ChatMessage("system", "later"),
        tools='[{"type": "function", "function": {"name": "look"}}]',
        options='{"mood": ["<eos>"]}',
    )
    messages, tools, mood = json.loads(render(_with_template(own_tokenizer, SHOWING), prompt))
    assert messages == [
        {"role": "system", "content": "late\n\nlater"},
        {"role": "user", "content": "a"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "hm",
            "thinking": "hm",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "look", "arguments": {"at": 2**53 + 1}},
                }
            ],
        },
        {"role": "tool", "content": "seen", "tool_call_id": "c1", "name": "look"},
    ]
    assert tools == [{"type": "function", "function": {"name": "look"}}]
    assert mood == ["<eos>"]


NOT_GIVEN = (  # tools, options, and arguments of a call
    ("[", "", "{}"),
    ("{}", "", "{}"),
    ("", "[1]", "{}"),
    ("", '{"chat_template": "x"}', "{}"),
    ("", '{"tokenize": true}', "{}"),
    ("", "", "[1]"),
    ("", "", "{"),
)


def test_what_a_template_is_not_given(own_tokenizer):
    for tools, options, arguments in NOT_GIVEN:
        call = ToolCall("c1", "look", arguments)
        called = ChatMessage("assistant", "a", tool_calls=(call,))
        chat = _chat(called, *QUESTION.messages, tools=tools, options=options)
        with pytest.raises(Problem):
            pytest.fail(f"{tools, options, arguments}: {render(own_tokenizer, chat)}")


def test_a_chat_without_a_template(own_tokenizer):
    own_tokenizer.chat_template = None
    own_tokenizer.has_chat_template = False
    tokens = encode_prompt(own_tokenizer, _chat(ChatMessage("user", "a<eos>"), *QUESTION.messages))
    assert own_tokenizer.decode(tokens, skip_special_tokens=False) == "a<eos>\n\nwhy?"
    assert 256 not in tokens


ABILITIES = (
    "system", "tools", "calls", "several_calls", "results", "same_role", "text_beside_calls",
    "empty_beside_calls",
)  # fmt: skip
PLAIN, STRICT, LISTING, CONCATENATING, THINKING, CHANNELS, OPENED, UNKNOWN, READS_ALL = (
    template(f"shapes/{name}")
    for name in (
        "plain", "strict", "listing", "concatenating", "thinking", "channels", "opened", "unknown",
        "reads_all",
    )
)  # fmt: skip
CALLED = (
    ChatMessage("user", "Rain?"),
    ChatMessage("assistant", "I look.", tool_calls=(ToolCall("c", "weather", '{"city": "Rome"}'),)),
    ChatMessage("tool", "42 mm", tool_call_id="c", name="weather"),
    ChatMessage("user", "And now?"),
)
FUNCTION = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
WEATHER = json.dumps([FUNCTION])


def test_tools_and_calls_are_told_as_the_template_can_tell_them(own_tokenizer):
    """In text, in the way in which the model's own calls are read; with arguments as text where a
    template wants text, and text beside calls in a message of its own where it would vanish."""
    prompt = Prompt(messages=(ChatMessage("system", "Be brief."), *CALLED), tools=WEATHER)
    text = render(_with_template(own_tokenizer, PLAIN), prompt)
    system, *rest = text.split("[user]")
    assert WEATHER.strip("[]") in system
    assert system.endswith("Be brief.\n")
    assert rest[1] == "<tool_response>\n42 mm\n</tool_response>\nAnd now?\n"
    said = rest[0].partition("[assistant]")[2].rstrip("\n")
    reply = read(syntax_of(PLAIN), said, tools=(Tool("weather"),))
    assert (reply.content, reply.calls) == ("I look.", [("weather", {"city": "Rome"})])
    text = render(_with_template(own_tokenizer, CONCATENATING), replace(prompt, messages=CALLED))
    written = '<assistant>I look.<assistant>call weather {"city": "Rome"}<tool>42 mm<user>And now?'
    assert text.endswith(written)


REASONED = ChatMessage("assistant", "It is ", reasoning="So.")
BY_A_CLIENT = ChatMessage("assistant", "It is ")
ENDINGS = (
    (THINKING, REASONED, "\n<assistant>\n<think>\nSo.\n</think>\n\nIt is "),
    (CHANNELS, REASONED, "<end><assistant|analysis>So.<end><assistant|final>It is "),
    (OPENED, REASONED, "?<assistant><think>\nSo.</think>\n\nIt is "),
    (THINKING, BY_A_CLIENT, "\n<assistant>\nIt is "),
    (CHANNELS, BY_A_CLIENT, "<end><assistant|final>It is "),
    (OPENED, BY_A_CLIENT, "?<assistant><think>\n</think>\n\nIt is "),
)


def test_an_answer_goes_on_from_its_own_prompt(own_tokenizer):
    """With the very text that was written after it, to the last white space; with its reasoning,
    and as text without."""

    def rendered(source, answer):
        _with_template(own_tokenizer, source)
        return render(own_tokenizer, Prompt(messages=(*QUESTION.messages, answer)))

    for source, begins in ((THINKING, "<think>\n"), (CHANNELS, "|analysis>"), (OPENED, "")):
        begun = render(_with_template(own_tokenizer, source), QUESTION)
        for more in ("Okay, the user", "Because \n "):
            written = begins + more
            raw = ChatMessage("assistant", "", written=written)
            assert rendered(source, raw) == begun + written, source
            if source != OPENED:
                thought = ChatMessage("assistant", "", reasoning=more)
                assert rendered(source, thought) == begun + written, source
    for source, answer, ending in ENDINGS:
        assert rendered(source, answer).endswith(ending), source


def test_thinking_is_as_the_makers_say_or_as_the_user_does(own_tokenizer):
    own_tokenizer.add_tokens(["<think>", "</think>"])  # for which mlx-lm forces thinking
    theirs = "{{ messages[0].content }}{{ enable_thinking | default('their way') }}"
    _with_template(own_tokenizer, theirs)
    for wish, said in (("", "their way"), ("on", "True"), ("off", "False"), ("low", "True")):
        prompt = with_thinking(own_tokenizer, QUESTION, wish)
        assert render(own_tokenizer, prompt) == f"why?{said}"
    _with_template(own_tokenizer, CHANNELS)
    for wish, said in (("", "medium"), ("high", "high"), ("off", "low"), ("on", "medium")):
        prompt = with_thinking(own_tokenizer, QUESTION, wish)
        assert render(own_tokenizer, prompt).startswith(f"Reasoning: {said}<user>")
    given = replace(QUESTION, options='{"reasoning_effort": "x"}')
    rendered = render(own_tokenizer, with_thinking(own_tokenizer, given, "low"))
    assert rendered.startswith("Reasoning: x<user>")


def test_what_a_template_can_do_is_found_once_by_rendering_it(own_tokenizer):
    for source, lacks in (
        (PLAIN, {"tools", "calls", "results"}),
        (STRICT, {"system", "tools", "calls", "results", "same_role"}),
        (LISTING, {"calls"}),
        (CONCATENATING, {"text_beside_calls", "empty_beside_calls"}),
    ):
        able = abilities_for(_with_template(own_tokenizer, source), tools=True)
        assert {each for each in ABILITIES if not getattr(able, each)} - {"several_calls"} == lacks
        assert abilities_for(own_tokenizer, tools=True) is able
    assert able.arguments == "text"
    assert abilities_for(_with_template(own_tokenizer, THINKING)).choices == ("on", "off")
    channels = abilities_for(_with_template(own_tokenizer, CHANNELS))
    assert channels.choices == ("low", "medium", "high")


def test_the_notation_of_an_unknown_family_is_found_by_rendering(own_tokenizer):
    able = abilities_for(_with_template(own_tokenizer, UNKNOWN), tools=True)
    syntax = syntax_of(UNKNOWN, knows_tools=able.knows_tools, found=able.notation)
    call = '<run>weather<with>{"city": "Bonn"}</run>'
    found = read(syntax, f"<thought>Hm.</thought>I look.{call}{call}", tools=(Tool("weather"),))
    assert (found.reasoning, found.content) == ("Hm.", "I look.")
    assert found.calls == [("weather", {"city": "Bonn"})] * 2
    assert abilities_for(_with_template(own_tokenizer, PLAIN), tools=True).notation is None


NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
PARTS = (  # the schema of a parameter, and as it is read
    ({"type": "integer"}, "integer, "),
    (True, "string, "),
    ({"description": "N."}, "string, N."),
    ({"enum": [1, 2]}, "integer, "),
    ({"type": ["null", "string"], "description": "N."}, "string, N. (or null)"),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer, (or null)"),
    ({"type": "null"}, "string, (or null)"),
    ({"type": "file"}, "string, (or file)"),
    ({"type": "array"}, "list of string, "),
    ({"items": {"enum": ["a"]}, "type": "array"}, "list of string, "),
    ({"type": "object"}, ", "),
    ({"$ref": "#/$defs/node"}, "next , "),
)
WITHOUT_TOOLS = (
    "{% if tools is defined and tools | length > 0 %}t{% endif %}{{ messages[0].content }}",
    "{% for tool in tools %}t{% endfor %}{{ messages[0].content }}",
    "{% if documents | length %}d{% endif %}{{ messages[0].content }}",
    "{% if tools is not none %}t{% endif %}{{ messages[0].content }}",
)


def test_a_template_that_reads_schemas_without_asking_gets_them_plain_or_none(own_tokenizer):
    for source in WITHOUT_TOOLS:
        assert render(_with_template(own_tokenizer, source), QUESTION) == "why?"
    tokenizer = _with_template(own_tokenizer, READS_ALL)
    whole = [
        ({"parameters": {"properties": {"n": part}, "$defs": {"node": NODE}}}, f"n: {told}; ")
        for part, told in PARTS
    ]
    empty = (None, {}, {"type": "object"}, {"type": "object", "properties": []})
    whole += [({} if each is None else {"parameters": each}, "") for each in empty]
    for parameters, told in whole:
        tools = json.dumps([{"type": "function", "function": {"name": "f", **parameters}}])
        assert render(tokenizer, replace(QUESTION, tools=tools)) == f"{told}f. why?"
    shown = {"name": "f", "parameters": {"type": ["string", "null"]}}
    tools = json.dumps([{"type": "function", "function": shown}])
    _with_template(tokenizer, "{{ tools | tojson }}{{ messages }}")
    assert render(tokenizer, replace(QUESTION, tools=tools)).startswith(tools), "none is read"
