"""Prompts come out of files as people have them; what cannot be read is said in one line."""

import codecs
import csv
import gzip
import io
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.distil.prompts import read_prompts
from models.errors import Problem

QUESTION = "How long is a piece of string?"
OTHER = "Why is the sky blue at noon?"
LONGEST = 4000


# In the shapes that public collections of prompts have, with both questions and no other.
SHAPES = sorted((Path(__file__).parents[2] / "data" / "prompts").iterdir())


def written(path, text):
    path.write_bytes(text.encode())
    return path


def test_a_shape_that_people_have(tmp_path):
    found = {}
    for shape in SHAPES:
        data = shape.read_bytes()
        wrapped = {
            shape.name: data,
            f"packed {shape.name}.gz": gzip.compress(data),
            f"marked {shape.name}": codecs.BOM_UTF8 + data,
        }
        for name, content in wrapped.items():
            (tmp_path / name).write_bytes(content)
            found[name] = sorted(read_prompts([tmp_path / name]))
    assert found == dict.fromkeys(found, sorted([QUESTION, OTHER]))


def test_an_instruction_with_what_it_is_about(tmp_path):
    tasks = [
        {"instruction": "Spell this correctly.", "input": "freind", "output": "friend"},
        {"instruction": "Say something nice.", "input": "  ", "output": "You are nice."},
    ]
    path = written(tmp_path / "rows.json", json.dumps(tasks))
    assert sorted(read_prompts([path])) == ["Say something nice.", "Spell this correctly.\nfreind"]


def test_any_text_survives_json_lines_and_csv(tmp_path):
    texts = [f"What is{separator}in here?" for separator in "\u2028\u2029\x85\v\f\x1c"]
    lines = [json.dumps({"prompt": text}, ensure_ascii=False) for text in texts]
    assert sorted(read_prompts([written(tmp_path / "a.jsonl", "\n".join(lines))])) == sorted(texts)
    texts += ['With "quotes", commas\nand lines']
    table = io.StringIO()
    endless = "x" * 2 * csv.field_size_limit()
    csv.writer(table).writerows([["act", "prompt"], *([endless, text] for text in texts)])
    assert sorted(read_prompts([written(tmp_path / "a.csv", table.getvalue())])) == sorted(texts)


def test_too_short_too_long_and_half_characters(tmp_path):
    texts = ["short", " " * 20, "x" * (LONGEST + 1), "a half: \ud83d", QUESTION, "x" * LONGEST]
    path = written(tmp_path / "a.json", json.dumps(texts))
    assert sorted(read_prompts([path])) == sorted([QUESTION, "x" * LONGEST])


def numbered(path, count):
    return written(path, "".join(f"prompt {path.name} {number}\n" for number in range(count)))


def test_files_take_turns(tmp_path):
    paths = [numbered(tmp_path / name, count) for name, count in (("a", 40), ("b", 3), ("c", 10))]
    prompts = read_prompts(paths)
    assert len(prompts) == 53
    names = "".join(prompt.split()[1] for prompt in prompts)
    assert names == "abc" * 3 + "ac" * 7 + "a" * 30
    paths.append(written(tmp_path / "d", "prompt a 1\n" * 2))
    assert sorted(read_prompts(paths)) == sorted(prompts), "what stands twice is asked once"


BROKEN = {
    "not UTF-8": ("a.txt", b"caf\xe9 in another encoding\n"),
    "UTF-16": ("a.txt", QUESTION.encode("utf-16")),
    "broken JSON": ("a.json", b'{"prompt": '),
    "a broken line": ("a.jsonl", b'{"prompt": "a sound one"}\n{"prompt": \n'),
    "deep JSON": ("a.json", b"[" * 100_000 + b"]" * 100_000),
    "a number too long": ("a.json", b"9" * 10_000),
    "not packed": ("a.jsonl.gz", b'{"prompt": "a sound one"}'),
    "packed and broken off": ("a.gz", gzip.compress(QUESTION.encode() * 99)[:-9]),
    "packed and changed": ("a.gz", gzip.compress(b"Some prompt\n" * 99)[:12] + b"\xff" * 40),
}


def test_what_cannot_be_read(tmp_path):
    for kind, (name, data) in BROKEN.items():
        path = tmp_path / f"{kind} {name}"
        path.write_bytes(data)
        with pytest.raises(Problem) as caught:
            read_prompts([path])
        assert str(path) in caught.value.message
        assert "\n" not in str(caught.value)


def test_no_file_and_no_prompt(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(Problem):
            read_prompts([path])
    empty = {
        "a.txt": "",
        "b.json": "{}",
        "c.json": "7",
        "d.jsonl": "\n \n",
        "e.csv": "act,answer\nThe first one,A long enough answer,more and more\n",
        "f.gz": "",
    }
    for name, text in empty.items():
        path = written(tmp_path / name, text)
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(b""))
        with pytest.raises(Problem):
            pytest.fail(f"{name} has {read_prompts([path, path])}")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["prompt", "turns", "messages", "conversations", "input", "role", "x"]),
            inner,
            max_size=4,
        )
    ),
)


@given(value=JSON_VALUES)
def test_any_json_is_read_or_refused(tmp_path_factory, value):
    path = written(tmp_path_factory.mktemp("any") / "a.jsonl", "\n".join([json.dumps(value)] * 2))
    with suppress(Problem):
        prompts = read_prompts([path])
        assert prompts
        assert all(prompt.encode() for prompt in prompts), "not Unicode"
