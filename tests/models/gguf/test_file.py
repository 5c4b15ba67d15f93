"""Reading a header with and without its lists of strings."""

import pytest

from models.errors import Problem
from models.gguf.file import read_gguf
from tests.support.models.tiny_gguf import TOKENS, TinyGguf

LISTS = ("tokenizer.ggml.tokens", "tokenizer.ggml.merges")


@pytest.fixture
def path(tmp_path):
    TinyGguf().write(tmp_path / "a.gguf")
    return tmp_path / "a.gguf"


def test_all_else_is_read_the_same_without_lists_of_strings(path):
    whole, without = read_gguf(path), read_gguf(path, lists_of_strings=False)
    assert whole.metadata["tokenizer.ggml.tokens"] == TOKENS
    others = {key: value for key, value in whole.metadata.items() if key not in LISTS}
    assert without.metadata == others
    assert without.tensors == whole.tensors


@pytest.mark.parametrize("length", [1 << 20, (1 << 63) + 1, (1 << 64) - 9])
def test_a_string_that_is_passed_over_must_end_in_the_file(path, length):
    data = path.read_bytes()
    place = data.index(b"tokenizer.ggml.tokens") + len("tokenizer.ggml.tokens") + 4 + 4 + 8
    path.write_bytes(data[:place] + length.to_bytes(8, "little") + data[place + 8 :])
    with pytest.raises(Problem, match="ends inside"):
        read_gguf(path, lists_of_strings=False)
