"""Conversations that templates would refuse."""

import json
from pathlib import Path

import pytest

from engine.process.protocol import Generate
from engine.request import ChatMessage, ToolCall
from engine.server.conversation import in_order
from tests.support.engine.asking import asking

CALL = ToolCall("call_1", "read", "{}")


def test_the_parts_of_a_reply_become_one_and_a_late_system_message_stays_where_it_is():
    messages = [
        ChatMessage("system", "a"),
        ChatMessage("system", ""),
        ChatMessage("system", "b"),
        ChatMessage("user", "c"),
        ChatMessage("user", "d"),
        ChatMessage("assistant", "", reasoning="Hm."),
        ChatMessage("assistant", "e"),
        ChatMessage("assistant", "", tool_calls=(CALL,)),
    ]
    reply = ChatMessage("assistant", "e", reasoning="Hm.", tool_calls=(CALL,))
    assert in_order(messages) == (*messages[:5], reply)
    # In front, it would void the cache of everything after it.
    front, late = (
        [ChatMessage("system", "a"), ChatMessage("user", "b")],
        ChatMessage("system", "late"),
    )
    assert in_order([*front, late]) == (front[0], ChatMessage("user", "b\n\nlate"))
    said = [*front, ChatMessage("assistant", "c")]
    assert in_order([*said, late]) == (*said, ChatMessage("user", "late"))
    called = [*said, ChatMessage("tool", "d", tool_call_id="x")]
    assert in_order([*called, late])[-1] == ChatMessage("tool", "d\n\nlate", tool_call_id="x")


DATA = Path(__file__).parents[2] / "data" / "dialects" / "past.jsonl"
PAST = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
WHOLE = "party \ufffd (cut)"
NEWEST = {"role": "user", "content": "Go on."}


async def asked_with(*requests):
    """The messages that the engine is asked with for each path and body, as JSON escapes it."""
    async with asking() as (client, host):
        headers = {"content-type": "application/json"}
        for path, body in requests:
            response = await client.post(path, content=json.dumps(body), headers=headers)
            assert response.status_code == 200, (body, response.text)
        return [one.prompt.messages for one in host.taken if isinstance(one, Generate)]


def chat(*past):
    return "/v1/chat/completions", {"messages": [*past, NEWEST]}


def anthropic(*past):
    return "/v1/messages", {"messages": [*past, NEWEST], "max_tokens": 9}


def responses(*past):
    return "/v1/responses", {"input": [*past, NEWEST]}


def ollama(*past):
    return "/api/chat", {"messages": [*past, NEWEST], "stream": False}


DIALECTS = (chat, anthropic, responses, ollama)


def rows(dialect, *names):
    """Those of a dialect that have these values."""
    kept = [row for row in PAST if row["dialect"] == dialect.__name__ and names[0] in row]
    return [[row[name] for name in names] for row in kept]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_half_a_character_costs_no_request(dialect):
    ((halves,),) = rows(dialect, "halves")
    half = {"role": "system", "content": WHOLE.replace("\ufffd", "\ud83d")}
    (messages,) = await asked_with(dialect(half, *halves))
    assert messages[0].content == messages[2].content == WHOLE
    (call,) = messages[1].tool_calls
    assert WHOLE in json.loads(call.arguments)
    assert WHOLE in str(json.loads(call.arguments)[WHOLE])
    str(messages).encode()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_nothing_that_is_past_is_judged(dialect):
    """Each row has its role, and its part of the message."""
    later, kept = {"role": "user", "content": "And?"}, rows(dialect, "past", "role", "part")
    found = await asked_with(*(dialect(past, later) for past, _, _ in kept))
    for (past, role, part), (first, *_) in zip(kept, found, strict=True):
        assert (first.role, part in str(first)) == (role, True), (past, first)


async def test_a_long_history_is_not_judged_by_its_length():
    (messages,) = await asked_with(chat(*[{"role": "user", "content": "a"}] * 5000))
    assert len(messages) == 5001
