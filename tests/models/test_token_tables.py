"""Token tables are compared by id; only what the drafter could propose must agree."""

import json
import os

import pytest

from models.errors import Problem
from models.model_folder import ModelFolder
from models.pairing import require_same_tokens
from models.token_tables import (
    TokenDifference,
    compare,
    read_table,
    same_file,
    shared_parts,
    shared_tokens,
)

WORDS = {"a": 0, "b": 1, "ab": 2}
MERGES = ["a b"]


def folder(path, vocabulary=WORDS, *, merges=MERGES, added=(), decoder=None):
    path.mkdir()
    model = {"type": "BPE", "vocab": vocabulary, "merges": merges}
    document = {"added_tokens": list(added), "model": model, "decoder": decoder}
    (path / "tokenizer.json").write_text(json.dumps(document))
    return path


def added(index, text):
    return {"id": index, "content": text, "special": True}


END = added(3, "<end>")


def test_the_first_difference_is_named_in_one_short_line(tmp_path, subtests):
    odd = {"\x1b[31m\u202e": 0, "b": 1, "ab": 2}
    for number, (target, drafter, difference) in enumerate([
        ({"added": [END]}, {"merges": [["a", "b"]], "added": [END]}, None),
        ({"added": [END, added(4, "<tool>")]}, {"added": [END]}, None),
        ({"added": [END]}, {"added": [END, added(4, "<tool>")]}, ("token", 4, None, "<tool>")),
        ({"added": [END, added(4, "x")]}, {"added": [added(3, "<stop>"), added(4, "y")]},
         ("token", 3, "<end>", "<stop>")),
        ({}, {"vocabulary": {"b": 0, "a": 1, "ab": 2}}, ("token", 0, "a", "b")),
        ({"added": [added(1, "B")]}, {}, ("token", 1, "B", "b")),
        ({"merges": ["a b", "b a"]}, {}, ("merge", 1, "b a", None)),
        ({"vocabulary": [["x", 0.0], ["y", -1.0]], "merges": None},
         {"vocabulary": [["x", 0.0], ["z", -1.0]], "merges": None}, ("token", 1, "y", "z")),
        ({"vocabulary": odd}, {"vocabulary": {"x" * 500: 0, "b": 1, "ab": 2}},
         ("token", 0, "\x1b[31m\u202e", "x" * 500)),
    ]):  # fmt: skip
        with subtests.test(target=target, drafter=drafter):
            big = folder(tmp_path / f"big{number}", **target)
            small = folder(tmp_path / f"small{number}", **drafter)
            found = compare(read_table(big), read_table(small))
            if difference is None:
                assert found is None
                require_same_tokens(ModelFolder(big), ModelFolder(small))
                continue
            assert found == TokenDifference(*difference)
            kind, place, *_ = difference
            with pytest.raises(Problem, match=f"{kind} {place} is ") as problem:
                require_same_tokens(ModelFolder(big), ModelFolder(small))
            assert problem.value.remedy
            assert problem.value.message.isprintable()
            assert len(problem.value.message) < 200


BYTE_LEVEL = {"type": "ByteLevel"}
SENTENCE_PIECE = {
    "type": "Sequence",
    "decoders": [{"type": "Replace"}, {"type": "ByteFallback"}, {"type": "Fuse"}],
}


def test_what_tokens_spell(tmp_path):
    words = {"Ġa": 0, "é": 1, "ab": 2, "ĉ": 3, "two words": 4}
    extra = [added(5, "<end>"), {"id": 6, "content": "<think>", "special": False}]
    table = read_table(folder(tmp_path / "b", words, added=extra, decoder=BYTE_LEVEL))
    assert table.special == {5}
    assert table.spelled == {
        0: b" a", 1: b"\xe9", 2: b"ab", 3: b"\t", 4: b"two words", 6: b"<think>",
    }  # fmt: skip
    pieces = {"▁a": 0, "é": 1, "<0x09>": 2, "▁▁": 3, "<0x9>": 4}
    table = read_table(folder(tmp_path / "s", pieces, decoder=SENTENCE_PIECE))
    assert table.spelled == {0: b" a", 1: "é".encode(), 2: b"\t", 3: b"  ", 4: b"<0x9>"}
    assert read_table(folder(tmp_path / "n")).spelled == {}, "where no decoder says how"


def test_tokens_are_shared_that_spell_the_same(tmp_path):
    words = {"Ġa": 0, "b": 1, "Ã©": 2, "ĉ": 3, "<s>": 4}
    pieces = {"<0x62>": 0, "<0x09>": 1, "é": 2, "b": 3, "▁a": 4, "▁": 5, "<s>": 6}
    ours = read_table(folder(tmp_path / "b", words, added=[added(4, "<s>")], decoder=BYTE_LEVEL))
    theirs = read_table(
        folder(tmp_path / "s", pieces, added=[added(6, "<s>")], decoder=SENTENCE_PIECE)
    )
    assert shared_tokens(ours.spelled, theirs.spelled) == {0: 4, 1: 3, 2: 2, 3: 1}
    assert shared_tokens(theirs.spelled, ours.spelled) == {4: 0, 3: 1, 2: 2, 1: 3}
    assert shared_parts(ours, theirs) == (1.0, 0.8)
    assert shared_parts(theirs, ours) == (0.8, 1.0)
    assert shared_parts(ours, read_table(folder(tmp_path / "n"))) == (0.0, 0.0)


def test_a_broken_tokenizer_is_a_problem(tmp_path, subtests):
    broken = folder(tmp_path / "broken")
    for text in [
        "",
        "{}",
        '{"model": {"vocab": [["a"]]}}',
        '{"model": {"vocab": {}, "merges": [3]}}',
        '{"model": {"vocab": {}}, "added_tokens": [{}]}',
        '{"model": {"vocab": {}}, "decoder": {"type": []}}',
        '{"model": {"vocab": {}}, "decoder": {"type": "Sequence", "decoders": [3]}}',
        None,  # no file
    ]:
        with subtests.test(text=text):
            (broken / "tokenizer.json").unlink(missing_ok=True)
            if text is not None:
                (broken / "tokenizer.json").write_text(text)
            with pytest.raises(Problem):
                read_table(broken)


def test_the_same_file_needs_no_reading(tmp_path):
    target, same = folder(tmp_path / "t"), folder(tmp_path / "s")
    other = folder(tmp_path / "o", {"b": 0, "a": 1, "ab": 2})  # as long, other content
    for place in (target, other):
        os.utime(place / "tokenizer.json", (1, 1))
    assert same_file(target, same)
    assert not same_file(target, other)
    (same / "tokenizer.json").unlink()
    assert not same_file(target, same)
