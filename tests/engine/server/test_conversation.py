"""Conversations that templates would refuse."""

import json

import pytest

from engine.process.protocol import Generate
from engine.request import ChatMessage, ToolCall
from engine.server.conversation import arguments_of, in_order
from tests.support.engine.asking import asking, run

CALL = ToolCall("call_1", "read", "{}")


def test_the_parts_of_a_reply_become_one():
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


def test_arguments_are_an_object_whatever_a_model_wrote():
    for value, text in (
        ('{"a": 1}', '{"a": 1}'),
        ({"a": "ä"}, '{"a": "ä"}'),
        ("", "{}"),
        (None, "{}"),
        ("null", "{}"),  # as Go writes no arguments
        ('{"a": ', '{"arguments": "{\\"a\\": "}'),
        ("[1]", '{"arguments": "[1]"}'),
        ([1], '{"arguments": [1]}'),
    ):
        assert arguments_of(value) == text


def test_a_late_system_message_stays_where_it_is():
    # In front, it would void the cache of everything behind it.
    front = [ChatMessage("system", "a"), ChatMessage("user", "b")]
    late = ChatMessage("system", "late")
    assert in_order([*front, late]) == (front[0], ChatMessage("user", "b\n\nlate"))
    said = [*front, ChatMessage("assistant", "c")]
    assert in_order([*said, late]) == (*said, ChatMessage("user", "late"))
    called = [*said, ChatMessage("tool", "d", tool_call_id="x")]
    assert in_order([*called, late])[-1] == ChatMessage("tool", "d\n\nlate", tool_call_id="x")


HALF = "party \ud83d (cut)"
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


def called(arguments, **more):
    return {
        "id": "a",
        "type": "function",
        "function": {"name": "f", "arguments": arguments},
        **more,
    }


USE = {"type": "tool_use", "id": "a", "name": "f"}
RESULT = {"type": "tool_result", "tool_use_id": "a"}
CALLS = {"type": "function_call", "call_id": "a", "name": "f"}
OUTPUT = {"type": "function_call_output", "call_id": "a"}


@pytest.mark.parametrize("dialect", [chat, anthropic, responses, ollama])
def test_half_a_character_costs_no_request(dialect):
    texts = {
        chat: [
            {
                "role": "assistant",
                "content": HALF,
                "tool_calls": [called(json.dumps({HALF: HALF}))],
            },
            {"role": "tool", "tool_call_id": "a", "content": HALF, "name": HALF},
        ],
        anthropic: [
            {"role": "assistant", "content": [USE | {"input": {HALF: HALF}}]},
            {"role": "user", "content": [RESULT | {"content": HALF}]},
        ],
        responses: [
            CALLS | {"arguments": json.dumps({HALF: [HALF]})},
            OUTPUT | {"output": [{"type": "input_text", "text": HALF}]},
        ],
        ollama: [
            {"role": "assistant", "tool_calls": [called({HALF: HALF})]},
            {"role": "tool", "content": HALF},
        ],
    }
    request = dialect({"role": "system", "content": HALF}, *texts[dialect])
    (messages,) = run(asked_with(request))
    assert messages[0].content == messages[2].content == WHOLE
    (call,) = messages[1].tool_calls
    assert WHOLE in json.loads(call.arguments)
    assert WHOLE in str(json.loads(call.arguments)[WHOLE])
    str(messages).encode()


def said(content=None, /, **more):
    return {"role": "assistant", "content": content, **more}


def calling(call):
    return said(tool_calls=call)


def block(**more):
    return said([USE | more])


NAN = float("nan")
TEXTS = [{"type": "text", "text": "Hm"}]  # as Mistral has a thought
PAST = {
    # what is past, its role, and a part of it
    chat: (
        (said(5), "assistant", "5"),
        (said({"answer": 5}), "assistant", '{"answer": 5}'),
        (said([None, "a", {"text": "b"}]), "assistant", "b"),
        (said(refusal="No."), "assistant", "No."),
        (said(reasoning={"text": "Hm"}), "assistant", "Hm"),
        (said("a", reasoning_content=TEXTS), "assistant", "reasoning='Hm'"),
        (said([{"type": "thinking", "thinking": TEXTS}]), "assistant", "reasoning='Hm'"),
        (calling([called({"a": 2})]), "assistant", '{"a": 2}'),
        (calling([called([2])]), "assistant", "[2]"),
        (calling([called({"x": NAN})]), "assistant", "NaN"),
        (calling([called(1, id=7)]), "assistant", "'7'"),
        (calling([{"name": "g", "args": {"b": 1}}]), "assistant", '{"b": 1}'),
        (calling(called("{bad")), "assistant", "{bad"),
        (calling({"0": called("x")}), "assistant", "x"),
        ({"role": "tool", "tool_call_id": 7, "content": [{"a": 1}]}, "tool", '[{"a": 1}]'),
        ({"role": "tool", "content": None, "name": ["f"]}, "tool", "f"),
        ({"role": "Human", "content": "Hey"}, "user", "Hey"),
        ({"role": "model", "content": "Hey"}, "assistant", "Hey"),
        ({"role": "critic", "content": "Hey"}, "user", "Hey"),
        ({"content": "Hey"}, "user", "Hey"),
        ("Hey", "user", "Hey"),
        (None, "user", ""),
    ),
    anthropic: (
        (block(input="{bad"), "assistant", "{bad"),
        (block(name="n" * 300, id=3), "assistant", "nnn"),
        (said([{"type": "tool_use"}]), "assistant", "ToolCall"),
        (said([{"type": "thinking"}, "Well"]), "assistant", "Well"),
        (said([{"type": "text", "text": None}]), "assistant", ""),
        (said(), "assistant", ""),
        ({"role": "tool", "content": "x"}, "tool", "x"),
        ({"role": "user", "content": [RESULT | {"content": {"a": 1}}]}, "tool", '{"a": 1}'),
        ({"role": "user", "content": [{"type": "tool_result"}]}, "tool", ""),
        ({"role": "user", "content": [{"type": "mystery", "data": 5}]}, "user", "mystery"),
    ),
    responses: (
        (CALLS | {"arguments": {"a": 2}}, "assistant", '{"a": 2}'),
        (CALLS | {"arguments": None}, "assistant", "{}"),
        ({**CALLS, "call_id": None, "id": "fc_1"}, "assistant", "fc_1"),
        ({"type": "function_call"}, "assistant", "function"),
        ({"type": "custom_tool_call", "id": "x", "input": None}, "assistant", "input"),
        (CALLS | {"type": "local_shell_call", "action": ["ls"]}, "assistant", "ls"),
        (OUTPUT | {"type": "local_shell_call_output", "output": "a.py"}, "tool", "a.py"),
        (OUTPUT | {"output": None}, "tool", ""),
        (OUTPUT | {"output": {"a": 1}}, "tool", '{"a": 1}'),
        (OUTPUT | {"output": [1, 2]}, "tool", "[1, 2]"),
        ({"type": "function_call_output", "output": "x"}, "tool", "x"),
        ({"type": "reasoning", "summary": "Hm", "content": None}, "assistant", "Hm"),
        ({"type": "reasoning", "encrypted_content": "gAAA"}, "assistant", ""),
        ({"type": "item_reference", "id": "msg_1"}, "assistant", "item_reference"),
        ({"type": "compaction", "encrypted_content": "gAAA"}, "assistant", "compaction"),
        (said([{"type": "refusal", "refusal": "No."}]), "assistant", "No."),
        ({"role": "tool", "content": "x"}, "tool", "x"),
        (5, "user", "5"),
    ),
    ollama: (
        (said(thinking=5), "assistant", "5"),
        (calling([{"function": None}]), "assistant", "ToolCall"),
        (calling({"function": {"name": "f"}}), "assistant", "f"),
        ({"role": "tool", "content": {"a": 1}, "tool_name": 5}, "tool", '{"a": 1}'),
        ({"role": "user", "content": [{"type": "text", "text": "Hey"}]}, "user", "Hey"),
        ({"role": "user", "content": "See", "images": [5]}, "user", "See"),
        ({"role": "ipython", "content": "x"}, "tool", "x"),
    ),
}


@pytest.mark.parametrize("dialect", [chat, anthropic, responses, ollama])
async def test_nothing_that_is_past_is_judged(dialect):
    later = {"role": "user", "content": "And?"}
    found = await asked_with(*(dialect(past, later) for past, _, _ in PAST[dialect]))
    for (past, role, part), (first, *_) in zip(PAST[dialect], found, strict=True):
        assert (first.role, part in str(first)) == (role, True), (past, first)


async def test_only_the_newest_question_is_refused():
    async with asking() as (client, _):
        for dialect, message, param in (
            (chat, {"role": "wizard", "content": "x"}, "messages[1].role"),
            (chat, {"role": "user", "content": {"a": 1}}, "messages[1].content"),
            (chat, {"role": "user", "content": [{"type": "input_audio"}]}, "content[0].type"),
            (responses, {"type": "item_reference", "id": "msg_1"}, "input[1]"),
            (anthropic, {"role": "wizard", "content": "x"}, "messages[1].role"),
            (ollama, {"role": "wizard"}, "messages[1].role"),
        ):
            path, body = dialect()
            (body.get("messages") or body["input"]).append(message)
            response = await client.post(path, json=body)
            assert response.status_code == 400, message
            assert param in response.text


def test_a_long_history_is_not_judged_by_its_length():
    (messages,) = run(asked_with(chat(*[{"role": "user", "content": "a"}] * 5000)))
    assert len(messages) == 5001
