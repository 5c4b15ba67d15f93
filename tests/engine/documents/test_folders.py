"""A folder as one document: what is read of it, what is left out, and that it is told."""

import os
from pathlib import Path

import pytest

from engine.documents.folders import read_folder
from models.errors import Problem
from tests.support.documents.messages import eml
from tests.support.documents.office import docx, paragraph, run, xlsx
from tests.support.documents.pdfs import line, pdf
from tests.support.documents.samples import seen


def made(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def labels(folder):
    return [section.label for section in read_folder(folder)[0].sections]


def test_texts_are_read_with_their_paths_and_lines(tmp_path):
    code = "\n".join(f"line {number}" for number in range(1, 61))
    folder = made(tmp_path, {"b/c.py": code, "a.md": "# A\ntext", "b.txt": "", "z.txt": "last"})
    sections = read_folder(folder)[0].sections
    assert [section.place for section in sections] == [
        "a.md, line 1",
        "z.txt, line 1",
        "b/c.py, line 1",
        "b/c.py, line 41",
    ]
    assert sections[3].text.startswith("line 41\n")


def test_documents_are_read_as_they_are_elsewhere(tmp_path):
    plain = pdf(line("Printed."), "0 0 1 rg 10 10 50 50 re f").replace(b"\0", b"")
    plain += b"% " * 600_000  # a large document is not a large text
    files = {
        "a.pdf": plain,
        "b/b.docx": docx(paragraph(run("Scope"), style="H1") + paragraph(run("Written."))),
        "b/c.xlsx": xlsx(lambda workbook: workbook.active.append(["Counted."])),
        "d.eml": eml("Sent."),
        "locked.pdf": pdf(line("x"), encrypted=True),
        "n.ipynb": '{"cells": [{"source": "Run."}]}',
        "z.txt": "Typed.",
    }
    read, _ = read_folder(made(tmp_path, files))
    assert [(each.place, each.text.splitlines()[-1]) for each in read.sections] == [
        ("page 1, a.pdf", "Printed."),
        ("d.eml > Größe des Büros", "Sent."),
        ("cell 1, n.ipynb", "Run."),
        ("z.txt, line 1", "Typed."),
        ("b/b.docx > Scope", "Written."),
        ("sheet b/c.xlsx > Sheet", "Counted."),
    ]
    assert read.left_out == (
        "Without text: a.pdf, 2.",
        "The file is protected by a password: locked.pdf.",
    )


def test_no_document_is_begun_after_a_share_of_the_time_and_it_is_told(tmp_path):
    made(tmp_path, {"a.pdf": pdf(line("a")), "b.txt": "text"})
    reported = []
    read, _ = read_folder(
        tmp_path, seconds=0, progress=lambda read, of: reported.append((read, of))
    )
    assert seen(read) == (["text"], ("Not read in time: a.pdf.",))
    assert reported == [(0, 2), (1, 2)]


def test_what_git_ignores_is_left_out(tmp_path):
    files = {
        ".gitignore": "*",  # above the repository, which excludes more
        "one/.git/info/exclude": "secret.txt\n*.log\n",
        "one/.gitignore": "!kept.log\n*.tmp\n",
        "one/secret.txt": "x",
        "one/a.log": "x",
        "one/kept.log": "x",
        "one/src/secret.txt": "x",
        "one/src/a.tmp": "x",
        "one/src/a.py": "x",
    }
    made(tmp_path, files)
    assert labels(tmp_path / "one") == [".gitignore", "kept.log", "src/a.py"]
    assert labels(tmp_path / "one/src") == ["a.py"]
    files = {
        ".gitignore": "*.log\n/build/\nsecret.*\n!kept.log\n# a comment\n",
        "a.log": "x",
        "kept.log": "x",
        "build/a.txt": "x",
        "src/build/a.txt": "x",
        "src/.gitignore": "!secret.txt\n*.tmp\n",
        "src/secret.txt": "x",
        "src/secret.key": "x",
        "src/a.tmp": "x",
        "a.tmp": "x",
        "secret.txt": "x",
    }
    read, _ = read_folder(made(tmp_path / "two", files))
    assert [section.label for section in read.sections] == [
        *(".gitignore", "a.tmp", "kept.log"),
        *("src/.gitignore", "src/secret.txt", "src/build/a.txt"),
    ]
    assert read.left_out == (
        "Ignored by Git: a.log, build, secret.txt, src/a.tmp, src/secret.key.",
    )


def test_what_nobody_wrote_as_a_text_is_left_out(tmp_path):
    files = {
        "a.py": "x",
        "picture.png": b"\x89PNG\0",
        "late.bin": b"x" * 9000 + b"\0" * 50,
        "marked.txt": b"\xef\xbb\xbfa\xff",
        "uv.lock": "x",
        "package-lock.json": "{}",
        "large.csv": "a,b\n" * 300_000,
        ".git/config": "x",
        "node_modules/a.js": "x",
        "__pycache__/a.txt": "x",
    }
    read, _ = read_folder(made(tmp_path, files))
    assert [section.label for section in read.sections] == ["a.py", "marked.txt"]
    assert sorted(read.left_out) == [
        "1 invalid character of utf-8-sig, shown as \ufffd: marked.txt.",
        "Larger than 1 MB: large.csv.",
        "Lock files: package-lock.json, uv.lock.",
        "Not text: late.bin, picture.png.",
        "Tool folders: __pycache__, node_modules.",
    ]


def test_links_lead_nowhere_and_pipes_are_not_waited_for(tmp_path, monkeypatch):
    made(tmp_path, {"outside/secret.txt": "x", "folder/a.txt": "x"})
    folder = tmp_path / "folder"
    (folder / "file").symlink_to(tmp_path / "outside/secret.txt")
    (folder / "round").symlink_to(folder)
    (folder / "gone").symlink_to(tmp_path / "nothing")
    os.mkfifo(folder / "pipe")
    listed = Path.iterdir
    others = ("deleted since", "b" * 300)
    monkeypatch.setattr(Path, "iterdir", lambda path: [*listed(path), *map(path.joinpath, others)])
    read, _ = read_folder(folder)
    assert [section.label for section in read.sections] == ["a.txt"]
    assert read.left_out == (
        f"No permission to read: {others[1]}.",
        "Links: file, gone, round.",
        "Special files: pipe.",
    )


def test_the_digest_is_of_names_and_content(tmp_path):
    digests = set()
    for number, files in enumerate(({"a": "x"}, {"b": "x"}, {"a": "y"}, {"a": "x", "b": ""})):
        digests.add(read_folder(made(tmp_path / str(number), files))[1])
    assert len(digests) == 4
    assert read_folder(made(tmp_path / "again", {"a": "x"}))[1] in digests


def test_a_folder_without_texts_or_with_too_many_is_a_problem(tmp_path, monkeypatch):
    none = {"a.png": b"\0"} | {f"{number:02}.lock": "x" for number in range(30)}
    with pytest.raises(Problem, match=r"09\.lock and 20 more\. .*a\.png"):
        read_folder(made(tmp_path / "none", none))
    many = made(tmp_path / "many", {f"{number}.txt": "x" * 100 for number in range(5)})
    for limit, most, said in (("TEXT_BYTES", 400, "400 bytes"), ("FOLDER_ENTRIES", 4, "4 files")):
        monkeypatch.setattr(f"engine.documents.folders.{limit}", most)
        with pytest.raises(Problem, match=said):
            read_folder(many)
