"""The folders in which models are looked for."""

import pytest


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"
