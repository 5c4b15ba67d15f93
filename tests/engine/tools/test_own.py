"""The tools that come along: nothing outside the folders is read, and no number is too large."""

import os
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from engine.tools.calculator import calculate
from engine.tools.own import Shared, today
from engine.tools.results import LONGEST_RESULT_BYTES
from models.errors import Problem
from tests.support.documents.pdfs import line, pdf


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "shared"
    (folder / "sub").mkdir(parents=True)
    (folder / "notes.md").write_text("# Notes\n\nGrüße")
    (folder / "sub" / "b.txt").write_text("inside")
    (folder / "empty.txt").touch()
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "shared-too").mkdir()
    (tmp_path / "shared-too" / "c.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "linked").symlink_to(tmp_path / "shared-too")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "good-link").symlink_to(folder / "sub" / "b.txt")
    (folder / "binary").write_bytes(b"\0\1\2" * 100)
    os.mkfifo(folder / "pipe")
    return folder


def test_files_are_read_by_whole_and_by_relative_paths(folder):
    shared = Shared((str(folder),))
    for path in ("notes.md", str(folder / "notes.md"), "sub/../notes.md"):
        assert shared.read(path) == "# Notes\n\nGrüße"
    assert shared.read("good-link") == shared.read("sub/b.txt") == "inside"
    assert shared.read("empty.txt") == "The file is empty."
    for path in ("binary", "pipe", "sub"):  # which is not waited for
        with pytest.raises(Problem):
            shared.read(path)
    (folder / "a.pdf").write_bytes(pdf(line("Signed by Ada")))
    assert shared.read("a.pdf") == "[page 1]\nSigned by Ada"
    assert shared.read("a.pdf", cancelled=lambda: True) == ""
    (folder / "long.txt").write_text("x" + "é" * (1 << 20))
    text = shared.read("long.txt")  # cut between two characters
    assert text.startswith("xé")
    assert text.endswith("é\n(the first 1.00 MB)")
    assert len(text.encode()) <= LONGEST_RESULT_BYTES


def test_nothing_outside_the_folders_is_read_or_listed(folder):
    assert "No folder" in Shared(()).list("")
    for path in ("/", "", "."):
        with pytest.raises(Problem):
            Shared(()).read(path)
    shared = Shared((str(folder),))
    for path in (
        "../secret.txt", "link.txt", "linked/c.txt", "sub/../../secret.txt", "/etc/passwd", "~",
        str(folder.parent / "secret.txt"), f"{folder}-too/c.txt", "linked", "..", "loop", "\0",
        "x" * 5000, str(folder) + "/../shared-too/c.txt",
    ):  # fmt: skip
        for tool in (shared.read, shared.list):
            with pytest.raises(Problem) as caught:
                tool(path)
            assert "not in a shared folder" in caught.value.message, path


def test_folders_are_listed_with_sizes_and_within_a_limit(folder):
    shared = Shared((str(folder),))
    assert shared.list("") == f"{folder}/"
    lines = shared.list(str(folder)).split("\n")
    assert f"{folder}/sub/" in lines
    assert f"{folder}/sub/b.txt (6 bytes)" == shared.list("sub")
    assert f"{folder}/link.txt (a link)" in lines
    for number in range(600):
        (folder / "sub" / f"{number}").touch()
    assert len(shared.list("sub").split("\n")) == 501


def test_today_has_the_weekday_and_the_zone():
    now = datetime.now(ZoneInfo("Asia/Tokyo"))
    text = today("Asia/Tokyo")
    assert any(
        f"{day:%A, %d %B %Y}" in text for day in (now, now + timedelta(minutes=1))
    )  # at midnight
    assert "UTC+09:00" in text
    assert "UTC" in today("")
    for zone in ("Mars/Base", "../etc/passwd", "/etc/passwd", "\0"):
        with pytest.raises(Problem):
            today(zone)


KEPT = Path(__file__).parents[2] / "data" / "expressions.txt"
TOO_MUCH = ("*".join(["(9**999)"] * 60), "(" * 400, "1+" * 200, "\0", "1" * 501)


def test_expressions_have_their_values_or_are_refused():
    lines = KEPT.read_text(encoding="utf-8").splitlines()
    expected = dict(line.split(" => ") for line in lines) | dict.fromkeys(TOO_MUCH, "refused")
    found = dict.fromkeys(expected, "refused")
    for expression in expected:
        with suppress(Problem):
            found[expression] = calculate(expression)
    assert found == expected
