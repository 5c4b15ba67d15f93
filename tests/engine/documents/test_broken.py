"""Broken files: each is read, or one Problem; nothing else, and none that is waited for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.documents.child import read_bytes
from models.errors import Problem
from tests.support.documents.office import epub, page, parts_of, zipped
from tests.support.documents.office_samples import office_samples
from tests.support.mostly_slow import mostly_slow

ROOT = Path(__file__).parents[3]
KINDS = (
    *("pdf", "text", "markdown", "csv", "notebook", "docx", "xlsx", "pptx", "epub", "html"),
    *("eml", "webarchive"),
    *("png", "jpeg", "webp", "gif", "bmp", "tiff"),
)


def test_each_is_read_or_a_problem():
    check(30, KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_of_many_is_read_or_a_problem(kind):
    check(3000, [kind])


def check(count, kinds):
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.documents.mutations", str(count), *kinds],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    came = json.loads(ended.stdout)
    assert [*came] == [*kinds]
    assert all(sum(each.values()) == count for each in came.values())
    assert all(each["read"] > count / 20 for each in came.values())


# Bombs in office files

SAMPLES = office_samples()
NAMES = ["contract.docx", "prices.xlsx", "talk.pptx", "novel.epub"]
ENTITIES = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
LAUGHS = f'<!DOCTYPE bomb [<!ENTITY l0 "ha">{ENTITIES}]>'.encode()
NEVER_READ = {"talk.pptx": {"[Content_Types].xml"}}
CASES = [
    (name, part)
    for name in NAMES
    for part in parts_of(SAMPLES[name].data)
    if part.endswith((".xml", ".rels", ".opf")) and part not in NEVER_READ.get(name, ())
]


def test_entities():
    for name, part in CASES:
        parts = parts_of(SAMPLES[name].data)
        declaration, end, root = parts[part].rpartition(b"?>")
        parts[part] = declaration + end + LAUGHS + root
        with pytest.raises(Problem, match="document type"):
            read_bytes(name, zipped(parts))
    chapter = page("&l9;").replace("<!DOCTYPE html>", LAUGHS.decode())
    with pytest.raises(Problem, match="entities"):
        read_bytes("a.epub", epub({"a.xhtml": chapter}))


@pytest.mark.parametrize("name", mostly_slow(NAMES, quick=["talk.pptx"]))
def test_a_part_of_zeros(name):
    parts = parts_of(SAMPLES[name].data)
    hit = next(
        part
        for part in parts
        if part.endswith(("document.xml", "book.xml", "sheet1.xml", "slide1.xml", "container.xml"))
    )
    parts[hit] = bytes(5_000_000)
    with pytest.raises(Problem, match="unpacks"):
        read_bytes(name, zipped(parts))
