"""Finds the format of a file: by its content first, then by its name.

Each kind of file that cannot be read has its own message, with its own remedy: for a picture
another than for a file of an old office program.
"""

import re
from pathlib import PurePath

from engine.documents import Format
from engine.documents.zips import Archive
from models.errors import Problem

_START = 1024
_MOST_HEADERS = 8192  # bytes
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # also of newer files that are encrypted
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"8BPS", b"\0\0\1\0")
_SOUNDS = (b"ID3", b"OggS", b"fLaC", b"\xff\xfb", b"\xff\xf3", b"\x1a\x45\xdf\xa3", b"FORM")
_ARCHIVES = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!", b"\x28\xb5\x2f\xfd")
_STILL = (b"heic", b"heix", b"mif1", b"msf1", b"avif", b"avis")
_OFFICE: dict[str, Format] = {"word/": "docx", "xl/": "xlsx", "ppt/": "pptx"}
_NAMES: dict[str, Format] = {
    ".md": "markdown", ".markdown": "markdown", ".csv": "csv", ".tsv": "csv",
    ".html": "html", ".htm": "html", ".xhtml": "html",
}  # fmt: skip
_OF_APPLE = ("Index.zip", "index.xml", "index.xml.gz", "index.apxl", "index.apxl.gz")
_MESSAGES = (".eml", ".emlx", ".mbox")
_SAVED_PAGES = (".mht", ".mhtml")
_HEADERS = re.compile(rb"(?:[A-Za-z][A-Za-z-]*:[^\r\n]*\r?\n(?:[ \t][^\r\n]*\r?\n)*){3,}")
_SAVED = (b"snapshot-content-location:", b"<saved by", b"mhtml:")
_OLD_TABLES = (".xls", ".xlt")
_OF_OUTLOOK = "__substg1.0_".encode("utf-16-le")


def kind_of(name: str, data: bytes) -> Format:
    """The format of a file; "text" if no other fits. Raises `Problem` if no reader reads it."""
    suffix = PurePath(name).suffix.lower()
    start = data[:_START]
    if start.startswith(b"%PDF-") or (b"%PDF-" in start and suffix == ".pdf"):
        return "pdf"
    if start.startswith((b"PK\3\4", b"PK\5\6")):
        return _kind_of_zip(data)
    if b"WebMainResource" in data[:_START] and start.startswith((b"bplist", b"<?xml")):
        return "webarchive"
    _refuse(data)
    return _kind_of_text(start, suffix, data)


def _kind_of_text(start: bytes, suffix: str, data: bytes) -> Format:
    headers = _HEADERS.match(data[:_MOST_HEADERS])
    head = headers[0].lower() if headers else b""
    written = b"\nmime-version:" in head
    if suffix in _SAVED_PAGES or (written and any(sign in head for sign in _SAVED)):
        raise Problem("Saved web pages (MHTML) are not supported.", "Save it as PDF.")
    if suffix in _MESSAGES or written:
        return "eml"
    words = start.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if suffix == ".ipynb" or (
        words.startswith(b"{") and b'"nbformat"' in data and b'"cells"' in data
    ):
        return "notebook"
    declared = words.startswith(b"<?xml") and b"<html" in words
    if words.startswith((b"<!doctype html", b"<html")) or declared:
        return "html"
    if b"urn:schemas-microsoft-com:office:spreadsheet" in words:
        raise Problem("Workbooks in XML of Excel 2003 are not supported.", "Save it as XLSX.")
    if suffix in _OLD_TABLES:  # as many programs export a table
        return "html" if words.startswith(b"<") else "csv"
    return _NAMES.get(suffix, "text")


def _kind_of_zip(data: bytes) -> Format:
    names = Archive(data).names
    if "META-INF/container.xml" in names:
        return "epub"
    if "xl/workbook.bin" in names:
        raise Problem("Binary workbooks (XLSB) are not supported.", "Save it as XLSX.")
    if any(name.startswith("visio/") for name in names):
        raise Problem("Visio drawings are not supported.", "Save it as PDF.")
    for folder, kind in _OFFICE.items():
        if "[Content_Types].xml" in names and any(name.startswith(folder) for name in names):
            return kind
    if "mimetype" in names and "content.xml" in names:
        raise Problem("OpenDocument is not supported.", "Save it as DOCX, XLSX, PPTX or PDF.")
    if any(name.startswith("Index/") or name in _OF_APPLE for name in names):
        raise Problem("Pages, Numbers and Keynote are not supported.", "Export it as PDF or text.")
    raise _archive()


def _refuse(data: bytes) -> None:
    start = data[:_START]
    if start.startswith(_OLD_OFFICE):
        if _ENCRYPTED in data:
            raise Problem("The file is protected by a password.", "Save it without a password.")
        if _OF_OUTLOOK in data:
            raise Problem("Outlook messages (MSG) are not supported.", "Save it as .eml or PDF.")
        raise Problem(
            "Old Office formats (DOC, XLS, PPT) are not supported.",
            "Save it as DOCX, XLSX, PPTX or PDF.",
        )
    if start.startswith(b"{\\rtf"):
        raise Problem("RTF is not supported.", "Save it as DOCX, PDF or text.")
    box, brand = start[4:8], start[8:12]
    moving = start.startswith(b"RIFF") and brand in (b"WAVE", b"AVI ")
    if (start.startswith(_PICTURES) and _binary(start)) or (
        (start.startswith(b"RIFF") and brand == b"WEBP") or (box == b"ftyp" and brand in _STILL)
    ):
        raise Problem(
            "The file is a picture, not a document.",
            "Give its name an ending such as .jpg; in a terminal, use --image.",
        )
    if moving or box == b"ftyp" or (start.startswith(_SOUNDS) and _binary(start)):
        raise Problem("Audio and video are not supported.", "Attach a transcript.")
    if start[257:262] == b"ustar" or (start.startswith(_ARCHIVES) and _binary(start)):
        raise _archive()


def _binary(start: bytes) -> bool:
    """Whether the bytes are binary: a text may begin with the same letters."""
    return any(byte < 7 for byte in start)


def _archive() -> Problem:
    return Problem(
        "Archives are not supported.", "Unpack it, and attach the files or their folder."
    )
