"""What editors, agents and scripts send is answered, in the way that each of them needs."""

import json
from pathlib import Path

import pytest

from engine.process.protocol import Count, Generate
from tests.support.engine.asking import asking, events, run
from tests.support.engine.scripted_host import LOADED, script, told

DATA = Path(__file__).parents[2] / "data" / "clients"
TEMPLATES = DATA.parent / "templates"
FAMILIES = sorted(path.stem for path in TEMPLATES.glob("*.jinja"))
TEMPLATE = "{{ tools }} <tool_call>{...}</tool_call> <think></think>"
CLIENTS = sorted(path.stem for path in DATA.glob("*.json"))
assert FAMILIES
assert CLIENTS


def requests_of(client):
    found = json.loads((DATA / f"{client}.json").read_text(encoding="utf-8"))
    return found


async def send(client, request):
    return await client.request(
        request["method"],
        request["path"],
        headers=request["headers"],
        json=request.get("body"),
    )


def answered(client, play=told, *, target=LOADED.target):
    """The responses to all requests of a client, and what the engine was asked."""

    async def ask():
        async with asking(play, target=target) as (http, host):
            responses = [await send(http, request) for request in requests_of(client)]
            taken = [command for command in host.taken if isinstance(command, Generate)]
            return responses, taken

    return run(ask())


@pytest.fixture
def model(tmp_path):
    """The folder of a model that reasons and calls as Qwen3 does."""
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return str(tmp_path)


def calling(name, **arguments):
    """The model thinks, says something, and calls a tool."""
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    texts = ("<think>", "Hm", ".</think>", "So.")
    texts += ("<tool_call>", call[:30], call[30:], "</tool_call>")

    def play(command):
        return script(*texts, id=command.id, request=command.request)

    return play


def tools_of(command):
    tools = json.loads(command.prompt.tools or "[]")
    return [tool["function"]["name"] for tool in tools]


def test_every_request_is_answered():
    for client in CLIENTS:
        for request, response in zip(requests_of(client), answered(client)[0], strict=True):
            assert response.status_code == 200, response.text
            streamed = (request.get("body") or {}).get("stream")
            kind = response.headers["content-type"].partition(";")[0]
            assert kind == ("text/event-stream" if streamed else "application/json")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("client", ["claude_code", "codex", "zed"])
def test_tools_of_agents_can_be_given_to_every_family(client, family, tmp_path):
    template = (TEMPLATES / f"{family}.jinja").read_text(encoding="utf-8")
    (tmp_path / "chat_template.jinja").write_text(template, encoding="utf-8")
    responses, _ = answered(client, target=str(tmp_path))
    assert {response.status_code for response in responses} == {200}


BEGINNING = ["system", "system", "user", "user", "user"]


def test_codex_is_understood_and_gets_the_text_of_a_patch(model):
    patch = '*** Begin Patch\n*** Add File: a\n+"ä"\n*** End Patch\n'
    play = calling("apply_patch", input=patch)
    responses, (_, first, later) = answered("codex", play, target=model)
    # Tools that would run at OpenAI are left out; one that takes a text is a function of it.
    names = ["exec_command", "update_plan", "view_image", "apply_patch", "mcp__docs__lookup"]
    assert tools_of(first) == names
    taken = json.loads(first.prompt.tools)[3]["function"]["parameters"]["properties"]["input"]
    assert taken["description"].startswith("A text that matches this Lark grammar:\n")
    assert "Add File" in taken["description"]
    assert [message.role for message in first.prompt.messages] == BEGINNING
    roles = [message.role for message in later.prompt.messages]
    assert roles == [*BEGINNING, *("assistant", "tool") * 3]
    calls = [call for message in later.prompt.messages for call in message.tool_calls]
    assert [call.name for call in calls] == ["exec_command", "apply_patch", "mcp__docs__lookup"]
    assert json.loads(calls[1].arguments)["input"].startswith("*** Begin Patch\n")
    # What was read for the first request is the beginning of the second.
    assert later.prompt.messages[: len(BEGINNING)] == first.prompt.messages

    assert responses[1].json()["object"] == "response"
    found = events(responses[-1])
    items = [value["item"] for name, value in found if name == "response.output_item.done"]
    assert [item["type"] for item in items] == ["reasoning", "message", "custom_tool_call"]
    assert items[0]["content"][0]["text"] == "Hm."
    assert (items[2]["name"], items[2]["input"]) == ("apply_patch", patch)
    name, value = found[-1]
    assert (name, value["response"]["output"]) == ("response.completed", items)
    assert value["response"]["usage"]["total_tokens"] > 0


def test_codex_gets_the_tool_of_its_server_by_its_own_name(model):
    responses, _ = answered("codex", calling("mcp__docs__lookup", page="a"), target=model)
    item = events(responses[-1])[-1][1]["response"]["output"][-1]
    assert (item["type"], item["namespace"], item["name"]) == (
        "function_call",
        "mcp__docs__",
        "lookup",
    )
    assert json.loads(item["arguments"]) == {"page": "a"}


def test_claude_code_is_understood_and_gets_thinking_and_calls(model):
    play = calling("Bash", command="ls")
    responses, (*_, first, again, later) = answered("claude_code", play, target=model)
    assert tools_of(first) == ["Bash", "Read", "Edit"]
    assert "billing" not in str(first.prompt)
    assert again.prompt == first.prompt
    roles = [message.role for message in later.prompt.messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user"]
    assert later.prompt.messages[:2] == first.prompt.messages
    assert first.prompt.messages[1].content.endswith("Available agents: general-purpose.")

    found = [value for _, value in events(responses[-1])]
    starts = [value["content_block"] for value in found if value["type"] == "content_block_start"]
    assert [start["type"] for start in starts] == ["thinking", "text", "tool_use"]
    assert (starts[2]["name"], starts[2]["input"]) == ("Bash", {})
    deltas = [value["delta"] for value in found if value["type"] == "content_block_delta"]
    arguments = "".join(delta.get("partial_json", "") for delta in deltas)
    assert json.loads(arguments) == {"command": "ls"}
    assert found[-2]["delta"]["stop_reason"] == "tool_use"


async def test_claude_code_counts_what_it_would_send():
    async with asking() as (http, host):
        (count,) = [
            request for request in requests_of("claude_code") if "count_tokens" in request["path"]
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


def test_what_other_clients_send_is_understood():
    (command,) = answered("cline")[1]
    first = command.prompt.messages[1].content
    assert "<task>" in first
    assert "<environment_details>" in first
    assert [tools_of(command) for command in answered("xcode")[1]] == [[], []]
    _, edit, complete = answered("continue")[1]
    assert edit.request.prediction == "x = 1\n"
    assert len(complete.request.stops) == 7
