"""Reads an EPUB: its chapters in reading order, each a web page."""

import posixpath
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from engine.documents import BETWEEN, Section
from engine.documents.read import Read, left_out_line
from engine.documents.web import Page, decoded, read_page, shortened
from engine.documents.zips import Archive, damaged, reading
from models.errors import Problem

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_OF_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")


def read_epub(data: bytes) -> Read:
    with reading("book"):
        archive = Archive(data)
        _refuse_locked(archive)
        sections: list[Section] = []
        missing = []
        for name in _chapters(archive):
            if name not in archive.names:
                missing.append(name)
                continue
            page = _page(archive, name)
            if page.parts:
                heading = next((part.headings[-1] for part in page.parts if part.headings), "")
                text = BETWEEN.join(part.text for part in page.parts)
                sections.append(Section("chapter", len(sections) + 1, text, shortened(heading)))
        return Read(tuple(sections), left_out=left_out_line("Missing chapters", missing))


def _refuse_locked(archive: Archive) -> None:
    """Raise `Problem` if anything but fonts is encrypted."""
    if _ENCRYPTION in archive.names:
        methods = archive.xml(_ENCRYPTION).iterfind("{*}EncryptedData/{*}EncryptionMethod")
        if any(method.get("Algorithm") not in _OF_FONTS for method in methods):
            raise Problem(
                "The book is locked by its seller (DRM).", "Attach one that is not locked."
            )


def _chapters(archive: Archive) -> list[str]:
    """The names of the chapters' parts in the archive, in reading order."""
    package = archive.xml(_CONTAINER).find("{*}rootfiles/{*}rootfile")
    if package is None:
        raise damaged("book is damaged: it names no contents")
    path = package.get("full-path", "")
    contents = archive.xml(path)
    items = {item.get("id"): item for item in contents.iterfind("{*}manifest/{*}item")}
    listed = [items.get(entry.get("idref")) for entry in contents.iterfind("{*}spine/{*}itemref")]
    return [
        _path(path, item)
        for item in listed
        if item is not None and item.get("media-type") in _PAGES
    ]


def _path(package: str, item: Element) -> str:
    target = unquote(item.get("href", "").partition("#")[0])
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(package), target)).lstrip("/")


def _page(archive: Archive, name: str) -> Page:
    """Read a page. Refuses entities of its own: the HTML reader knows only HTML's."""
    text = decoded(archive.read(name)).text
    if "<!ENTITY" in text:
        raise damaged(f"book is damaged: {name} has entities of its own")
    return read_page(text)
