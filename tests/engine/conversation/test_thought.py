"""Reasoning and calls are told from the answer by the target's own syntax, however it is cut; after
reasoning that ends early the answer is the target's own, whatever is drafted."""

import json
from collections import namedtuple

import pytest
from mlx_lm.tokenizer_utils import load as load_tokenizer

from engine.conversation.session import Session
from engine.conversation.template import abilities_for, closing_of, reply_syntax
from engine.conversation.thought import Thought
from engine.core.loop import alone
from engine.core.rounds import NO_LIMIT, Unconstrained
from engine.draft_length.policy import Fixed
from engine.events import Text, Verdict, stretches_of
from engine.replies.syntax import ReasoningMarks
from engine.request import CallRules, ChatMessage, Grammar, Prompt, Request
from engine.stretches import said
from tests.engine.replies.reading import TEMPLATES, template
from tests.support.engine.helpers import Known, Scripted, now_and_then
from tests.support.engine.sessions import (
    DRAFTERS,
    END,
    QUESTION,
    check_caches,
    check_laws,
    collect,
    done_of,
    loaded,
    new_session,
    text_of,
    tiny_model,
    tokens_of,
)
from tests.support.engine.tiny import byte_tokenizer
from tests.support.mostly_slow import mostly_slow

HARMONY = "<|start|> <|channel|> <|message|> <|end|>"
TURNS = (
    "{% for message in messages %}<{{ message.role }}>{{ message.reasoning_content }}"
    "{{ message.content }}{% endfor %}{% if add_generation_prompt %}<assistant>"
)
# How a family writes: the marks in its template, its special tokens, the end of its prompt.
Way = namedtuple("Way", "marks special prompt reply")
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
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


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
def test_an_answer_is_told_from_its_reasoning(tmp_path, way, length):
    """A form is of the answer, and a stop string ends it, but not the reasoning."""
    tokenizer = tokenizer_of(way, tmp_path)
    formed = Request(grammar=Grammar("regex", r"Four\."), calls=CallRules(strict=True))
    for request, cut in ((Request(), ""), (formed, ""), (Request(stops=(".",)), ".")):
        events = heard(session_of(tokenizer, way.reply, length=length), list(QUESTION), request)
        assert told(events) == ("Hm.", "Four.".removesuffix(cut))
        assert text_of(events) + cut == way.reply
        assert (done_of(events).reason, done_of(events).cut) == ("stop", cut)


@every_way
def test_an_answer_goes_on_wherever_it_was_cut(tmp_path, way):
    tokenizer = tokenizer_of(way, tmp_path)
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
    for tools in (TOOLS, ""):
        session = session_of(tokenizer, CALLS[name], length=length, tools=tools)
        answer = session.prepare(Prompt(messages=tuple(QUESTION), tools=tools), Request())
        events = list(alone(session.decoder, session.begin(answer)))
        check_laws(events, Spelling(tokenizer))
        calls = [piece for event in events if isinstance(event, Text) for piece in event.calls]
        assert [piece.name for piece in calls if piece.name] == ["f"] * bool(tools)
        assert [piece.ended for piece in calls][-1:] == [True] * bool(tools)
        arguments = "".join(piece.arguments for piece in calls)
        assert not tools or json.loads(arguments) == {"a": 1}
        assert ("f" in told(events)[1]) == (not tools)
        assert text_of(events) == CALLS[name]


# Reasoning that ends early

OPENED = template("shapes/opened")  # the prompt begins the reasoning
CLOSING = list(b"</think>\n\n")
BUDGET = 9


@pytest.fixture
def opened(tmp_path):
    byte_tokenizer(tmp_path)
    tokenizer = load_tokenizer(tmp_path, eos_token_ids=[END])
    tokenizer.chat_template = OPENED
    return tokenizer


def forced_in(events):
    verdicts = (event for event in events if isinstance(event, Verdict) and event.forced)
    return [[token.id for token in verdict.forced] for verdict in verdicts]


@pytest.mark.parametrize("kind", mostly_slow(DRAFTERS, quick=["model"]))
def test_a_budget_ends_at_its_token_and_the_answer_is_the_targets(kind, opened):
    session = new_session(opened, kind=kind)
    request = Request(max_tokens=30, thinking_budget=BUDGET)
    events = collect(session, session.answer(QUESTION, request))
    tokens, closed = tokens_of(events), BUDGET + len(CLOSING)
    free = new_session(opened, kind="none").answer(QUESTION, Request(max_tokens=BUDGET))
    assert tokens[:BUDGET] == tokens_of(list(free))
    assert forced_in(events) == [tokens[BUDGET:closed]] == [CLOSING]
    # What follows is a fresh session's answer to the prompt with those.
    prompt = new_session(opened).encode(Prompt(messages=tuple(QUESTION)))
    rest = Request(max_tokens=len(tokens) - closed)
    fresh = new_session(opened, kind="none").complete([*prompt, *tokens[:closed]], rest)
    assert tokens[closed:] == tokens_of(list(fresh))


def test_a_grammar_after_reasoning_takes_as_much_of_the_mark_as_it_allows(opened):
    session = Session(loaded(tiny_model("llama"), opened))
    session.policy = Fixed(0)
    grammar = Grammar("regex", "yes|no", after="</think>")
    request = Request(max_tokens=40, thinking_budget=BUDGET, grammar=grammar)
    events = list(session.answer(QUESTION, request))
    assert forced_in(events)[0] == list(b"</think>")
    assert text_of(events).rpartition("</think>")[2] in ("yes", "no")
    at_once = Request(max_tokens=40, thinking_budget=0, grammar=Grammar("regex", "yes|no"))
    assert text_of(list(session.answer(QUESTION, at_once))) in ("yes", "no")


def test_only_reasoning_is_ended_also_where_an_answer_goes_on_within_it(opened):
    request = Request(max_tokens=12, thinking_budget=0)
    for content, within in (("Let me", True), ("Let me</think>\n\nIt", False)):
        written = ChatMessage("assistant", "", written=content)
        events = list(new_session(opened).answer([*QUESTION, written], request))
        assert forced_in(events) == [CLOSING] * within
    opened.chat_template = OPENED.replace("<think>\n", "")
    assert not forced_in(list(new_session(opened).answer(QUESTION, request, hurried=lambda: True)))


def test_a_template_is_told_of_thinking(opened):
    opened.chat_template = "{{ '' if thinking is defined and thinking else 'calm' }}<assistant>"
    session = new_session(opened)
    read = [
        done_of(list(session.answer(QUESTION, Request(max_tokens=1, thinking=thinking))))
        for thinking in ("on", "off")
    ]
    assert read[1].stats.prompt_tokens == read[0].stats.prompt_tokens + len("calm")


def test_the_text_that_ends_reasoning_is_that_of_the_template(opened):
    found = {}
    for path in TEMPLATES.glob("*.jinja"):
        opened.chat_template = path.read_text()
        found[path.stem] = closing_of(abilities_for(opened), reply_syntax(opened))
    assert found == {
        "function_gemma": "",
        "gemma": "<channel|>",
        "glm": "</think>",
        "harmony": "<|end|><|start|>assistant<|channel|>final<|message|>",
        "hermes": "\n</think>\n\n",
        "lfm": "</think>",
        "llama": "",
        "mistral": "",
        "mistral_args": "[/THINK]",
        "qwen_xml": "\n</think>\n\n",
    }


# --- The rules alone


def letters(budget, begun="before"):
    """Rules whose tokens are letters."""
    return Thought(
        Unconstrained(),
        ReasoningMarks("<think>", "</think>"),
        closing="\n</think>\n\n",
        encode=lambda text: list(map(ord, text)),
        text_of=chr,
        budget=budget,
        begun=begun,
    )


def say(thought, text):
    """Commit a text; return what is forced after it."""
    thought.commit(list(map(ord, text)))
    return "".join(map(chr, thought.forced(99)))


def test_a_budget_counts_from_the_opening_mark_on_and_without_it_there_is_none():
    thought = letters(3)
    assert thought.room == 4
    assert (say(thought, "\n<thin"), thought.room) == ("", 4)
    assert (say(thought, "k>"), thought.room) == ("", 3)
    assert (say(thought, "ab"), thought.room) == ("", 1)
    assert say(thought, "c") == "\n</think>\n\n"
    assert say(thought, "\n</think>\n\n") == ""
    assert (thought.room, thought.forcing) == (NO_LIMIT, True)  # the pass after it has more rows
    assert (say(thought, "It"), thought.forcing) == ("", False)
    thought = letters(3)
    assert (say(thought, "It is <think> and more"), thought.room) == ("", NO_LIMIT)
    thought.end()
    assert (thought.forced(9), thought.forcing) == ([], False)


def test_what_is_there_of_the_closing_text_is_not_repeated():
    for text, forced in (
        ("Hm", "\n</think>\n\n"),
        ("Hm\n", "</think>\n\n"),
        ("Hm\n</th", "ink>\n\n"),
        ("Hm\n</think>", ""),
    ):
        thought = letters(None, "inside")
        say(thought, text)
        thought.end()
        assert (text, say(thought, "")) == (text, forced)
