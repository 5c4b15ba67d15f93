"""What of a stranger's zip is unpacked, and what is refused before."""

from io import BytesIO
from zipfile import ZIP_LZMA, ZipFile

import pytest

from engine.documents import zips
from engine.documents.limits import ZIP_BYTES, ZIP_MEMBERS
from engine.documents.zips import Archive
from models.errors import Problem
from tests.support.documents.office import zipped

DIRECTORY = b"PK\x01\x02"
LAUGHS = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>'


def in_directory(data, offset, value):
    """What the zip says of its first member, changed."""
    place = data.index(DIRECTORY) + offset
    return data[:place] + value + data[place + len(value) :]


def test_what_is_not_opened():
    for data in (
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
    ):
        with pytest.raises(Problem):
            Archive(data)


def test_what_is_unpacked_has_limits(monkeypatch):
    archive = Archive(zipped({"bomb": bytes(5_000_000), "good": bytes(900_000)}))
    assert len(archive.read("good")) == 900_000
    with pytest.raises(Problem, match="bomb"):
        archive.read("bomb")
    archive = Archive(in_directory(zipped({"a": bytes(5000)}), 24, (10).to_bytes(4, "little")))
    with pytest.raises(Problem):  # which says less of its size than it has
        archive.read("a")
    file = BytesIO()
    with ZipFile(file, "w") as made:
        made.writestr("a", "b", compress_type=ZIP_LZMA)
    with pytest.raises(Problem):
        Archive(file.getvalue()).read("a")
    monkeypatch.setattr(zips, "ZIP_BYTES", 2500)
    archive = Archive(zipped({"a": bytes(1000)}))
    for _ in range(2):
        archive.read("a")
    with pytest.raises(Problem):  # all that is read counts
        archive.read("a")


def test_any_name_of_a_part_is_shown_in_a_short_line():
    for name in ("x" * 5000, "book\u202e.opf", "a\nb"):
        for archive in (Archive(zipped({})), Archive(zipped({name: "no XML"}))):
            with pytest.raises(Problem) as caught:
                archive.xml(name)
            assert caught.value.message.isprintable()
            assert len(caught.value.message) < 100


def test_a_document_type_is_refused():
    for xml in (
        f"{LAUGHS}<a>&c;</a>",
        f"<!-- a -->\n<?a b?>{LAUGHS}<a/>",
        '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
        "<!DOCTYPE a><a/>",
        f"{LAUGHS}<a/>".encode("utf-16"),
    ):
        archive = Archive(zipped({"a.xml": xml}))
        with pytest.raises(Problem, match="document type"):
            archive.xml("a.xml")
        with pytest.raises(Problem, match="document type"):
            archive.only_xml()
    xml = "<a><![CDATA[<!DOCTYPE a>]]><!-- <!DOCTYPE a> --></a>"  # only looks like one
    assert Archive(zipped({"a.xml": xml})).xml("a.xml").text == "<!DOCTYPE a>"


def test_what_is_no_xml():
    for xml in ("", "<a>", "text", "<a>&b;</a>", '<?xml encoding="x"?><a/>'):
        with pytest.raises(Problem):
            Archive(zipped({"a.xml": xml})).xml("a.xml")


def test_a_copy_for_libraries_has_only_xml():
    parts = {"a.xml": "<a/>", "b/_rels/c.rels": "<b/>", "media/d.png": b"\x89PNG", "e.xml": "<"}
    with ZipFile(Archive(zipped(parts)).only_xml(bytes.upper)) as copy:
        assert {name: copy.read(name) for name in copy.namelist()} == {
            "a.xml": b"<A/>",
            "b/_rels/c.rels": b"<B/>",
            "e.xml": b"<",
        }
