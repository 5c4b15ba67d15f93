"""What tests of several drafters begin with."""

from unittest import mock

import pytest

from tests.support.engine.writings import single_bytes, stories, trained


@pytest.fixture(scope="session")
def writings(tmp_path_factory):
    """Three tokenizers that write the same text differently, by name."""
    root = tmp_path_factory.mktemp("writings")
    return {
        "bytes": single_bytes(root / "bytes"),
        "trained": trained(root / "trained"),
        "stories": stories(),
    }


@pytest.fixture(scope="module", autouse=True)
def as_published():
    """Networks hold the weights that a test gave them, unless it says in how many bits."""
    with mock.patch("models.drafters.folders.USUAL", 16):
        yield
