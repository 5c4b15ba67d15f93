"""Commands on models, called in this process, with a hub on loopback and folders of the test's."""

import pytest
from huggingface_hub import constants

from tests.support.engine.repositories import NAME, two_files
from tests.support.models.hub_server import serving_hub


@pytest.fixture(autouse=True)
def surroundings(surroundings, tmp_path, monkeypatch):
    """The folder with home/, hub/ and person/, where all lies."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))  # for child processes
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    for name in ("HF_TOKEN", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    return tmp_path


@pytest.fixture(scope="session")
def repository(tmp_path_factory):
    """A tiny model with its weights in two files."""
    return two_files(tmp_path_factory.mktemp("repository"))


@pytest.fixture
def hub(repository, monkeypatch):
    """A hub with that model, for this process and its children."""
    with serving_hub({NAME: dict(repository)}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        yield server
