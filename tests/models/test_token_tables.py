"""Token tables are compared by id; only what the drafter could propose must agree."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import Problem
from models.model_folder import ModelFolder
from models.pairing import require_same_tokens
from models.token_tables import (
    TokenDifference,
    TokenTable,
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


def first_difference(target, drafter):
    return compare(read_table(target), read_table(drafter))


def require_same(target, drafter):
    require_same_tokens(ModelFolder(target), ModelFolder(drafter))


def added(index, text):
    return {"id": index, "content": text, "special": True}


END = added(3, "<end>")


@pytest.mark.parametrize(
    ("target", "drafter", "difference"),
    [
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
    ],
)  # fmt: skip
def test_the_first_difference_is_named(tmp_path, target, drafter, difference):
    target, drafter = folder(tmp_path / "big", **target), folder(tmp_path / "small", **drafter)
    if difference is None:
        assert first_difference(target, drafter) is None
        require_same(target, drafter)
        return
    kind, place, ours, theirs = difference
    assert first_difference(target, drafter) == TokenDifference(kind, place, ours, theirs)
    words = [f"{text!r}" if text else "nothing" for text in (ours, theirs)]
    said = f"{kind} {place} is {words[0]} in big and {words[1]} in small"
    with pytest.raises(Problem, match=said) as problem:
        require_same(target, drafter)
    assert problem.value.remedy


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
    target, drafter = folder(tmp_path / "t"), folder(tmp_path / "d")
    for text in [
        "",
        "[]",
        "{}",
        '{"model": 3}',
        '{"model": {"vocab": 3}}',
        '{"model": {"vocab": {"a": "b"}}}',
        '{"model": {"vocab": {"a": []}}}',
        '{"model": {"vocab": [["a"]]}}',
        '{"model": {"vocab": [[1, 2]]}}',
        '{"model": {"vocab": {}, "merges": [3]}}',
        '{"model": {"vocab": {}}, "added_tokens": [{}]}',
        '{"model": {"vocab": {}}, "added_tokens": 3}',
        '{"model": {"vocab": {}}, "decoder": 3}',
        '{"model": {"vocab": {}}, "decoder": {"type": []}}',
        '{"model": {"vocab": {}}, "decoder": {"type": "Sequence", "decoders": [3]}}',
    ]:
        with subtests.test(text=text):
            (drafter / "tokenizer.json").write_text(text)
            with pytest.raises(Problem):
                first_difference(target, drafter)
    (drafter / "tokenizer.json").unlink()
    with pytest.raises(Problem):
        first_difference(target, drafter)


@given(
    ours=st.dictionaries(st.integers(0, 9), st.sampled_from("abc"), max_size=6),
    theirs=st.dictionaries(st.integers(0, 9), st.sampled_from("abc"), max_size=6),
)
def test_none_means_that_every_id_the_drafter_has_means_the_same(ours, theirs):
    difference = compare(TokenTable(ours, []), TokenTable(theirs, []))
    wrong = [index for index in theirs if ours.get(index) != theirs[index]]
    assert (difference is None) == (not wrong)
    if difference is not None:
        assert difference.index == min(wrong)


def test_long_and_odd_tokens_are_shown_in_one_short_line(tmp_path):
    target = folder(tmp_path / "t", {"\x1b[31m\u202e": 0, "b": 1, "ab": 2})
    drafter = folder(tmp_path / "d", {"x" * 500: 0, "b": 1, "ab": 2})
    with pytest.raises(Problem) as problem:
        require_same(target, drafter)
    assert problem.value.message.isprintable()
    assert len(problem.value.message) < 200


def test_the_same_file_needs_no_reading(tmp_path):
    target, drafter = folder(tmp_path / "t"), folder(tmp_path / "d")
    assert same_file(target, drafter)
    other = folder(tmp_path / "o", {"b": 0, "a": 1, "ab": 2})  # as long, other content
    for place in (target, other):
        os.utime(place / "tokenizer.json", (1, 1))
    assert not same_file(target, other)
    (drafter / "tokenizer.json").unlink()
    assert not same_file(target, drafter)
