"""What editors, agents and scripts send is answered, in the way that each of them needs."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from engine.process.protocol import Generate
from engine.server.clients import Server, agents, client_setups
from tests.support.engine.asking import asking
from tests.support.engine.scripted_host import LOADED

DATA = Path(__file__).parents[2] / "data" / "clients"
TEMPLATES = DATA.parent / "templates"
FAMILIES = sorted(path.stem for path in TEMPLATES.glob("*.jinja"))
CLIENTS = sorted(path.stem for path in DATA.glob("*.json"))
assert FAMILIES
assert CLIENTS


def requests_of(client):
    return json.loads((DATA / f"{client}.json").read_text(encoding="utf-8"))


async def answered(client, *, target=LOADED.target):
    """The responses to all requests of a client, and what the engine was asked."""
    async with asking(target=target) as (http, host):
        responses = [
            await http.request(
                one["method"], one["path"], headers=one["headers"], json=one.get("body")
            )
            for one in requests_of(client)
        ]
        return responses, [command for command in host.taken if isinstance(command, Generate)]


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
async def test_tools_of_agents_can_be_given_to_every_family(family, tmp_path):
    shutil.copy(TEMPLATES / f"{family}.jinja", tmp_path / "chat_template.jinja")
    for client in ("claude_code", "codex", "zed"):
        responses, _ = await answered(client, target=str(tmp_path))
        assert {response.status_code for response in responses} == {200}, client


BEGINNING = ["system", "system", "user", "user", "user"]


async def test_codex_is_understood():
    """What it gets are cases of tests/data/dialects."""
    _, (_, first, later) = await answered("codex")
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


async def test_claude_code_is_understood():
    _, (*_, first, again, later) = await answered("claude_code")
    assert tools_of(first) == ["Bash", "Read", "Edit"]
    assert "billing" not in str(first.prompt)
    assert again.prompt == first.prompt
    roles = [message.role for message in later.prompt.messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user"]
    assert later.prompt.messages[:2] == first.prompt.messages
    assert first.prompt.messages[1].content.endswith("Available agents: general-purpose.")


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
