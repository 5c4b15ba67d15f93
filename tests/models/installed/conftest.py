"""The folders in which models are looked for."""

import pytest

from models.installed import store


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def nothing_shipped(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_SHIPPED", tmp_path / "shipped")
