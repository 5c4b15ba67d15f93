"""The tools that come along: nothing outside the folders is read, and no number is too large."""

import os
from contextlib import suppress
from datetime import datetime, timedelta
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


VALUES = {
    "2 * (3 + 4) ** 2": "98", "4711 * 1234": "5813374", "0.1 + 0.2": "0.3",
    "0.12345678901234567890 * 10": "1.234567890123456789", "1_000.5e3": "1000500", "1/8": "0.125",
    "1/3 + 2/3": "1", "2^10": "1024", "10**40": f"1{'0' * 40}", "3 × 4 ÷ 2": "6", "-7 // 2": "-4",
    "7 % 3": "1", "2 ** -2": "0.25",
    "123456789123456789 * 987654321": "121932631234567900112635269",
    "sqrt(16) + abs(-2) + max(1, 2, 3) + min(4)": "13", "sqrt(1/4) + (4/9) ** 0.5 * 3": "2.5",
    "floor(-0.5) + ceil(0.5) + sum(1, 2)": "3", "round(2/3, 3)": "0.667",
    "round(1250, -2)": "1300", "1,234*2 + -1,000,000.5": "-997532.5",
    "1'234 + 1\u202f000 + $2,000": "4234", "max(1,234)": "234",
    "round(2.5) + round(0.5) * 10": "13", "round(-2.5)": "-3", "round(1.005, 2)": "1.01",
    "1/3": "≈ 0.333333333333333333333333333333", "sqrt(2)": "≈ 1.41421356237309504880168872421",
    "sqrt(2) ** 2": "≈ 2", "pi": "≈ 3.14159265358979323846264338328",
    "2 ** 0.5": "≈ 1.41421356237309504880168872421",
    "pi * 10**50": "≈ 3.14159265358979323846264338328E+50",
}  # fmt: skip

REFUSED = (
    "9**9**9", "9**9**9**9", "2**-1000000", "10**12000", "2**(2**64)", "0.1**99999",
    "10**99999.5", "1e999999", "1e999999999", "(9**9999)*(9**9999)", "*".join(["(9**999)"] * 60),
    "round(1, 10**9)", "1/0", "0**-1", "5 % 0", "(-8)**0.5", "(-8)**0.3", "sqrt(-1)",
    "", " ", "(", "(" * 400, "1+" * 200, "1 2", "x", "a.b", "abs", "[1]*9",
    "'a'*9", "True", "None", "1j", "1 if 1 else 2", "lambda: 1", "(1,2)", "f'{1}'",
    "[1 for a in (1,)]", "1,23*2", "12,5*2", "1,2345", "1,234,56", "1,234'567",
    "__import__('os').system('x')", "print(1)", "pi(1)", "abs(x=1)", "abs(*(1,))", "abs()", "max()",
    "(1).real", "1 << 99999999", "~1", "1 < 2", "not 1", "x := 1", "1; 2", "\0", "1" * 501,
)  # fmt: skip


def test_expressions_have_their_values_or_are_refused():
    assert {expression: calculate(expression) for expression in VALUES} == VALUES
    accepted = {}
    for expression in REFUSED:
        with suppress(Problem):
            accepted[expression] = calculate(expression)
    assert not accepted
