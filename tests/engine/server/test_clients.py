"""What editors, agents and scripts send is answered, in the way that each of them needs."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from engine.process.protocol import Count, Generate
from engine.server.clients import Server, agents, client_setups
from tests.support.engine.asking import asking, events
from tests.support.engine.scripted_host import LOADED, saying, told

DATA = Path(__file__).parents[2] / "data" / "clients"
TEMPLATES = DATA.parent / "templates"
FAMILIES = sorted(path.stem for path in TEMPLATES.glob("*.jinja"))
TEMPLATE = "{{ tools }} <tool_call>{...}</tool_call> <think></think>"
CLIENTS = sorted(path.stem for path in DATA.glob("*.json"))
assert FAMILIES
assert CLIENTS


def requests_of(client):
    return json.loads((DATA / f"{client}.json").read_text(encoding="utf-8"))


async def send(client, request):
    method, path, headers = (request[name] for name in ("method", "path", "headers"))
    return await client.request(method, path, headers=headers, json=request.get("body"))


async def answered(client, play=told, *, target=LOADED.target):
    """The responses to all requests of a client, and what the engine was asked."""
    async with asking(play, target=target) as (http, host):
        responses = [await send(http, request) for request in requests_of(client)]
        return responses, [command for command in host.taken if isinstance(command, Generate)]


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
    return saying(*texts)


def tools_of(command):
    tools = json.loads(command.prompt.tools or "[]")
    return [tool["function"]["name"] for tool in tools]


@pytest.mark.parametrize("client", CLIENTS)
async def test_every_request_is_answered(client):
    responses, _ = await answered(client)
    for request, response in zip(requests_of(client), responses, strict=True):
        assert response.status_code == 200, response.text
        streamed = (request.get("body") or {}).get("stream")
        kind = response.headers["content-type"].partition(";")[0]
        assert kind == ("text/event-stream" if streamed else "application/json")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("client", ["claude_code", "codex", "zed"])
async def test_tools_of_agents_can_be_given_to_every_family(client, family, tmp_path):
    template = (TEMPLATES / f"{family}.jinja").read_text(encoding="utf-8")
    (tmp_path / "chat_template.jinja").write_text(template, encoding="utf-8")
    responses, _ = await answered(client, target=str(tmp_path))
    assert {response.status_code for response in responses} == {200}


BEGINNING = ["system", "system", "user", "user", "user"]


async def test_codex_is_understood_and_gets_the_text_of_a_patch(model):
    patch = '*** Begin Patch\n*** Add File: a\n+"ä"\n*** End Patch\n'
    play = calling("apply_patch", input=patch)
    responses, (_, first, later) = await answered("codex", play, target=model)
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
    # The tool of a server has its own name again.
    play = calling("mcp__docs__lookup", page="a")
    responses, _ = await answered("codex", play, target=model)
    item = events(responses[-1])[-1][1]["response"]["output"][-1]
    called = {"type": "function_call", "namespace": "mcp__docs__", "name": "lookup"}
    assert item.items() >= called.items()
    assert json.loads(item["arguments"]) == {"page": "a"}


async def test_claude_code_is_understood_and_gets_thinking_and_calls(model):
    play = calling("Bash", command="ls")
    responses, (*_, first, again, later) = await answered("claude_code", play, target=model)
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
    (count,) = [one for one in requests_of("claude_code") if "count_tokens" in one["path"]]
    async with asking() as (http, host):
        response = await send(http, count)
        assert [*response.json()] == ["input_tokens"]
        body = count["body"] | {"max_tokens": 1}
        await send(http, count | {"path": "/v1/messages", "body": body})
        counted, asked = host.taken[-2:]
        assert (type(counted), type(asked)) == (Count, Generate)
        assert asked.prompt == counted.prompt


async def test_what_other_clients_send_is_understood():
    _, (command,) = await answered("cline")
    first = command.prompt.messages[1].content
    assert "<task>" in first
    assert "<environment_details>" in first
    assert [tools_of(command) for command in (await answered("xcode"))[1]] == [[], []]
    _, edit, complete = (await answered("continue"))[1]
    assert edit.request.prediction == "x = 1\n"
    assert len(complete.request.stops) == 7


# What programs are told to use the server

ADDRESS = "http://127.0.0.1:8737"
SETUPS = {
    setup.name: setup for setup in client_setups(ADDRESS, "tiny-4bit", key="sk-1", context=512)
}


def test_each_names_the_address_leaves_nothing_open_and_can_be_read():
    in_a_terminal = {"Aider", "Codex", "Claude Code", "OpenCode", "Qwen Code"}
    assert {"Zed", "Continue", "Xcode", "Programs for Ollama"} | in_a_terminal == set(SETUPS)
    for setup in SETUPS.values():
        assert ADDRESS in setup.lines
        assert not re.search("@(address|model|key|context)", setup.lines)
        assert setup.where
    zed = json.loads("{" + SETUPS["Zed"].lines + "}")
    slipstream = zed["language_models"]["openai_compatible"]["Slipstream"]
    assert slipstream["api_url"] == ADDRESS + "/v1"
    assert slipstream["available_models"] == [{"name": "tiny-4bit", "max_tokens": 512}]
    (model,) = yaml.safe_load(SETUPS["Continue"].lines)["models"]
    assert (model["provider"], model["apiBase"]) == ("openai", ADDRESS + "/v1")
    agent = agents(Server(ADDRESS, 'a "model"', "sk-1", 512))["opencode"]
    settings = json.loads(agent.variables["OPENCODE_CONFIG_CONTENT"])
    name, _, model = settings["model"].partition("/")
    assert model == 'a "model"'
    provider = settings["provider"][name]
    assert provider["options"] == {"baseURL": ADDRESS + "/v1", "apiKey": "sk-1"}
    assert provider["models"] == {model: {"limit": {"context": 512, "output": 128}}}


@pytest.mark.parametrize("program", ["claude", "codex", "opencode", "aider", "qwen"])
def test_the_lines_are_the_settings_of_the_agent(program):
    agent = agents(Server(ADDRESS, 'it\'s a "model"', "sk 1", 512))[program]
    variables = [f"{name}={value}" for name, value in agent.variables.items()]
    lines = agent.lines.replace("\\\n", "")
    assert shlex.split(lines) == [*variables, program, *agent.arguments]
    assert ADDRESS in lines
    assert program in agent.install
