"""Files are read in a process of their own, folders as one document: what comes back, and what
becomes of that process.
"""

import os
import plistlib
import zipfile
import zlib
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest

from engine.documents import Document, Section, child
from engine.documents.folders import read_folder
from engine.documents.kinds import kind_of
from engine.documents.limits import Effort
from engine.documents.page_picture import AS_PNG
from engine.documents.picture import read_picture
from engine.documents.reading import Cancelled, normalize, page_picture, read_document
from engine.request import Picture
from models.errors import Problem
from tests.support.documents.messages import eml, webarchive
from tests.support.documents.office import docx, paragraph, run, xlsx
from tests.support.documents.pdfs import line, pdf, unicode_line, with_stream
from tests.support.documents.pictures import drawn, saved
from tests.support.documents.samples import OFFICE_SAMPLES, seen


def test_a_document_as_it_was_read(tmp_path, monkeypatch):
    """By a path that is relative and odd."""
    data = "Wi\u200bth h\u00adidden ones.\r\n".encode()
    monkeypatch.chdir(tmp_path)
    path = Path(os.fsdecode(b"-a\n\xff\xe2\x80\xae.txt"))
    path.write_bytes(data)
    assert read_document(path) == Document(
        "-a \ufffd.txt",
        "text",
        sha256(data).hexdigest(),
        (Section("lines", 1, "With hidden ones."),),
        hidden=2,
    )


def test_a_pdf_and_a_picture_of_its_page_and_a_problem_names_the_file(tmp_path):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(line("One."), "0 0 9 9 re f", line("A third page.", size=3)))
    document = read_document(path)
    assert [section.number for section in document.sections] == [1, 3]
    assert (document.without_text, document.faint) == ((2,), 11)
    picture = page_picture(path, 1, spans=[(0, 3), (3, 4)], width=500)
    assert (picture.width, [box.span for box in picture.boxes]) == (500, [0, 1])
    assert picture.png.startswith(b"\x89PNG")
    path.write_bytes(pdf("0 0 9 9 re f"))
    assert read_document(path, scans=True).without_text == (1,)
    (tmp_path / "b.pdf").write_bytes(pdf(unicode_line("\ue001\ue002 a")))
    with pytest.raises(Problem, match=r"^b\.pdf: No page has text.*fonts"):
        read_document(tmp_path / "b.pdf")
    with pytest.raises(Problem, match=r"^a\.pdf: The file has no page 7") as caught:
        page_picture(path, 7, spans=[], width=100)
    assert caught.value.remedy


def test_a_folder(tmp_path):
    (tmp_path / "a.py").write_text("pass")
    (tmp_path / "b.docx").write_bytes(OFFICE_SAMPLES["contract.docx"].data)
    reported = []
    document = read_document(tmp_path, progress=lambda read, of: reported.append((read, of)))
    assert (document.name, document.format) == (tmp_path.name, "folder")
    assert [section.label for section in document.sections][:2] == ["a.py", "b.docx > Contract"]
    assert reported == [(0, 2), (1, 2)]


UNREADABLE = (
    ("gone", None, "cannot be opened"),
    ("pipe", None, "neither a file nor a folder"),
    ("large", b"x" * 5_001, "larger than 5 KB"),
    ("a.txt", b"x" * 4_001, "more than 4 KB of text"),
    ("a.txt", b" \n", "empty"),
    ("a.txt", "\u200b".encode(), "no text"),
    ("a.bin", b"\1\0", "not text"),
    ("a.pdf", pdf(""), "no text"),
)


def test_what_cannot_be_read_is_a_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(child, "FILE_BYTES", 5_000)
    monkeypatch.setattr(child, "TEXT_BYTES", 4_000)
    os.mkfifo(tmp_path / "pipe")
    for name, data, said in UNREADABLE:
        if data is not None:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(Problem, match=said) as caught:
            child.read(tmp_path / name)
        assert caught.value.remedy


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


def test_a_picture_that_cannot_be_read_is_a_problem_and_leaves_nothing(tmp_path, monkeypatch):
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic")
    into = tmp_path / "pictures"
    into.mkdir()
    too_long = "picture: reading it took longer than 0.001 seconds."
    for source, seconds, said, remedy in (
        (tmp_path / "a.heic", 60, "a.heic: The picture is HEIC, which cannot be read.", AS_PNG),
        (b"", 0.001, too_long, AS_PNG),
    ):
        with pytest.raises(Problem) as caught:
            normalize(source, into, effort=Effort(seconds=seconds))
        assert (caught.value.message, caught.value.remedy) == (said, remedy)
    assert [*into.iterdir()] == []
    with pytest.raises(Problem, match="cannot be saved"):
        normalize(saved(drawn(), "PNG"), tmp_path / "gone")
    monkeypatch.setattr("sys.executable", str(tmp_path / "gone"))
    with pytest.raises(Problem, match=r"^a\.txt: its reader cannot start"):
        read_document(tmp_path / "a.txt")


# The tests of all tests see to it that no process is left.


def bursting():
    """A PDF of some 300 kilobytes that unpacks to 300 megabytes."""
    packer = zlib.compressobj(9)
    head, megabyte = packer.flush(zlib.Z_FULL_FLUSH), bytes(1_000_000)
    packed = [packer.compress(megabyte) + packer.flush(zlib.Z_FULL_FLUSH) for _ in "12"][-1]
    return with_stream(head + packed * 300, "/Filter /FlateDecode")


def test_a_file_that_takes_too_much_memory_is_a_problem_and_reading_can_be_cancelled(tmp_path):
    asked = iter([False, True])
    with pytest.raises(Cancelled):
        read_document(Path(__file__), cancelled=lambda: next(asked))
    (tmp_path / "a.pdf").write_bytes(bursting())
    with pytest.raises(Problem, match="more than 200 MB of memory"):
        read_document(tmp_path / "a.pdf", effort=Effort(memory_bytes=200_000_000))


# What kind of file it is, whatever it is called

NOTEBOOK = b'{"cells": [], "nbformat": 4}'


def zipped(*names):
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), b"x")  # of the same date always
    return made.getvalue()


def test_the_kind():
    for name, data, kind in (
        ("a.pdf", pdf(""), "pdf"),
        ("a.txt", pdf(""), "pdf"),
        ("a.pdf", b"\n\nmade by a printer\n" + pdf(""), "pdf"),
        ("notes.txt", b"A file begins with %PDF- where it is one.", "text"),
        ("a.bin", zipped("[Content_Types].xml", "word/document.xml"), "docx"),
        ("a.docx", zipped("[Content_Types].xml", "xl/workbook.xml"), "xlsx"),
        ("a", zipped("[Content_Types].xml", "ppt/presentation.xml"), "pptx"),
        ("a", zipped("mimetype", "META-INF/container.xml"), "epub"),
        ("a.txt", b"\xef\xbb\xbf \n<!DOCTYPE html><p>x", "html"),
        ("a", b"<HTML><body>x", "html"),
        ("a", b'<?xml version="1.0"?>\n<html xmlns="x">', "html"),
        ("a.ipynb", b"{}", "notebook"),
        ("a.json", NOTEBOOK, "notebook"),
        ("a.csv", b"a,b", "csv"),
        ("a.xls", b"<table><tr><td>x", "html"),
        ("a.txt", b"BMW builds cars, ID3 is one of Volkswagen's.", "text"),
        ("a.gif", b"GIF89a is only a text here.", "text"),
        ("a.eml", b"Subject: x\n\ny", "eml"),
        ("a", eml("x"), "eml"),
        ("a.txt", b"From: Ada\nTo: Ben\nSubject: no mail program wrote this\n\nHello", "text"),
        ("a", webarchive("<p>x"), "webarchive"),
        ("a", webarchive("<p>x", binary=False), "webarchive"),
        ("a.plist", plistlib.dumps({"a": 1}), "text"),
    ):
        assert kind_of(name, data) == kind


def test_what_cannot_be_read_is_named():
    for data, said in (
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "picture"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "picture"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "picture"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "Audio"),
        (b"\0\0\0\x18ftypM4A \0\0\0\0", "Audio"),
        (b"\x1a\x45\xdf\xa3\x01\0", "video"),
        (b"a.txt".ljust(257, b"\0") + b"ustar", "Archives"),
        (zipped("a.txt"), "Archives"),
        (zipped("mimetype", "content.xml"), "OpenDocument"),
        (zipped("Index/Document.iwa"), "Pages"),
        (zipped("[Content_Types].xml", "xl/workbook.bin"), "XLSB"),
        (zipped("[Content_Types].xml", "visio/document.xml"), "Visio"),
        (zipped("a.txt")[:40], "damaged"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "Old Office"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "password"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "__substg1.0_".encode("utf-16-le"), "Outlook"),
        (eml("x", headers={"Snapshot-Content-Location": "https://example.org/"}), "MHTML"),
        (b"{\\rtf1 Hello}", "RTF"),
        (b'<?xml?><Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet">', "Excel 2003"),
    ):
        with pytest.raises(Problem, match=said) as caught:
            kind_of("a.txt", data)
        assert caught.value.remedy
        assert (".jpg" in caught.value.remedy) == (said == "picture"), "a window needs the ending"
    with pytest.raises(Problem, match="MHTML"):
        kind_of("a.mht", b"<p>x")


# A folder as one document: what is read of it, what is left out, and that it is told


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
