"""What tests of several drafters begin with."""

import pytest

from engine.drafters.reencoding import Writing
from tests.support.engine.writings import single_bytes, stories, trained


@pytest.fixture(scope="session")
def writings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Writing]:
    """Three tokenizers that write the same text differently, by name."""
    root = tmp_path_factory.mktemp("writings")
    return {
        "bytes": single_bytes(root / "bytes"),
        "trained": trained(root / "trained"),
        "stories": stories(),
    }
