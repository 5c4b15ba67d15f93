"""What programs are told to use the server."""

import json
import shlex
import tomllib
from urllib.parse import urlsplit

import yaml

from engine.server.clients import client_setups

ADDRESS = "http://127.0.0.1:8737"
SETUPS = {
    setup.name: setup for setup in client_setups(ADDRESS, "tiny-4bit", key="sk-1", context=512)
}


def test_each_names_the_address_and_leaves_nothing_open() -> None:
    assert {"Zed", "Continue", "Aider", "Codex", "Claude Code", "Xcode"} == set(SETUPS)
    for setup in SETUPS.values():
        assert ADDRESS in setup.lines
        assert "@" not in setup.lines
        assert setup.where


def test_files_can_be_read() -> None:
    zed = json.loads("{" + SETUPS["Zed"].lines + "}")
    slipstream = zed["language_models"]["openai_compatible"]["Slipstream"]
    assert slipstream["api_url"] == ADDRESS + "/v1"
    assert slipstream["available_models"] == [{"name": "tiny-4bit", "max_tokens": 512}]
    (model,) = yaml.safe_load(SETUPS["Continue"].lines)["models"]
    assert (model["provider"], model["apiBase"]) == ("openai", ADDRESS + "/v1")
    codex = tomllib.loads(SETUPS["Codex"].lines)
    provider = codex["model_providers"][codex["model_provider"]]
    assert (provider["base_url"], provider["wire_api"]) == (ADDRESS + "/v1", "responses")


def test_commands_are_words() -> None:
    for name in ("Aider", "Claude Code"):
        words = shlex.split(SETUPS[name].lines)
        addresses = [word.rpartition("=")[2] for word in words if "http" in word]
        assert [urlsplit(address).port for address in addresses] == [8737]
