"""What programs are told to use the server."""

import json
import re
import shlex

import pytest
import yaml

from engine.server.clients import Server, agents, client_setups

ADDRESS = "http://127.0.0.1:8737"
SETUPS = {
    setup.name: setup for setup in client_setups(ADDRESS, "tiny-4bit", key="sk-1", context=512)
}


def test_each_names_the_address_and_leaves_nothing_open():
    in_a_terminal = {"Aider", "Codex", "Claude Code", "OpenCode", "Qwen Code"}
    assert {"Zed", "Continue", "Xcode", "Programs for Ollama"} | in_a_terminal == set(SETUPS)
    for setup in SETUPS.values():
        assert ADDRESS in setup.lines
        assert not re.search("@(address|model|key|context)", setup.lines)
        assert setup.where


def test_files_can_be_read():
    zed = json.loads("{" + SETUPS["Zed"].lines + "}")
    slipstream = zed["language_models"]["openai_compatible"]["Slipstream"]
    assert slipstream["api_url"] == ADDRESS + "/v1"
    assert slipstream["available_models"] == [{"name": "tiny-4bit", "max_tokens": 512}]
    (model,) = yaml.safe_load(SETUPS["Continue"].lines)["models"]
    assert (model["provider"], model["apiBase"]) == ("openai", ADDRESS + "/v1")


@pytest.mark.parametrize("program", ["claude", "codex", "opencode", "aider", "qwen"])
def test_the_lines_are_the_settings_of_the_agent(program):
    agent = agents(Server(ADDRESS, 'it\'s a "model"', "sk 1", 512))[program]
    variables = [f"{name}={value}" for name, value in agent.variables.items()]
    lines = agent.lines.replace("\\\n", "")
    assert shlex.split(lines) == [*variables, program, *agent.arguments]
    assert ADDRESS in lines
    assert program in agent.install


def test_settings_in_json_can_be_read():
    agent = agents(Server(ADDRESS, 'a "model"', "sk-1", 512))["opencode"]
    settings = json.loads(agent.variables["OPENCODE_CONFIG_CONTENT"])
    name, _, model = settings["model"].partition("/")
    provider = settings["provider"][name]
    assert provider["options"] == {"baseURL": ADDRESS + "/v1", "apiKey": "sk-1"}
    assert provider["models"] == {'a "model"': {"limit": {"context": 512, "output": 128}}}
    assert model == 'a "model"'
