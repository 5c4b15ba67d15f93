"""For the engine's tests."""

from typing import Any

import pytest
from mlx_lm.tokenizer_utils import load as load_tokenizer

from tests.engine.tiny import byte_tokenizer

END = 256


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tokenizer")
    byte_tokenizer(folder)
    return load_tokenizer(folder, eos_token_ids=[END])
