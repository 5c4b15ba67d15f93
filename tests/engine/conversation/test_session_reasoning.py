"""Reasoning and calls are told from the answer by the target's own syntax, however it is cut."""

import json
from dataclasses import dataclass

import pytest
from mlx_lm.tokenizer_utils import load as load_tokenizer

from engine.conversation.session import Session
from engine.core.loop import alone
from engine.draft_length.policy import Fixed
from engine.events import Text, stretches_of
from engine.request import CallRules, ChatMessage, Grammar, Prompt, Request
from engine.stretches import said
from tests.support.engine.helpers import Known, Scripted, now_and_then
from tests.support.engine.sessions import (
    END,
    QUESTION,
    check_caches,
    check_laws,
    done_of,
    loaded,
    text_of,
)
from tests.support.engine.tiny import byte_tokenizer

HARMONY = "<|start|> <|channel|> <|message|> <|end|>"
TURNS = (
    "{% for message in messages %}<{{ message.role }}>{{ message.reasoning_content }}"
    "{{ message.content }}{% endfor %}{% if add_generation_prompt %}<assistant>"
)


@dataclass(frozen=True)
class Way:
    """How a family writes: the marks in its template, its special tokens, the end of its prompt."""

    marks: str
    special: tuple[str, ...]
    prompt: str
    reply: str


WAYS = {
    "gpt-oss": Way(
        HARMONY,
        tuple(HARMONY.split()),
        "",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Four.",
    ),
    "gemma 4": Way(
        "<|channel>thought\n <channel|>",
        ("<|channel>", "<channel|>"),
        "",
        "<|channel>thought\nHm.<channel|>Four.",
    ),
    "qwen3": Way("<think> </think>", (), "<think>\n", "Hm.\n</think>\n\nFour."),
    "lfm2": Way("<|tool_call_start|> <think> </think>", (), "", "<think>Hm.</think>Four."),
    "deepseek": Way(
        "<think> </think>", ("<think>", "</think>"), "<think>\n", "Hm.\n</think>\n\nFour."
    ),
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@pytest.fixture
def tokenizer(way, tmp_path):
    return tokenizer_of(way, tmp_path)


def tokenizer_of(way, folder):
    byte_tokenizer(folder)
    own = load_tokenizer(folder, eos_token_ids=[END])
    own.add_special_tokens({"additional_special_tokens": list(way.special)})
    own.chat_template = "{# " + way.marks + " #}" + TURNS + way.prompt + "{% endif %}"
    return own


def session_of(tokenizer, text, *, length, tools=""):
    """A session whose target writes this reply, drafted by one that is wrong now and then."""
    target = loaded(Scripted([0], vocabulary=len(tokenizer)), tokenizer)
    prompt = Session(target).encode(Prompt(messages=tuple(QUESTION), tools=tools))
    reply = tokenizer.encode(text, add_special_tokens=False)
    script = [*prompt, *reply, END, END]
    session = Session(loaded(Scripted(script, vocabulary=len(tokenizer)), tokenizer))
    session.drafter = Known(script, vocabulary=len(tokenizer), wrong=now_and_then(2))
    session.policy = Fixed(length)
    return session


def heard(session, messages, request):
    events = list(session.answer(messages, request))
    check_laws(events, Spelling(session.target.tokenizer))
    check_caches(session)
    return events


class Spelling:
    """Decodes with the names of special tokens, without the end."""

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer

    def decode(self, ids, **_):
        return str(self._tokenizer.decode([one for one in ids if one != END]))


def told(events):
    """The reasoning and the answer."""
    text, stretches = text_of(events), stretches_of(events)
    return said(text, stretches, "reasoning"), said(text, stretches)


@every_way
@pytest.mark.parametrize("length", [0, 3])
def test_an_answer_is_told_from_its_reasoning(tokenizer, way, length):
    form, rules = Grammar("regex", r"Four\."), CallRules(strict=True)  # a form is of the answer
    for request in (Request(), Request(grammar=form, calls=rules)):
        events = heard(session_of(tokenizer, way.reply, length=length), list(QUESTION), request)
        assert told(events) == ("Hm.", "Four.")
        assert text_of(events) == way.reply


@every_way
def test_an_answer_goes_on_wherever_it_was_cut(tokenizer, way):
    session = session_of(tokenizer, way.reply, length=3)
    whole = heard(session, list(QUESTION), Request())
    letters = [one.kind for one in stretches_of(whole) for _ in range(one.length)]
    ids = tokenizer.encode(way.reply, add_special_tokens=False)
    for count in range(1, len(ids), 5):
        written = tokenizer.decode(ids[:count])
        cut = ChatMessage("assistant", "", written=written)
        rest = heard(session, [*QUESTION, cut], Request())
        assert written + text_of(rest) == way.reply
        assert [one.kind for one in stretches_of(rest) for _ in range(one.length)] == (
            letters[len(written) :] if stretches_of(rest) else []
        )


@every_way
def test_a_stop_string_ends_the_answer_and_not_the_reasoning(tokenizer, way):
    session = session_of(tokenizer, way.reply, length=3)
    events = heard(session, list(QUESTION), Request(stops=(".",)))
    assert told(events) == ("Hm.", "Four")
    assert (done_of(events).reason, done_of(events).cut) == ("stop", ".")


CALLS = {
    "gpt-oss": '<|channel|>commentary to=functions.f<|message|>{"a": 1}',
    "qwen3": 'Hm.</think>So: <tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>',
    "lfm2": "So: <|tool_call_start|>[f(a=1)]<|tool_call_end|>",
}
TOOLS = '[{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]'


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("length", [0, 3])
def test_calls_are_told_if_there_are_tools(name, length, tmp_path):
    tokenizer = tokenizer_of(WAYS[name], tmp_path)
    session = session_of(tokenizer, CALLS[name], length=length, tools=TOOLS)
    for tools in (TOOLS, ""):
        prompt = Prompt(messages=tuple(QUESTION), tools=tools)
        answer = session.prepare(prompt, Request())
        if not tools:
            session = session_of(tokenizer, CALLS[name], length=length)
        events = list(alone(session.decoder, session.begin(answer)))
        check_laws(events, Spelling(tokenizer))
        calls = [piece for event in events if isinstance(event, Text) for piece in event.calls]
        assert [piece.name for piece in calls if piece.name] == ["f"] * bool(tools)
        assert [piece.ended for piece in calls][-1:] == [True] * bool(tools)
        arguments = "".join(piece.arguments for piece in calls)
        assert not tools or json.loads(arguments) == {"a": 1}
        assert ("f" in told(events)[1]) == (not tools)
        assert text_of(events) == CALLS[name]
