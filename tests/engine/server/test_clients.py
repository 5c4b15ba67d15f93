"""What editors, agents and scripts send is answered, in the way that each of them needs."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from httpx2 import AsyncClient, Response

from engine.protocol import Count, Generate
from tests.support.engine.asking import asking, events, run

DATA = Path(__file__).parents[2] / "data" / "clients"
CLIENTS = sorted(path.stem for path in DATA.glob("*.json"))


def requests_of(client: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DATA / f"{client}.json").read_text(encoding="utf-8"))
    return found


async def send(client: AsyncClient, request: dict[str, Any]) -> Response:
    return await client.request(
        request["method"],
        request["path"],
        headers=request["headers"],
        json=request.get("body"),
    )


def answered(client: str) -> tuple[list[Response], list[Generate]]:
    """The responses to all requests of a client, and what the engine was asked."""

    async def ask() -> tuple[list[Response], list[Generate]]:
        async with asking() as (http, host):
            responses = [await send(http, request) for request in requests_of(client)]
            taken = [command for command in host.taken if isinstance(command, Generate)]
            return responses, taken

    return run(ask())


def tools_of(command: Generate) -> list[str]:
    tools = json.loads(command.prompt.tools or "[]")
    return [tool["function"]["name"] for tool in tools]


def chunks_of(response: Response) -> list[dict[str, Any]]:
    """Of a streamed chat completion, which says that it is over."""
    *chunks, (_, last) = events(response)
    assert last == "[DONE]"
    return [chunk for _, chunk in chunks]


@pytest.mark.parametrize("client", CLIENTS)
def test_every_request_is_answered(client: str) -> None:
    for request, response in zip(requests_of(client), answered(client)[0], strict=True):
        assert response.status_code == 200, response.text
        streamed = (request.get("body") or {}).get("stream")
        kind = response.headers["content-type"].partition(";")[0]
        assert kind == ("text/event-stream" if streamed else "application/json")


def test_codex_gets_its_events_to_the_end() -> None:
    probe, *streams = answered("codex")[0][1:]
    assert probe.json()["object"] == "response"
    for stream in streams:
        found = events(stream)
        done = [value["item"] for name, value in found if name == "response.output_item.done"]
        assert [item["type"] for item in done] == ["message"]
        name, value = found[-1]
        assert name == "response.completed"
        assert value["response"]["usage"]["total_tokens"] > 0


def test_codex_is_understood() -> None:
    _, first, later = answered("codex")[1]
    # Tools that would run at OpenAI are left out; one that takes a text is a function of it.
    names = ["exec_command", "update_plan", "view_image", "apply_patch", "mcp__docs__lookup"]
    assert tools_of(first) == names
    assert [message.role for message in first.prompt.messages] == ["system", "user"]
    roles = [message.role for message in later.prompt.messages]
    assert roles == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]
    calls = [call for message in later.prompt.messages for call in message.tool_calls]
    assert [call.name for call in calls] == ["exec_command", "apply_patch", "mcp__docs__lookup"]
    assert json.loads(calls[1].arguments)["input"].startswith("*** Begin Patch\n")
    # What was read for the first request is the beginning of the second.
    assert later.prompt.messages[:2] == first.prompt.messages


def test_claude_code_is_understood() -> None:
    *_, first, again, later = answered("claude_code")[1]
    assert tools_of(first) == ["Bash", "Read", "Edit"]
    assert "billing" not in str(first.prompt)
    assert again.prompt == first.prompt
    roles = [message.role for message in later.prompt.messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user"]
    assert later.prompt.messages[:2] == first.prompt.messages
    assert first.prompt.messages[1].content.endswith("Available agents: general-purpose.")


def test_claude_code_counts_what_it_would_send() -> None:
    async def ask() -> None:
        async with asking() as (http, host):
            (count,) = [
                request
                for request in requests_of("claude_code")
                if "count_tokens" in request["path"]
            ]
            response = await send(http, count)
            assert [*response.json()] == ["input_tokens"]
            counted = host.taken[-1]
            assert isinstance(counted, Count)
            await send(
                http, {**count, "path": "/v1/messages", "body": {**count["body"], "max_tokens": 1}}
            )
            asked = host.taken[-1]
            assert isinstance(asked, Generate)
            assert asked.prompt == counted.prompt

    run(ask())


@pytest.mark.parametrize(
    "client", ["aider", "cline", "continue", "llm", "openwebui", "xcode", "zed"]
)
def test_a_stream_ends_with_its_usage(client: str) -> None:
    responses, _ = answered(client)
    asked = [
        response
        for request, response in zip(requests_of(client), responses, strict=True)
        if (request.get("body") or {}).get("stream_options")
    ]
    assert asked
    for response in asked:
        *chunks, last = chunks_of(response)
        assert last["choices"] == []
        assert last["usage"]["total_tokens"] > 0
        assert all(chunk["usage"] is None for chunk in chunks)


def test_parts_of_a_message_are_its_text() -> None:
    (command,) = answered("cline")[1]
    first = command.prompt.messages[1].content
    assert "<task>" in first
    assert "<environment_details>" in first


def test_an_empty_list_of_tools_is_none() -> None:
    assert [tools_of(command) for command in answered("xcode")[1]] == [[], []]


def test_a_prediction_and_many_stops_of_continue() -> None:
    _, edit, complete = answered("continue")[1]
    assert edit.request.prediction == "x = 1\n"
    assert len(complete.request.stops) == 7


def test_open_web_ui_asks_for_a_title_beside_the_answer() -> None:
    async def ask() -> None:
        async with asking() as (http, _):
            chats = [request for request in requests_of("openwebui") if request["method"] == "POST"]
            responses = await asyncio.gather(*(send(http, request) for request in chats))
            assert [response.status_code for response in responses] == [200, 200]

    run(ask())


def test_null_is_as_good_as_nothing_to_litellm() -> None:
    (request,) = requests_of("litellm")
    bare = {name: value for name, value in request["body"].items() if value is not None}

    async def ask() -> None:
        async with asking() as (http, host):
            for body in (request["body"], bare):
                await send(http, {**request, "body": body})
            first, second = (command for command in host.taken if isinstance(command, Generate))
            assert (first.prompt, first.request) == (second.prompt, second.request)

    run(ask())
