"""Files are read in a process of their own: what comes back, and what becomes of that process."""

import os
import zlib
from hashlib import sha256
from pathlib import Path

import pytest

from engine.documents import Document, Section
from engine.documents.child import read_bytes
from engine.documents.limits import Effort
from engine.documents.picture import read_picture
from engine.documents.reading import Cancelled, normalize, page_picture, read_document
from engine.request import Picture
from models.errors import Problem
from tests.support.documents.office_samples import office_samples
from tests.support.documents.pdfs import line, pdf, with_stream
from tests.support.documents.pictures import drawn, saved
from tests.support.documents.samples import SAMPLES
from tests.support.mostly_slow import mostly_slow

FILES = {each.name: each.data for each in (*SAMPLES, *office_samples().values())}
NAMES = sorted({Path(name).suffix: name for name in FILES}.values())  # one of each kind


def test_a_document_as_it_was_read(tmp_path):
    data = "Wi\u200bth h\u00adidden ones.\r\n".encode()
    path = tmp_path / "a\u202e.txt"
    path.write_bytes(data)
    assert read_document(path) == Document(
        "a.txt",
        "text",
        sha256(data).hexdigest(),
        (Section("lines", 1, "With hidden ones."),),
        hidden=2,
    )


def test_a_pdf_and_a_picture_of_its_page(tmp_path):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(line("One."), "0 0 9 9 re f", line("A third page.", size=3)))
    document = read_document(path)
    assert [section.number for section in document.sections] == [1, 3]
    assert (document.without_text, document.faint) == ((2,), 11)
    picture = page_picture(path, 1, spans=[(0, 3), (3, 4)], width=500)
    assert (picture.width, [box.span for box in picture.boxes]) == (500, [0, 1])
    assert picture.png.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "name", mostly_slow(NAMES, quick=[n for n in NAMES if n.endswith(".docx")])
)
def test_every_format_is_read_there_as_it_is_here(tmp_path, name):
    (tmp_path / name).write_bytes(FILES[name])
    assert read_document(tmp_path / name) == read_bytes(name, FILES[name])


def test_a_folder(tmp_path):
    (tmp_path / "a.py").write_text("pass")
    (tmp_path / "b.docx").write_bytes(FILES["contract.docx"])
    reported = []
    document = read_document(tmp_path, progress=lambda read, of: reported.append((read, of)))
    assert (document.name, document.format) == (tmp_path.name, "folder")
    assert [section.label for section in document.sections][:2] == ["a.py", "b.docx > Contract"]
    assert reported == [(0, 2), (1, 2)]


def test_a_path_that_is_relative_and_odd(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path(os.fsdecode(b"-a\n\xff.txt"))
    path.write_text("text")
    assert read_document(path).name == "-a \ufffd.txt"


ENCRYPTED = ("a.pdf", pdf(line("x"), encrypted=True), "password")
UNREADABLE = [
    ENCRYPTED,
    ("a.pdf", pdf("0 0 9 9 re f"), "only pictures of pages, no text"),
    ("a.pdf", pdf(""), "no text"),
    ("a.txt", b" \n", "empty"),
    ("a.txt", "\u200b".encode(), "no text"),
    ("a.bin", b"\1\0", "not text"),
    ("a.txt", b"x" * 50_000_001, "more than 50 MB of text"),
]


@pytest.mark.parametrize(("name", "data", "said"), mostly_slow(UNREADABLE, quick=[ENCRYPTED]))
def test_what_cannot_be_read_is_a_problem_of_that_name(tmp_path, name, data, said):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(Problem, match=said) as caught:
        read_document(path)
    assert caught.value.message.startswith(f"{name}: ")
    assert caught.value.remedy


def test_what_is_no_file_or_too_large_or_has_no_such_page_is_a_problem(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "a.txt").open("wb") as file:
        file.truncate(200_000_001)
    for name, said in (("gone", "gone"), ("pipe", "pipe"), ("a.txt", "larger than 200 MB")):
        with pytest.raises(Problem, match=said):
            read_document(tmp_path / name)
    (tmp_path / "a.pdf").write_bytes(pdf(""))
    with pytest.raises(Problem, match="no page 7"):
        page_picture(tmp_path / "a.pdf", 7, spans=[], width=100)


def test_a_picture_is_written_anew_by_the_name_of_its_pixels(tmp_path):
    path, into = tmp_path / "a.jpeg", tmp_path / "pictures"
    into.mkdir()
    data = saved(drawn("CMYK"), "JPEG", comment=b"by Ada")
    path.write_bytes(data)
    picture = normalize(path, into)
    digest = sha256(b"48 32\n" + read_picture(data).rgb).hexdigest()
    assert picture == Picture(str(into / f"{digest}.png"), digest, 48, 32)
    assert normalize(data, into) == picture
    assert [each.name for each in into.iterdir()] == [f"{digest}.png"]
    written = Path(picture.path).read_bytes()
    assert b"Ada" not in written
    assert read_picture(written) == read_picture(data)


def test_a_picture_that_cannot_be_read_is_a_problem_and_leaves_nothing(tmp_path):
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic")
    into = tmp_path / "pictures"
    into.mkdir()
    for source, message in (
        (tmp_path / "a.heic", "a.heic: The picture is HEIC, which cannot be read."),
        (b"", "picture: The picture is empty."),
        (tmp_path / "gone", "gone: It cannot be opened: No such file or directory."),
    ):
        with pytest.raises(Problem) as caught:
            normalize(source, into)
        assert caught.value.message == message
        assert caught.value.remedy
    with pytest.raises(Problem, match="cannot be saved"):
        normalize(saved(drawn(), "PNG"), tmp_path / "gone")
    with pytest.raises(Problem, match=r"longer than 0\.001 seconds") as caught:
        normalize(saved(drawn(), "PNG"), into, effort=Effort(seconds=0.001))
    assert caught.value.remedy == "Save it as JPEG or PNG."
    assert [*into.iterdir()] == []


# The tests of all tests see to it that no process is left.


def bursting():
    """A PDF of some 300 kilobytes that unpacks to 300 megabytes."""
    return with_stream(zlib.compress(b" " * 300_000_000, 9), "/Filter /FlateDecode")


def test_a_file_that_takes_too_much_memory_or_time_is_a_problem(tmp_path):
    (tmp_path / "a.pdf").write_bytes(bursting())
    for effort, said in (
        (Effort(memory_bytes=200_000_000), "more than 200 MB of memory"),
        (Effort(seconds=0.001), r"longer than 0\.001 seconds"),
    ):
        with pytest.raises(Problem, match=said):
            read_document(tmp_path / "a.pdf", effort=effort)


def test_it_can_be_cancelled(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    asked = iter([False, True])
    with pytest.raises(Cancelled):
        read_document(tmp_path / "a.txt", cancelled=lambda: next(asked))
