"""System prompts and tools that are kept on disk: what is kept, and what another prompt reuses."""

import json

import pytest

from engine.conversation.kept_blocks import forget
from engine.request import ChatMessage, chat
from tests.support.engine.kept import (
    BEGINNING,
    DOCUMENT,
    GREEDY,
    INSTRUCTED,
    ROWS,
    STATES,
    A,
    answer,
    ask,
    files,
    new,
)
from tests.support.engine.sessions import reused_of, tokens_of
from tests.support.mostly_slow import mostly_slow

pytestmark = pytest.mark.usefixtures("on_the_cpu")


@pytest.mark.quick(1)
@pytest.mark.parametrize("architecture", mostly_slow(["llama", *STATES], quick=["llama", "lfm2"]))
def test_instructions_are_kept_and_what_is_said_is_not(targets, folder, architecture):
    target, long = targets(architecture), "Where? And when, and how? " * 4
    ask(new(target, folder), long)
    states = architecture != "llama"
    assert len(files(folder)) == BEGINNING + states
    for said in (("Why?",), (long,), ("Why?", "Who knows.", long)):
        given = ask(new(target, folder), *said)
        assert reused_of(given) == BEGINNING * ROWS
        assert tokens_of(given) == tokens_of(ask(new(target, None), *said))
    assert len(files(folder)) == BEGINNING + states


def test_tools_are_instructions_too(targets, folder):
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    ask(new(targets("llama"), folder), "Why?", tools=json.dumps([tool]))
    assert len(files(folder)) > 10
    given = ask(new(targets("llama"), folder), "And where?", tools=json.dumps([tool]))
    assert reused_of(given) == len(files(folder)) * ROWS


def test_instructions_go_with_no_document(targets, folder):
    ask(new(targets("llama"), folder), "Why?")
    answer(new(targets("llama"), folder), [90, *DOCUMENT])
    assert len(files(folder)) == BEGINNING + 5
    forget(folder, A)
    assert len(files(folder)) == BEGINNING
    (own,) = {path.parent for path in files(folder)}
    assert own.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in files(folder)} == {0o600}


def test_a_text_or_tokens_have_no_instructions(targets, folder):
    answer(new(targets("llama"), folder), DOCUMENT, INSTRUCTED)
    assert not folder.exists()


def test_a_document_is_kept_behind_its_question_by_states(targets, folder):
    """Of a chat about documents states are kept where the next question begins, not at its end."""
    text, target = "It was a dark and stormy night, and the rain fell. " * 3, targets("qwen3_5")

    def about(session, question):
        prompt = chat([ChatMessage("user", text + question, attached=len(text))])
        return answer(session, (), GREEDY, said=prompt)

    about(new(target, folder), "Who is there, and what did they see that night? " * 2)
    given = about(new(target, folder), "Why?")
    assert reused_of(given) == (len(text) + len("?")) // ROWS * ROWS
    assert tokens_of(given) == tokens_of(about(new(target, None), "Why?"))
