"""Chat templates that came with a model: what they may take, what they are given, and that nobody's
text becomes a special token by them."""

import json
import resource
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import load as load_tokenizer

from engine.conversation.template import encode_prompt, render
from engine.replies.parser import ReplyParser
from engine.replies.parts import CallArguments, CallBegan, CallEnded, ContentPart
from engine.replies.syntax import syntax_of
from engine.replies.tools import Tool
from engine.request import ChatMessage, Prompt, ToolCall
from models.errors import Problem
from tests.support.engine.tiny import SPECIAL_TOKENS, byte_tokenizer

QUESTION = Prompt(messages=(ChatMessage("user", "why?"),))
LOOP = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"
DOUBLING = (
    "{% set it = namespace(s='a') %}{% for i in range(60) %}"
    "{% set it.s = it.s ~ it.s %}{% endfor %}{{ it.s }}"
)


@pytest.fixture(autouse=True)
def limits_are_put_back() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGPROF)
    yield
    after = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGPROF)
    assert after == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


def _with_template(tokenizer: Any, template: str) -> Any:
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture
def own_tokenizer(tmp_path: Path) -> Any:
    """One whose template may be changed."""
    byte_tokenizer(tmp_path)
    return load_tokenizer(tmp_path, eos_token_ids=[256])


@pytest.mark.parametrize("template", [LOOP, "{{ 9 ** (9 ** 9) }}"], ids=["a loop", "a power"])
def test_one_that_does_not_end(own_tokenizer: Any, template: str) -> None:
    with pytest.raises(Problem) as raised:
        render(_with_template(own_tokenizer, template), QUESTION, seconds=0.05)
    assert "does not end" in raised.value.message
    assert "another model" in raised.value.remedy


@pytest.mark.parametrize(
    "template", [DOUBLING, "{{ 'a' * 10 ** 12 }}"], ids=["bit by bit", "at once"]
)
def test_one_that_fills_the_memory(own_tokenizer: Any, template: str) -> None:
    with pytest.raises(Problem) as raised:
        render(_with_template(own_tokenizer, template), QUESTION, more_bytes=100_000_000)
    assert "memory" in raised.value.message


def test_one_that_writes_a_book(own_tokenizer: Any) -> None:
    template = "{% for i in range(2000) %}{{ 'all work and no play ' * 100 }}{% endfor %}"
    with pytest.raises(Problem) as raised:
        render(_with_template(own_tokenizer, template), QUESTION)
    assert "4,200,000 characters" in raised.value.message


def test_a_long_conversation_is_rendered_whole(own_tokenizer: Any) -> None:
    said = [ChatMessage("user" if i % 2 == 0 else "assistant", "word " * 5000) for i in range(101)]
    text = render(own_tokenizer, Prompt(messages=tuple(said)))
    assert text.count("word") == 101 * 5000


def test_a_last_message_of_the_assistant_is_gone_on_with(own_tokenizer: Any) -> None:
    said = (*QUESTION.messages, ChatMessage("assistant", "Because"))
    text = render(own_tokenizer, Prompt(messages=said))
    assert text.endswith("Because")


STORIES = Path(__file__).parents[2] / "data" / "stories260K"
WITH_THINK = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1] }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant><think>{% endif %}"
)
SHOWING = "{{ [messages, tools, mood | default(0)] | tojson }}"


def _ids(tokenizer: Any, *names: str) -> list[int]:
    return [tokenizer.convert_tokens_to_ids(name) for name in names]


def _chat(*messages: ChatMessage, tools: str = "", options: str = "") -> Prompt:
    return Prompt(messages=messages, tools=tools, options=options)


@pytest.fixture(scope="module", params=["bytes", "sentencepiece"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
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
def test_what_a_person_says_is_text(tokenizer: Any, pieces: list[str]) -> None:
    said = "".join(pieces)
    tokens = encode_prompt(tokenizer, _chat(ChatMessage("system", said), ChatMessage("user", said)))
    found = [token for token in tokens if token in tokenizer.added_tokens_decoder]
    assert found == _ids(tokenizer, "<system>", "<user>", "<assistant>", "<think>")
    rest = said.split("</think>")[-1]
    text = tokenizer.decode(tokens, skip_special_tokens=False)
    assert text.replace(" ", "") == f"<system>{rest}<user>{rest}<assistant><think>".replace(" ", "")


def test_a_name_within_a_name_is_text_too(tokenizer: Any) -> None:
    prompt = _chat(ChatMessage("user", "<e<eos>os><<eos>\U000f0000<eos>"))
    assert _ids(tokenizer, "<eos>")[0] not in encode_prompt(tokenizer, prompt)
    assert "<e<eos>os><<eos>\U000f0000<eos>" in render(tokenizer, prompt)


def test_no_space_is_put_where_a_name_is_taken_apart(tokenizer: Any) -> None:
    tokens = encode_prompt(tokenizer, _chat(ChatMessage("user", "a<eos>b")))
    assert "a<eos>b" in tokenizer.decode(tokens)


def test_what_the_assistant_wrote_keeps_the_tokens_that_it_may_write(tokenizer: Any) -> None:
    wrote = ChatMessage("assistant", "<think>so<eos>")
    tokens = encode_prompt(tokenizer, _chat(*QUESTION.messages, wrote, *QUESTION.messages))
    assert _ids(tokenizer, "<eos>")[0] not in tokens
    assert tokens.count(_ids(tokenizer, "<think>")[0]) == 2


def test_names_of_special_tokens_in_a_text_are_tokens(tokenizer: Any) -> None:
    tokens = encode_prompt(tokenizer, Prompt(text="<user>a<eos>"))
    assert [t for t in tokens if t in _ids(tokenizer, "<user>", "<eos>")] == _ids(
        tokenizer, "<user>", "<eos>"
    )


def test_a_text_begins_once() -> None:
    tokenizer = load_tokenizer(STORIES)
    begin = tokenizer.bos_token_id
    for text in ("Once", tokenizer.bos_token + "Once"):
        tokens = encode_prompt(tokenizer, Prompt(text=text))
        assert tokens[0] == begin
        assert tokens.count(begin) == 1


def test_ids_stay_ids(own_tokenizer: Any) -> None:
    assert encode_prompt(own_tokenizer, Prompt(tokens=(3, 1, 3))) == [3, 1, 3]


def test_what_a_template_is_given(own_tokenizer: Any) -> None:
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


def test_ids_of_calls_are_made_such_as_mistrals_templates_take(own_tokenizer: Any) -> None:
    call = ToolCall("call_1234567890", "look", "{}")
    prompt = _chat(
        ChatMessage("assistant", "", tool_calls=(call, ToolCall("abcdefgh9", "look", ""))),
        ChatMessage("tool", "seen", tool_call_id=call.id),
    )
    _with_template(own_tokenizer, SHOWING + "{# [TOOL_CALLS] #}")
    calls, result = json.loads(render(own_tokenizer, prompt))[0]
    first, second = (one["id"] for one in calls["tool_calls"])
    assert len(first) == 9
    assert first.isalnum()
    assert (result["tool_call_id"], second) == (first, "abcdefgh9")


NOT_GIVEN = (  # tools, options, and arguments of a call
    ("[", "", "{}"),
    ("{}", "", "{}"),
    ("", "[1]", "{}"),
    ("", '{"chat_template": "x"}', "{}"),
    ("", '{"tokenize": true}', "{}"),
    ("", "", "[1]"),
    ("", "", "{"),
)


def test_what_a_template_is_not_given(own_tokenizer: Any) -> None:
    for tools, options, arguments in NOT_GIVEN:
        call = ToolCall("c1", "look", arguments)
        called = ChatMessage("assistant", "a", tool_calls=(call,))
        chat = _chat(called, *QUESTION.messages, tools=tools, options=options)
        with pytest.raises(Problem):
            pytest.fail(f"{tools, options, arguments}: {render(own_tokenizer, chat)}")


def test_a_template_that_refuses_says_why(own_tokenizer: Any) -> None:
    _with_template(own_tokenizer, "{{ raise_exception('no tools here') }}")
    with pytest.raises(Problem) as raised:
        encode_prompt(own_tokenizer, QUESTION)
    assert "no tools here" in raised.value.message


def test_half_a_character_is_refused(own_tokenizer: Any) -> None:
    with pytest.raises(Problem):
        encode_prompt(own_tokenizer, _chat(ChatMessage("user", "a\ud800")))


def test_a_chat_without_a_template(own_tokenizer: Any) -> None:
    own_tokenizer.chat_template = None
    own_tokenizer.has_chat_template = False
    tokens = encode_prompt(own_tokenizer, _chat(ChatMessage("user", "a<eos>"), *QUESTION.messages))
    assert own_tokenizer.decode(tokens, skip_special_tokens=False) == "a<eos>\n\nwhy?"
    assert 256 not in tokens


def test_a_template_that_takes_one_call_a_message_is_given_such(own_tokenizer: Any) -> None:
    template = (
        "{% for m in messages %}{% if m.tool_calls %}"
        "{% if m.tool_calls | length > 1 or m.thinking and m.content %}"
        "{{ raise_exception('one thing at a time') }}{% endif %}"
        "[{{ m.content }}{{ m.thinking }}{{ m.tool_calls[0].id }}]"
        "{% else %}({{ m.content }}){% endif %}{% endfor %}"
    )
    _with_template(own_tokenizer, template)
    calls = (ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}"))
    chat = (
        ChatMessage("assistant", "so", reasoning="hm", tool_calls=calls),
        ChatMessage("tool", "1", tool_call_id="a"),
        ChatMessage("tool", "2", tool_call_id="b"),
        *QUESTION.messages,
    )
    assert render(own_tokenizer, Prompt(messages=chat)) == "[soa](1)[b](2)(why?)"


PLAIN = "{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}"
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def test_a_template_without_tools_is_told_of_them_in_text(own_tokenizer: Any) -> None:
    """And of calls and results, in the way in which the model's own calls are read."""
    call = ToolCall("c1", "weather", '{"city": "Rome"}')
    messages = (
        ChatMessage("system", "Be brief."),
        ChatMessage("user", "Rain?"),
        ChatMessage("assistant", "I look.", tool_calls=(call,)),
        ChatMessage("tool", "42 mm", tool_call_id="c1", name="weather"),
        ChatMessage("user", "And now?"),
    )
    prompt = Prompt(messages=messages, tools=json.dumps([WEATHER]))
    text = render(_with_template(own_tokenizer, PLAIN), prompt)
    system, *rest = text.split("[user]")
    assert json.dumps(WEATHER) in system
    assert system.endswith("Be brief.\n")
    assert rest[1] == "<tool_response>\n42 mm\n</tool_response>\nAnd now?\n"
    read = ReplyParser(syntax_of(PLAIN), tools=(Tool("weather"),))
    reply = rest[0].partition("[assistant]")[2].rstrip("\n")
    parts = [*read.push(reply), *read.finish()]
    assert [type(part) for part in parts if not isinstance(part, CallArguments)] == [
        ContentPart,
        CallBegan,
        CallEnded,
    ]
    knowing = _with_template(own_tokenizer, PLAIN + "{{ tools }}")
    assert "<tools>" not in render(knowing, Prompt(messages=messages[:2], tools=prompt.tools))


def test_results_and_what_follows_them_are_one_turn_where_they_are_text(own_tokenizer: Any) -> None:
    call = ToolCall("a", "look", "{}")
    chat = (
        *QUESTION.messages,
        ChatMessage("assistant", "", tool_calls=(call, replace(call, id="b"))),
        ChatMessage("tool", "1", tool_call_id="a"),
        ChatMessage("tool", "2", tool_call_id="b"),
        *QUESTION.messages,
    )
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    text = render(_with_template(own_tokenizer, template), Prompt(messages=chat))
    assert text.count("<user>") == 2
    assert text.endswith(
        "<user><tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>\nwhy?"
    )
