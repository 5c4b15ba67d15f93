"""Opens zips by strangers: office files and books are zips of XML.

The sizes that a zip claims are not believed: bytes are counted while they are unpacked. XML with a
document type is refused: no such file needs one, and its entities can make a small file large.
Knows no format; writes nothing, and reads no zip in a zip.
"""

import posixpath
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
from models.typed_json import short

_UNSUSPICIOUS_BYTES = 1_000_000
_ENTRY = b"PK\x01\x02"
_LEAVES = re.compile(r"(^|[/\\])\.\.([/\\]|$)|^[/\\]|^[A-Za-z]:")
_NO_XML = (ParseError, LookupError, ValueError)
_CANNOT_BE_READ = (BadZipFile, EOFError, NotImplementedError, OSError, ValueError, zlib.error)


_SAVE_AGAIN = "Open it in the program that made it, save it again, and attach that."


@contextmanager
def reading(what: str, remedy: str = _SAVE_AGAIN) -> Iterator[None]:
    """Turn any exception inside the block into a `Problem`: "The `what` is damaged"."""
    try:
        yield
    except (Problem, MemoryError):
        raise
    except Exception as error:
        raise damaged(f"{what} is damaged", remedy) from error


def damaged(what: str, remedy: str = _SAVE_AGAIN) -> Problem:
    return Problem(f"The {what}.", remedy)


class Archive:
    """A zip in memory. Unpacks at most `ZIP_BYTES` in all."""

    def __init__(self, data: bytes) -> None:
        """Raises `Problem` if it is not a zip, or too large by its own claims."""
        # Counted before zipfile makes an object of each.
        if data.count(_ENTRY) > ZIP_MEMBERS:
            raise _too_large(f"has more than {ZIP_MEMBERS:,} parts")
        try:
            self._zip = ZipFile(BytesIO(data))
        except _CANNOT_BE_READ as error:
            raise damaged("file is damaged: the zip is not complete") from error
        members = self._zip.infolist()
        if sum(member.file_size for member in members) > ZIP_BYTES:
            raise _too_large(f"unpacks to more than {size(ZIP_BYTES)}")
        if any(member.flag_bits & 1 for member in members):
            raise Problem("The file is protected by a password.", "Save it without a password.")
        if any(_LEAVES.search(member.filename) for member in members):
            raise damaged("file is damaged: it has paths outside of the archive")
        self.names = tuple(dict.fromkeys(self._zip.namelist()))
        self._bytes_left = ZIP_BYTES

    def read(self, name: str) -> bytes:
        """Unpack a part. Raises `Problem` if it is missing, damaged or too large."""
        try:
            member = self._zip.getinfo(name)
        except KeyError:
            raise damaged(f"file is damaged: {short(name)} is missing") from None
        if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise damaged("file is compressed by an unsupported method")
        most = min(self._bytes_left, max(_UNSUSPICIOUS_BYTES, ZIP_RATIO * member.compress_size))
        try:
            with self._zip.open(member) as file:
                content = file.read(most + 1)
        except _CANNOT_BE_READ as error:
            raise damaged(f"file is damaged: {short(name)} cannot be unpacked") from error
        if len(content) > most:
            raise _too_large(f"unpacks to far more than usual: {short(name)}")
        self._bytes_left -= len(content)
        return content

    def xml(self, name: str) -> Element:
        """Parse a part; return its root. Raises `Problem`."""
        content = self.read(name)
        try:
            _refuse_document_type(content)
            return fromstring(content)
        except _NO_XML as error:
            raise damaged(f"file is damaged: {short(name)} is not XML") from error

    def related(self, part: str, kind: str) -> dict[str, str]:
        """The parts of this kind that a part refers to, by the identifier of the relation."""
        folder, name = posixpath.split(part)
        listed = posixpath.join(folder, "_rels", f"{name}.rels")
        if listed not in self.names:
            return {}
        return {
            relation.get("Id", ""): posixpath.normpath(
                posixpath.join("/", folder, relation.get("Target", ""))
            ).lstrip("/")
            for relation in self.xml(listed)
            if relation.get("Type", "").endswith(f"/{kind}")
            and relation.get("TargetMode") != "External"
        }

    def only_xml(self, change: Callable[[bytes], bytes] = bytes) -> BytesIO:
        """A zip of the XML parts only, each passed through `change`, that any library may read: it
        has no pictures, no programs, and no more bytes than were counted. Raises `Problem`."""
        copy = BytesIO()
        with ZipFile(copy, "w") as written:
            for name in self.names:
                if name.endswith((".xml", ".rels")):
                    content = self.read(name)
                    with suppress(*_NO_XML):  # a library that needs this part will complain
                        _refuse_document_type(content)
                    written.writestr(name, change(content))
        return copy


def local_name(element: Element) -> str:
    """An element's name without its namespace: office files have transitional and strict ones."""
    return element.tag.rpartition("}")[2]


def _refuse_document_type(xml: bytes) -> None:
    """Raise `Problem` for a document type. It comes before the first element: the rest is not
    read."""
    try:
        next(iterparse(BytesIO(xml), ("start",), forbid_dtd=True), None)
    except DTDForbidden:
        raise Problem(
            "The file has an XML document type, which can do harm.",
            "Ask the author for a PDF.",
        ) from None


def _too_large(what: str) -> Problem:
    return Problem(f"The file {what}.", "Attach a part of it, or its text.")
