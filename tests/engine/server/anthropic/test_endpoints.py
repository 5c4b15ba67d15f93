"""/v1/messages and /v1/messages/count_tokens, over HTTP."""

import json
from typing import Any

import pytest

from engine.events import Failed
from engine.server import answers
from tests.support.engine.asking import asking, events, run
from tests.support.engine.scripted_host import script

BODY = {"model": "claude-x", "max_tokens": 100, "messages": [{"role": "user", "content": "a b"}]}


def saying(*texts: str, **how: Any) -> dict[str, Any]:
    """A body that has the scripted engine say this."""
    said = json.dumps({"say": texts, **how})
    return {**BODY, "messages": [{"role": "user", "content": said}]}


def test_a_message() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            response = await client.post("/v1/messages?beta=true", json=saying("Hel", "lo"))
            assert response.status_code == 200
            message = response.json()
            assert message["content"] == [{"type": "text", "text": "Hello"}]
            assert message["model"] == "tiny"  # that which answers, whatever was asked for
            assert message["id"].startswith("msg_")
            assert message["usage"]["output_tokens"] == 4

    run(ask())


def test_a_stream_is_named_events() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            response = await client.post("/v1/messages", json={**saying("Hi"), "stream": True})
            found = events(response)
            assert [name for name, _ in found] == [value["type"] for _, value in found]
            assert found[0][0] == "message_start"
            assert found[-1][0] == "message_stop"

    run(ask())


def test_a_stop_sequence_is_told() -> None:
    async def ask() -> None:
        def play(command: Any) -> Any:
            return script("a", id=command.id, cut="END.", request=command.request)

        async with asking(play) as (client, _):
            response = await client.post("/v1/messages", json={**BODY, "stop_sequences": ["END"]})
            message = response.json()
            assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "END")

    run(ask())


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_is_too_long_is_told_in_the_words_that_claude_code_knows(
    stream: bool,
) -> None:
    async def ask() -> None:
        def play(command: Any) -> Any:
            yield Failed(command.id, "It is too long.", "", "too long", 5000, 4096)

        async with asking(play) as (client, _):
            response = await client.post("/v1/messages", json={**BODY, "stream": stream})
            assert response.status_code == 400
            found = response.json()
            assert found["type"] == "error"
            assert found["error"] == {
                "type": "invalid_request_error",
                "message": "prompt is too long: 5000 tokens > 4096 maximum",
            }
            assert found["request_id"] == response.headers["request-id"]

    run(ask())


def test_a_failure_within_a_stream_is_an_event() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            body = {**saying("Hi", then="engine"), "stream": True}
            name, value = events(await client.post("/v1/messages", json=body))[-1]
            assert name == value["type"] == "error"
            assert value["error"]["type"] == "overloaded_error"
            whole = await client.post("/v1/messages", json=saying("Hi", then="engine"))
            assert whole.status_code == 503

    run(ask())


def test_pings_while_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "WAITING_SECONDS", 0.02)

    async def ask() -> None:
        async with asking() as (client, _):
            body = {**saying("Hi", delay=0.2), "stream": True}
            found = events(await client.post("/v1/messages", json=body))
            assert ("ping", {"type": "ping"}) in found

    run(ask())


def test_counting() -> None:
    async def ask() -> None:
        async with asking() as (client, host):
            body = {"model": "x", "system": "c", "messages": BODY["messages"]}
            response = await client.post("/v1/messages/count_tokens?beta=true", json=body)
            assert response.json() == {"input_tokens": 3}
            sent = host.taken[-1].prompt  # type: ignore[union-attr]
            await client.post("/v1/messages", json={**body, "max_tokens": 1})
            assert host.taken[-1].prompt == sent  # type: ignore[union-attr]

    run(ask())
