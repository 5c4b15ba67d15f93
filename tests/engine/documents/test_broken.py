"""Broken files, and files that are meant to harm: each is read, or one Problem; nothing else, and
none that is waited for."""

import json
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_LZMA, ZipFile

import pytest

from engine.documents import zips
from engine.documents.books import read_epub
from engine.documents.child import read_bytes
from engine.documents.limits import ZIP_BYTES, ZIP_MEMBERS
from engine.documents.notebook import read_notebook
from engine.documents.slides import read_pptx
from engine.documents.web import read_webarchive
from engine.documents.word import read_docx
from engine.documents.zips import Archive
from models.errors import Problem
from tests.support.documents.office import (
    docx,
    epub,
    page,
    paragraph,
    parts_of,
    pptx,
    run,
    slide,
    zipped,
)
from tests.support.documents.samples import OFFICE_SAMPLES

ROOT = Path(__file__).parents[3]
KINDS = (
    *("pdf", "text", "markdown", "csv", "notebook", "docx", "xlsx", "pptx", "epub", "html"),
    *("eml", "webarchive"),
    *("png", "jpeg", "webp", "gif", "bmp", "tiff"),
)


def test_each_is_read_or_a_problem():
    check(16, KINDS)


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


LAUGHS = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>'


def in_directory(data, offset, value):
    """What the zip says of its first member, changed."""
    place = data.index(b"PK\x01\x02") + offset
    return data[:place] + value + data[place + len(value) :]


def read_xml(xml):
    return Archive(zipped({"a.xml": xml})).xml("a.xml").text


def copy_of_xml(xml):
    return Archive(zipped({"a.xml": xml})).only_xml()


OF_A_TYPE = (
    f"{LAUGHS}<a>&c;</a>",
    f"<!-- a -->\n<?a b?>{LAUGHS}<a/>",
    '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
    "<!DOCTYPE a><a/>",
    f"{LAUGHS}<a/>".encode("utf-16"),
)
REFUSED = (
    (read_xml, ("", "<a>", "text", "<a>&b;</a>", '<?xml encoding="x"?><a/>', *OF_A_TYPE)),
    (copy_of_xml, OF_A_TYPE),
    (
        Archive,
        (
            b"",
            b"PK\3\4" + bytes(100),
            zipped({"a": "b"})[:-10],
            zipped({f"{number}": "" for number in range(ZIP_MEMBERS + 1)}),
            in_directory(zipped({"a": "b"}), 24, (ZIP_BYTES + 1).to_bytes(4, "little")),
            in_directory(zipped({"a": "b"}), 8, b"\1\0"),
            zipped({"../a": "b"}),
            zipped({"a/../../b": "c"}),
            zipped({"a\\..\\b": "c"}),
            zipped({"/etc/a": "b"}),
            zipped({"C:a": "b"}),
        ),
    ),
    (
        read_docx,
        (
            b"no zip",
            zipped({"word/document.xml": "<a/>"}),
            zipped({"[Content_Types].xml": "<a/>", "word/other.xml": "<a/>"}),
            docx("<w:p>" * 5000 + "</w:p>" * 5000),
            docx(paragraph(run("a")), parts={"word/footnotes.xml": "<a"}),
        ),
    ),
    (
        read_pptx,
        (
            b"no zip",
            zipped({"ppt/presentation.xml": "<a/>"}),
            pptx([slide()], order=[2]),
            pptx([slide("<p:grpSp>" * 5000 + "</p:grpSp>" * 5000)]),
            pptx(["no XML"]),
        ),
    ),
    (
        read_epub,
        (
            b"no zip",
            zipped({"mimetype": "application/epub+zip"}),
            zipped({"META-INF/container.xml": "<container/>"}),
            zipped({"META-INF/container.xml": "<!DOCTYPE a><container/>"}),
            epub({"a.xhtml": f"{LAUGHS}<html><body>&c;</body></html>"}),
            epub({"a.xhtml": page("a")}, parts={"OEBPS/book.opf": "<package"}),
        ),
    ),
    (read_notebook, (b"{", b"[" * 100_000, b"nan nan")),
    (read_webarchive, (b"bplist00WebMainResource", b"bplist00")),
)


def test_what_is_not_of_its_kind_is_a_problem():
    for read, files in REFUSED:
        for number, file in enumerate(files):
            with pytest.raises(Problem):
                pytest.fail(f"{read.__name__} {number} is {read(file)}")
    assert read_xml("<a><![CDATA[<!DOCTYPE a>]]><!-- <!DOCTYPE a> --></a>") == "<!DOCTYPE a>"
    others = {"docProps/app.xml": "<a", "customXml/b.xml": "no XML"}  # which are not needed
    assert [each.text for each in read_docx(docx(paragraph(run("a")), parts=others)).sections] == [
        "a"
    ]


# Zips, and bombs in office files


NEVER_READ = {("talk.pptx", "[Content_Types].xml")}
LARGE = ("document.xml", "book.xml", "sheet1.xml", "slide1.xml", "container.xml")


def test_bombs_in_any_part():
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    laughs = f'<!DOCTYPE bomb [<!ENTITY l0 "ha">{entities}]>'
    for name in ("contract.docx", "prices.xlsx", "talk.pptx", "novel.epub"):
        parts = parts_of(OFFICE_SAMPLES[name].data)
        for part, content in parts.items():
            if part.endswith((".xml", ".rels", ".opf")) and (name, part) not in NEVER_READ:
                declaration, end, root = content.rpartition(b"?>")
                bomb = declaration + end + laughs.encode() + root
                with pytest.raises(Problem, match="document type"):
                    read_bytes(name, zipped({**parts, part: bomb}))
            if part.endswith(LARGE):
                with pytest.raises(Problem, match="unpacks"):
                    read_bytes(name, zipped({**parts, part: bytes(5_000_000)}))
    chapter = page("&l9;").replace("<!DOCTYPE html>", laughs)
    with pytest.raises(Problem, match="entities"):
        read_bytes("a.epub", epub({"a.xhtml": chapter}))


def test_what_is_unpacked_has_limits(monkeypatch):
    archive = Archive(zipped({"bomb": bytes(5_000_000), "good": bytes(900_000)}))
    assert len(archive.read("good")) == 900_000
    small = in_directory(zipped({"a": bytes(5000)}), 24, (10).to_bytes(4, "little"))
    file = BytesIO()
    with ZipFile(file, "w") as made:
        made.writestr("a", "b", compress_type=ZIP_LZMA)
    for refused, name in (
        (archive, "bomb"),
        (Archive(small), "a"),  # which says less of its size than it has
        (Archive(file.getvalue()), "a"),
    ):
        with pytest.raises(Problem):
            refused.read(name)
    monkeypatch.setattr(zips, "ZIP_BYTES", 2500)
    archive = Archive(zipped({"a": bytes(1000)}))
    for _ in range(2):
        archive.read("a")
    with pytest.raises(Problem):  # all that is read counts
        archive.read("a")
    parts = {"a.xml": "<a/>", "b/_rels/c.rels": "<b/>", "media/d.png": b"\x89PNG", "e.xml": "<"}
    with ZipFile(Archive(zipped(parts)).only_xml(bytes.upper)) as copy:  # for libraries
        assert {name: copy.read(name) for name in copy.namelist()} == {
            "a.xml": b"<A/>",
            "b/_rels/c.rels": b"<B/>",
            "e.xml": b"<",
        }
