"""Reasoning that ends early: behind it the answer is the target's own, whatever is drafted."""

from pathlib import Path

import pytest
from mlx_lm.tokenizer_utils import load as load_tokenizer

from engine.conversation.session import Session
from engine.conversation.template import abilities_for, closing_of, reply_syntax
from engine.conversation.thought import Thought
from engine.core.rounds import NO_LIMIT, Unconstrained
from engine.draft_length.policy import Fixed
from engine.events import Verdict
from engine.replies.syntax import ReasoningMarks
from engine.request import ChatMessage, Grammar, Prompt, Request
from tests.support.engine.sessions import (
    DRAFTERS,
    END,
    QUESTION,
    collect,
    loaded,
    new_session,
    text_of,
    tiny_model,
    tokens_of,
)
from tests.support.engine.tiny import byte_tokenizer
from tests.support.mostly_slow import mostly_slow

OPENED = (  # the prompt begins the reasoning
    "{% for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1] }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant><think>\n{% endif %}"
)
CLOSING = list(b"</think>\n\n")
BUDGET = 9
TEMPLATES = Path(__file__).parents[2] / "data" / "templates"
MARKS = ReasoningMarks("<think>", "</think>")


@pytest.fixture
def opened(tmp_path):
    byte_tokenizer(tmp_path)
    tokenizer = load_tokenizer(tmp_path, eos_token_ids=[END])
    tokenizer.chat_template = OPENED
    return tokenizer


def forced_in(events):
    verdicts = (event for event in events if isinstance(event, Verdict) and event.forced)
    return [[token.id for token in verdict.forced] for verdict in verdicts]


def check_what_follows(tokenizer, tokens, closed):
    """The tokens behind the first `closed` are a fresh session's to the prompt with those."""
    prompt = new_session(tokenizer).encode(Prompt(messages=tuple(QUESTION)))
    fresh, rest = new_session(tokenizer, kind="none"), len(tokens) - closed
    answer = fresh.complete([*prompt, *tokens[:closed]], Request(max_tokens=rest))
    assert tokens[closed:] == tokens_of(list(answer))


def check_the_budget(tokenizer, kind, budget=BUDGET):
    session = new_session(tokenizer, kind=kind)
    request = Request(max_tokens=30, thinking_budget=budget)
    events = collect(session, session.answer(QUESTION, request))
    tokens = tokens_of(events)
    free = new_session(tokenizer, kind="none").answer(QUESTION, Request(max_tokens=budget))
    assert tokens[:budget] == tokens_of(list(free))
    assert forced_in(events) == [tokens[budget:][: len(CLOSING)]] == [CLOSING]
    check_what_follows(tokenizer, tokens, budget + len(CLOSING))


@pytest.mark.parametrize("kind", mostly_slow(DRAFTERS, quick=["model"]))
def test_a_budget_ends_at_its_token_and_the_answer_is_the_targets(kind, opened):
    check_the_budget(opened, kind)


def test_a_grammar_behind_reasoning_takes_as_much_of_the_mark_as_it_allows(opened):
    session = Session(loaded(tiny_model("llama"), opened))
    session.policy = Fixed(0)
    grammar = Grammar("regex", "yes|no", after="</think>")
    request = Request(max_tokens=40, thinking_budget=BUDGET, grammar=grammar)
    events = list(session.answer(QUESTION, request))
    assert forced_in(events)[0] == list(b"</think>")
    assert text_of(events).rpartition("</think>")[2] in ("yes", "no")
    at_once = Request(max_tokens=40, thinking_budget=0, grammar=Grammar("regex", "yes|no"))
    assert text_of(list(session.answer(QUESTION, at_once))) in ("yes", "no")


def test_an_answer_that_goes_on_within_its_reasoning_still_ends_it(opened):
    request = Request(max_tokens=12, thinking_budget=0)
    for content, within in (("Let me", True), ("Let me</think>\n\nIt", False)):
        written = ChatMessage("assistant", "", written=content)
        events = list(new_session(opened).answer([*QUESTION, written], request))
        assert forced_in(events) == [CLOSING] * within


def test_without_reasoning_nothing_is_forced(opened):
    request = Request(max_tokens=20, thinking_budget=0)
    opened.chat_template = OPENED.replace("<think>\n", "")
    assert not forced_in(list(new_session(opened).answer(QUESTION, request, hurried=lambda: True)))


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


def letters(budget, begun="before", closing="\n</think>\n\n"):
    """Rules whose tokens are letters."""
    return Thought(
        Unconstrained(),
        MARKS,
        closing=closing,
        encode=lambda text: list(map(ord, text)),
        text_of=chr,
        budget=budget,
        begun=begun,
    )


def say(thought, text):
    """Commit a text; return what is forced behind it."""
    thought.commit(list(map(ord, text)))
    return "".join(map(chr, thought.forced(99)))


def test_the_budget_counts_from_the_opening_mark_on():
    thought = letters(3)
    assert thought.room == 4
    assert (say(thought, "\n<thin"), thought.room) == ("", 4)
    assert (say(thought, "k>"), thought.room) == ("", 3)
    assert (say(thought, "ab"), thought.room) == ("", 1)
    assert say(thought, "c") == "\n</think>\n\n"
    assert say(thought, "\n</think>\n\n") == ""
    assert (thought.room, thought.forcing) == (NO_LIMIT, True)  # the pass behind has more rows
    assert (say(thought, "It"), thought.forcing) == ("", False)


def test_an_answer_without_the_mark_has_no_budget():
    thought = letters(3)
    assert (say(thought, "It is <think> and more"), thought.room) == ("", NO_LIMIT)
    thought.end()
    assert (thought.forced(9), thought.forcing) == ([], False)


def test_what_is_there_of_the_closing_text_is_not_repeated():
    for said, forced in (
        ("Hm", "\n</think>\n\n"),
        ("Hm\n", "</think>\n\n"),
        ("Hm\n</th", "ink>\n\n"),
        ("Hm\n</think>", ""),
    ):
        thought = letters(None, "inside")
        say(thought, said)
        thought.end()
        assert "".join(map(chr, thought.forced(99))) == forced
