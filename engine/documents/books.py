"""Reads an EPUB: its pages in reading order, each from heading to heading.

A page without a heading, or the text before its first one, goes on with what the page before was
about, unless the table of contents names it.
"""

import posixpath
import re
from dataclasses import dataclass
from html import unescape
from urllib.parse import unquote

from engine.documents import Section
from engine.documents.read import Read, left_out_line, unseen_line
from engine.documents.web import Page, decoded, read_page, shortened
from engine.documents.zips import Archive, damaged, reading
from models.errors import Problem

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_OF_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_TABLE = "application/x-dtbncx+xml"
_TAG = re.compile(r"<[^<>]*>")
_ENTRY = re.compile(  # of either kind of table; some have a document type, so they are not parsed
    r"""<text>(?P<text>[^<>]{1,500})</text>\s*</navLabel>\s*<content\s[^<>]*?src="(?P<source>[^"<>]*)"
    |<a\s[^<>]*?href="(?P<target>[^"<>]*)"[^<>]*>(?P<title>.{1,500}?)</a>""",
    re.VERBOSE | re.DOTALL,
)
_PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")


def read_epub(data: bytes) -> Read:
    with reading("book"):
        archive = Archive(data)
        _refuse_locked(archive)
        sections: list[Section] = []
        missing = []
        contents = _contents(archive)
        titles = _titles(archive, contents)
        label, number, unseen = "", 0, 0
        css = (archive.read(name) for name in archive.names if name.endswith(".css"))
        sheets = [sheet.decode("utf-8", "replace") for sheet in css]
        for name in contents.pages:
            if name not in archive.names:
                missing.append(name)
                continue
            label = titles.get(name, label)
            page = _page(archive, name, sheets)
            number += bool(page.parts)
            unseen += page.unseen
            for part in page.parts:
                label = part.label or label
                sections.append(Section("chapter", number, part.text, label))
        left_out = left_out_line("Missing chapters", missing) + unseen_line(unseen)
        return Read(tuple(sections), left_out=left_out)


def _refuse_locked(archive: Archive) -> None:
    """Raise `Problem` if anything but fonts is encrypted."""
    if _ENCRYPTION in archive.names:
        methods = archive.xml(_ENCRYPTION).iterfind("{*}EncryptedData/{*}EncryptionMethod")
        if any(method.get("Algorithm") not in _OF_FONTS for method in methods):
            raise Problem("The book is locked by its seller (DRM).", "Attach a copy without DRM.")


@dataclass(frozen=True, slots=True)
class _Contents:
    """The names of the pages in reading order, and of the parts with the table of contents."""

    pages: tuple[str, ...]
    tables: tuple[str, ...]


def _contents(archive: Archive) -> _Contents:
    package = archive.xml(_CONTAINER).find("{*}rootfiles/{*}rootfile")
    if package is None:
        raise damaged("book is damaged: it names no contents")
    path = package.get("full-path", "")
    contents = archive.xml(path)
    items = {item.get("id"): item for item in contents.iterfind("{*}manifest/{*}item")}
    listed = [items.get(entry.get("idref")) for entry in contents.iterfind("{*}spine/{*}itemref")]
    tables = (
        item
        for item in items.values()
        if item.get("media-type") == _TABLE or "nav" in item.get("properties", "").split()
    )
    return _Contents(
        tuple(
            _path(path, item.get("href", ""))
            for item in listed
            if item is not None and item.get("media-type") in _PAGES
        ),
        tuple(_path(path, item.get("href", "")) for item in tables),
    )


def _titles(archive: Archive, contents: _Contents) -> dict[str, str]:
    """The titles in the table of contents that are of whole pages, by the name of the page."""
    titles: dict[str, str] = {}
    for table in contents.tables:
        text = decoded(archive.read(table)).text if table in archive.names else ""
        for found in _ENTRY.finditer(text):
            title = " ".join(unescape(_TAG.sub("", found["title"] or found["text"])).split())
            target = unescape(found["target"] or found["source"])
            if title and "#" not in target:
                titles.setdefault(_path(table, target), shortened(title))
    return titles


def _path(base: str, target: str) -> str:
    """The name of a part that another part names."""
    target = unquote(target.partition("#")[0])
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(base), target)).lstrip("/")


def _page(archive: Archive, name: str, sheets: list[str]) -> Page:
    """Read a page. Refuses entities of its own: the HTML reader knows only HTML's."""
    text = decoded(archive.read(name)).text
    if "<!ENTITY" in text:
        raise damaged(f"book is damaged: {name} has entities of its own")
    return read_page(text, *sheets)
