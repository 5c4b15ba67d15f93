"""/v1/responses, over HTTP."""

import json
from typing import Any

import pytest

from engine.events import Failed
from engine.server import answers
from tests.support.engine.asking import asking, events, run


def saying(*texts: str, **how: Any) -> dict[str, Any]:
    """A body that has the scripted engine say this."""
    return {"model": "gpt-x", "input": json.dumps({"say": texts, **how})}


def test_a_response() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            response = await client.post("/v1/responses", json=saying("Hel", "lo"))
            assert response.status_code == 200
            found = response.json()
            assert found["object"] == "response"
            assert found["status"] == "completed"
            assert found["output"][0]["content"][0]["text"] == "Hello"
            assert found["model"] == "tiny"  # that which answers, whatever was asked for
            assert found["store"] is False

    run(ask())


def test_a_stream_is_named_and_numbered_events() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            response = await client.post("/v1/responses", json={**saying("Hi"), "stream": True})
            found = events(response)
            assert [name for name, _ in found] == [value["type"] for _, value in found]
            assert [value["sequence_number"] for _, value in found] == [*range(len(found))]
            assert found[-1][0] == "response.completed"
            assert found[-1][1]["response"]["output"][0]["content"][0]["text"] == "Hi"

    run(ask())


def too_long(command: Any) -> Any:
    yield Failed(command.id, "It is too long.", "", "too long", 5000, 4096)


def test_codex_learns_in_the_stream_that_its_conversation_is_too_long() -> None:
    async def ask() -> None:
        async with asking(too_long) as (client, _):
            body = {"model": "x", "input": "Hi"}
            whole = await client.post("/v1/responses", json=body)
            assert whole.status_code == 400
            assert whole.json()["error"]["code"] == "context_length_exceeded"
            stream = await client.post("/v1/responses", json={**body, "stream": True})
            name, value = events(stream)[-1]
            assert name == "response.failed"
            assert value["response"]["error"]["code"] == "context_length_exceeded"

    run(ask())


def test_a_failure_within_a_stream_is_an_event() -> None:
    async def ask() -> None:
        async with asking() as (client, _):
            body = {**saying("Hi", then="engine"), "stream": True}
            name, value = events(await client.post("/v1/responses", json=body))[-1]
            assert name == "response.failed"
            assert value["response"]["status"] == "failed"
            assert value["response"]["output"][0]["content"][0]["text"] == "Hi"

    run(ask())


def test_the_response_is_in_progress_while_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "WAITING_SECONDS", 0.02)

    async def ask() -> None:
        async with asking() as (client, _):
            body = {**saying("Hi", delay=0.2), "stream": True}
            found = [name for name, _ in events(await client.post("/v1/responses", json=body))]
            assert found.count("response.in_progress") > 1

    run(ask())
