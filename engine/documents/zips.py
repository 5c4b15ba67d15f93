"""Opens zips that strangers made: office files and books are zips of XML.

What a zip says of itself is not believed: what is read of it is counted while it is unpacked. XML
with a document type is refused, as no such file needs one, and the entities that it declares are
how a small file becomes a large one. Knows no format; writes nothing, and reads no zip in a zip.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from xml.etree.ElementTree import Element, ParseError, fromstring
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from defusedxml import DTDForbidden
from defusedxml.ElementTree import iterparse

from engine.documents.limits import ZIP_BYTES, ZIP_MEMBERS, ZIP_RATIO, size
from models.errors import Problem

_UNSUSPICIOUS_BYTES = 1_000_000
_ENTRY = b"PK\x01\x02"
_LEAVES = re.compile(r"(^|[/\\])\.\.([/\\]|$)|^[/\\]|^[A-Za-z]:")
_NO_XML = (ParseError, LookupError, ValueError)
_CANNOT_BE_READ = (BadZipFile, EOFError, NotImplementedError, OSError, ValueError, zlib.error)


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Whatever a file makes a library raise is a Problem: "The `what` is damaged"."""
    try:
        yield
    except (Problem, MemoryError):
        raise
    except Exception as error:
        raise damaged(f"{what} is damaged") from error


def damaged(what: str) -> Problem:
    return Problem(
        f"The {what}.", "Open it in the program that made it, save it again, and attach that."
    )


class Archive:
    """A zip in memory, of which at most so many bytes are ever unpacked."""

    def __init__(self, data: bytes) -> None:
        """Raises Problem where it is no zip, or one that promises too much."""
        # Counted before zipfile makes an object of each.
        if data.count(_ENTRY) > ZIP_MEMBERS:
            raise _too_large(f"has more than {ZIP_MEMBERS:,} parts")
        try:
            self._zip = ZipFile(BytesIO(data))
        except _CANNOT_BE_READ as error:
            raise damaged("file is damaged: it is no complete zip") from error
        members = self._zip.infolist()
        if sum(member.file_size for member in members) > ZIP_BYTES:
            raise _too_large(f"unpacks to more than {size(ZIP_BYTES)}")
        if any(member.flag_bits & 1 for member in members):
            raise Problem(
                "The file is encrypted with a password.", "Save it without, and attach it again."
            )
        if any(_LEAVES.search(member.filename) for member in members):
            raise damaged("file is damaged: it has parts that belong outside of it")
        self.names = tuple(dict.fromkeys(self._zip.namelist()))
        self._bytes_left = ZIP_BYTES

    def read(self, name: str) -> bytes:
        """Raises Problem where there is no such part, and where it is not what it promised."""
        try:
            member = self._zip.getinfo(name)
        except KeyError:
            raise damaged(f"file is damaged: {name} is missing") from None
        if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise damaged("file is packed in a way that such files are not")
        most = min(self._bytes_left, max(_UNSUSPICIOUS_BYTES, ZIP_RATIO * member.compress_size))
        try:
            with self._zip.open(member) as file:
                content = file.read(most + 1)
        except _CANNOT_BE_READ as error:
            raise damaged(f"file is damaged: {name} cannot be unpacked") from error
        if len(content) > most:
            raise _too_large(f"unpacks to far more than it should: {name}")
        self._bytes_left -= len(content)
        return content

    def xml(self, name: str) -> Element:
        """The root of a part. Raises Problem."""
        content = self.read(name)
        try:
            _refuse_document_type(content)
            return fromstring(content)
        except _NO_XML as error:
            raise damaged(f"file is damaged: {name} is no XML") from error

    def only_xml(self, change: Callable[[bytes], bytes] = bytes) -> BytesIO:
        """A zip of the XML in this one, each part changed so, which any library may read: neither
        pictures nor programs are in it, and no more than was counted. Raises Problem."""
        copy = BytesIO()
        with ZipFile(copy, "w") as written:
            for name in self.names:
                if name.endswith((".xml", ".rels")):
                    content = self.read(name)
                    with suppress(*_NO_XML):  # what needs this part says so
                        _refuse_document_type(content)
                    written.writestr(name, change(content))
        return copy


def local_name(element: Element) -> str:
    """Without its namespace: office files have two for each, transitional and strict."""
    return element.tag.rpartition("}")[2]


def _refuse_document_type(xml: bytes) -> None:
    """It stands before the first element, so nothing else is read here."""
    try:
        next(iterparse(BytesIO(xml), ("start",), forbid_dtd=True), None)
    except DTDForbidden:
        raise Problem(
            "The file has XML with a document type: no such file needs it, and it can do harm.",
            "Ask whoever made it for a PDF.",
        ) from None


def _too_large(what: str) -> Problem:
    return Problem(f"The file {what}.", "Attach a part of it, or its text.")
