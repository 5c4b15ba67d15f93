"""Reads a message as a mail program shows it, and a web page that was saved as one file.

A message is a part: who wrote it to whom, when and about what, and its text. Attachments are not
read, but reported. A mailbox has a part for each of its messages.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_bytes, policy
from email.message import EmailMessage

from engine.documents import BETWEEN, Section
from engine.documents.decoding import decode
from engine.documents.hidden import with_plain_lines
from engine.documents.read import Read, left_out_line
from engine.documents.web import decoded, page_sections, read_page, shortened
from engine.documents.zips import damaged, reading

SHOWN = ("From", "To", "Cc", "Date", "Subject")

_PAGES = ("text/html", "application/xhtml+xml")
_OF_MAILBOX = re.compile(rb"^From [^\r\n]*\r?\n", re.MULTILINE)
_SIZE_FIRST = re.compile(rb"\s*([0-9]{1,9})\s*\r?\n")  # in the files of Apple's Mail


def read_mail(data: bytes) -> Read:
    with reading("message"):
        attached: list[str] = []
        sections = [
            Section("part", number, text, shortened(subject))
            for number, (subject, text) in enumerate(_messages(data, attached), start=1)
        ]
        return Read(tuple(sections), left_out=left_out_line("Attachments", attached))


def read_saved_page(data: bytes) -> Read:
    """Read a web page with its pictures in one file (MHTML)."""
    with reading("saved page"):
        pages = [part for part in _parsed(data).walk() if part.get_content_type() in _PAGES]
        if not pages:
            raise damaged("saved page is damaged: it has no text")
        return page_sections(read_page(_page(pages[0])))


def with_headers(headers: Iterator[tuple[str, str]], text: str) -> str:
    """A message: a line for each header that has a value, and the text."""
    lines = [f"{name}: {value}" for name, value in headers if value]
    return BETWEEN.join(filter(None, ("\n".join(lines), text.strip("\n"))))


def _messages(data: bytes, attached: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the subject and the text of each message."""
    if data.startswith(b"From "):
        pieces = _OF_MAILBOX.split(data)
    elif size := _SIZE_FIRST.match(data):
        pieces = [data[size.end() : size.end() + int(size[1])]]
    else:
        pieces = [data]
    for piece in pieces:
        if piece.strip():
            message = _parsed(piece)
            text = BETWEEN.join(filter(None, _texts(message, attached)))
            headers = ((name, _header(message, name)) for name in SHOWN)
            yield _header(message, "Subject"), with_headers(headers, text)


def _parsed(data: bytes) -> EmailMessage:
    message = message_from_bytes(data, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def _header(message: EmailMessage, name: str) -> str:
    """A header's text; as it is written, if it is damaged."""
    with suppress(Exception):  # the library fails in many ways
        return " ".join(str(message.get(name, "")).split())
    written = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
    return " ".join(str(written).split())


def _texts(part: EmailMessage, attached: list[str]) -> Iterator[str]:
    """Yield the texts that are shown of a part; of alternatives, the page or else the last one."""
    kind = part.get_content_type()
    if part.is_multipart() and kind != "message/rfc822":
        parts = [each for each in part.iter_parts() if isinstance(each, EmailMessage)]
        if kind == "multipart/alternative":
            shown = [each for each in parts if _holds_page(each)] or parts
            parts = shown[-1:]
        for each in parts:
            yield from _texts(each, attached)
    elif kind.startswith("text/") and not part.is_attachment() and not _name(part):
        yield _text(part)
    else:
        attached.append(_name(part) or kind)


def _holds_page(part: EmailMessage) -> bool:
    return any(each.get_content_type() in _PAGES for each in part.walk())


def _name(part: EmailMessage) -> str:
    with suppress(Exception):
        if part.get_content_type() == "message/rfc822":
            inner = part.get_payload(0)
            assert isinstance(inner, EmailMessage)
            return _header(inner, "Subject")
        return part.get_filename() or ""
    return ""


def _text(part: EmailMessage) -> str:
    if part.get_content_type() in _PAGES:
        return BETWEEN.join(each.text for each in read_page(_page(part)).parts)
    return with_plain_lines(_characters(part)).strip("\n")


def _page(part: EmailMessage) -> str:
    return _characters(part) if part.get_content_charset() else decoded(_content(part)).text


def _characters(part: EmailMessage) -> str:
    charset = part.get_content_charset()
    if charset:
        with suppress(LookupError, ValueError):
            return _content(part).decode(charset, "replace")
    return decode(_content(part)).text


def _content(part: EmailMessage) -> bytes:
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""
