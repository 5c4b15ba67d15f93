"""A tokenizer rebuilt from GGUF metadata gives the ids that the model's own tokenizer gives."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer
from transformers.integrations.gguf import GGUF_TOKENIZER_MAPPING, convert_gguf_tokenizer

from models.errors import Problem
from models.gguf.importing import import_gguf
from models.gguf.tokenizer import tokenizer_files
from models.token_tables import read_table
from tests.support.models.tiny_gguf import TOKENS, TinyGguf

DATA = Path(__file__).parents[1] / "data"
TEXTS = json.loads((DATA / "texts.json").read_text())
MORE_TEXTS = (
    "HTTPServer isn't camelCase'S 12345 a/b//\n/ Ünïcode'LL ÉÀb\u0301c",
    "a  b   c\n\nd",
    "def f():\n    return 1\n",
)
KINDS = ["smollm", "qwen2", "gpt-2", "sentencepiece"]


def fixture_metadata(kind):
    """Metadata with the cut-down table, the real id of each of its rows, the expected ids."""
    data = json.loads((DATA / f"tokenizer_{kind}.json").read_text())
    rows = list(data["tokens"].items())
    metadata = {
        "tokenizer.ggml.model": data["model"],
        "tokenizer.ggml.pre": data["pre"],
        "tokenizer.ggml.tokens": [token for token, _ in rows],
        "tokenizer.ggml.token_type": [row[1] for _, row in rows],
    }
    if "merges" in data:
        metadata["tokenizer.ggml.merges"] = data["merges"]
    else:
        metadata["tokenizer.ggml.scores"] = [row[2] for _, row in rows]
    return metadata, [row[0] for _, row in rows], data["expected"]


@pytest.mark.parametrize("kind", KINDS)
def test_ids_equal_those_of_the_real_tokenizer(kind):
    metadata, real_ids, expected = fixture_metadata(kind)
    tokenizer = Tokenizer.from_str(tokenizer_files(metadata)["tokenizer.json"])
    for text, ids in zip(TEXTS, expected, strict=True):
        found = [real_ids[i] for i in tokenizer.encode(text, add_special_tokens=False).ids]
        assert found == ids, text
        if kind in ("smollm", "gpt-2"):
            assert tokenizer.decode([*map(real_ids.index, ids)], skip_special_tokens=False) == text


@pytest.mark.parametrize("kind", KINDS)
def test_what_tokens_spell_is_what_the_library_decodes(kind, tmp_path):
    """Where a token is whole characters; of SentencePiece's texts the first space goes."""
    metadata, _, _ = fixture_metadata(kind)
    (tmp_path / "tokenizer.json").write_text(tokenizer_files(metadata)["tokenizer.json"])
    spelled = read_table(tmp_path).spelled
    library = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    texts = {i: library.decode([i], skip_special_tokens=False) for i in spelled}
    whole = {i: text for i, text in texts.items() if "\ufffd" not in text}
    assert len(whole) > 0.5 * len(texts)
    first = " " if kind == "sentencepiece" else ""
    assert {i: spelled[i].decode().removeprefix(first) for i in whole} == whole


def test_transformers_keeps_the_tokenizer_as_it_is(tmp_path):
    """Its tokenizer classes replace the pre-tokenizer of some model types; not of these."""
    metadata, real_ids, expected = fixture_metadata("qwen2")
    extra = {key: metadata[key] for key in metadata if key != "tokenizer.ggml.pre"} | {
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.eos_token_id": metadata["tokenizer.ggml.tokens"].index("<|im_end|>"),
        "tokenizer.ggml.bos_token_id": metadata["tokenizer.ggml.tokens"].index("<|endoftext|>"),
    }
    for architecture in ("qwen2", "llama"):
        source, folder = tmp_path / f"{architecture}.gguf", tmp_path / architecture
        TinyGguf(architecture, rows=len(real_ids), extra=extra).write(source)
        tokenizer = AutoTokenizer.from_pretrained(import_gguf(source, folder))
        for text, ids in zip(TEXTS, expected, strict=True):
            found = tokenizer.encode(text, add_special_tokens=False)
            assert [real_ids[i] for i in found] == ids, (architecture, text)


def test_llama3_splits_digits_by_three_and_takes_whole_words_first():
    digits = ["123", "456", "12", "45", "Ġword"]
    metadata = TinyGguf().metadata() | {
        "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.tokens": [*TOKENS, *digits],
        "tokenizer.ggml.token_type": [1] * (len(TOKENS) - 3) + [3] * 3 + [1] * len(digits),
        "tokenizer.ggml.merges": ["1 2", "12 3", "4 5", "45 6"],
    }
    tokenizer = Tokenizer.from_str(tokenizer_files(metadata)["tokenizer.json"])
    encoded = tokenizer.encode("1234567 word")
    assert encoded.tokens == ["<|im_start|>", "123", "456", "7", "Ġword"]


def of_transformers(metadata):
    """The tokenizer that transformers makes of the same metadata."""
    names = GGUF_TOKENIZER_MAPPING["tokenizer"]
    stated = {
        ours: metadata[f"tokenizer.{theirs}"]
        for theirs, ours in names.items()
        if f"tokenizer.{theirs}" in metadata
    }
    tokenizer, _ = convert_gguf_tokenizer(metadata["general.architecture"], stated)
    return tokenizer


@pytest.mark.parametrize(
    ("kind", "stated"),
    [
        *(("gpt-2", pre) for pre in ("llama-bpe", "lfm2", "dbrx", "tekken", "gpt-4o", "llama4")),
        *(("sentencepiece", architecture) for architecture in ("gemma3", "phi3")),
    ],
)
def test_texts_are_split_and_joined_as_by_transformers(kind, stated):
    metadata, _, _ = fixture_metadata(kind)
    if kind == "gpt-2":
        metadata |= {"tokenizer.ggml.pre": stated, "general.architecture": "llama"}
    else:
        metadata["general.architecture"] = stated
    if stated == "gemma3":  # its scores say nothing, and several spaces are written so
        tokens = metadata["tokenizer.ggml.tokens"]
        several = ["▁" * count for count in range(2, 20)]
        metadata["tokenizer.ggml.tokens"] = [
            " " * len(token) if token in several else token for token in tokens
        ]
        metadata["tokenizer.ggml.scores"] = [0.0] * len(tokens)
        metadata["tokenizer.ggml.add_space_prefix"] = False
    ours = Tokenizer.from_str(tokenizer_files(metadata)["tokenizer.json"])
    theirs = of_transformers(metadata)
    for text in [*TEXTS, *MORE_TEXTS]:
        ids = ours.encode(text, add_special_tokens=False).ids
        assert ids == theirs.encode(text, add_special_tokens=False).ids, text


def test_the_beginning_of_text_and_the_padding_of_the_table():
    for adds in (True, False):
        metadata = TinyGguf(extra={"tokenizer.ggml.add_bos_token": adds}).metadata()
        files = tokenizer_files(metadata)
        tokens = Tokenizer.from_str(files["tokenizer.json"]).encode("a").tokens
        assert tokens == (["<|im_start|>", "a"] if adds else ["a"])
        assert json.loads(files["tokenizer_config.json"])["add_bos_token"] is adds
    metadata["tokenizer.ggml.tokens"] = [*TOKENS, "[PAD0]", "[PAD0]"]  # which is not a token
    metadata["tokenizer.ggml.token_type"] = [*metadata["tokenizer.ggml.token_type"], 5, 5]
    tokenizer = Tokenizer.from_str(tokenizer_files(metadata)["tokenizer.json"])
    assert tokenizer.token_to_id("[PAD0]") is None
    assert tokenizer.get_vocab_size() == len(TOKENS)


def test_a_broken_tokenizer_is_a_problem(subtests):
    for change in [
        {"tokenizer.ggml.tokens": None},
        {"tokenizer.ggml.tokens": [*TOKENS[:-1], TOKENS[0]]},
        {"tokenizer.ggml.merges": None},
        {"tokenizer.ggml.merges": ["a zz"]},
        {"tokenizer.ggml.eos_token_id": -1},
    ]:
        with subtests.test(change=change), pytest.raises(Problem):
            tokenizer_files(TinyGguf().metadata() | change)
    pieces, _, _ = fixture_metadata("sentencepiece")
    for scores in (None, [0.5], "high"):
        with pytest.raises(Problem, match="its scores do not match its tokens"):
            tokenizer_files(pieces | {"tokenizer.ggml.scores": scores})
