"""Reads a message as a mail program shows it, and a web page that was saved as one file.

A message is a part: who wrote it to whom, when and about what, and its text. Attachments are not
read, but reported. A mailbox has a part for each of its messages.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_bytes, policy
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message

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


def _parsed(data: bytes) -> Message:
    """The parts of a message. The older policy of the library is used: the newer one reads some
    headers in quadratic time, and fails at odd ones."""
    return message_from_bytes(data, policy=policy.compat32)


def _header(message: Message, name: str) -> str:
    """A header's text; as it is written, if its encoding is not known."""
    raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
    written = decode(str(raw).encode("utf-8", "surrogateescape")).text if raw else ""
    return _decoded(written)


def _decoded(text: str) -> str:
    """A text with its parts like "=?utf-8?q?Gr=C3=B6=C3=9Fe?=" as they are meant."""
    with suppress(HeaderParseError, LookupError, ValueError):
        text = str(make_header(decode_header(text)))
    return " ".join(text.split())


def _texts(part: Message, attached: list[str]) -> Iterator[str]:
    """Yield the texts that are shown of a part; of alternatives, the page or else the last one."""
    kind = part.get_content_type()
    if kind.startswith("multipart/") and part.is_multipart():
        parts = _parts(part)
        if kind == "multipart/alternative":
            parts = ([each for each in parts if _holds_page(each)] or parts)[-1:]
        for each in parts:
            yield from _texts(each, attached)
    elif kind.startswith("text/") and part.get_content_disposition() != "attachment":
        yield _text(part)
    else:
        attached.append(_name(part) or kind)


def _parts(part: Message) -> list[Message]:
    inner = part.get_payload()
    return [each for each in inner if isinstance(each, Message)] if isinstance(inner, list) else []


def _holds_page(part: Message) -> bool:
    return any(each.get_content_type() in _PAGES for each in part.walk())


def _name(part: Message) -> str:
    """The name of an attachment; of a message, what it is about."""
    if part.get_content_type() == "message/rfc822":
        return next((_header(inner, "Subject") for inner in _parts(part)), "")
    return _decoded(part.get_filename("") or "")


def _text(part: Message) -> str:
    if part.get_content_type() in _PAGES:
        return BETWEEN.join(each.text for each in read_page(_page(part)).parts)
    return with_plain_lines(_characters(part)).strip("\n")


def _page(part: Message) -> str:
    return _characters(part) if part.get_content_charset() else decoded(_content(part)).text


def _characters(part: Message) -> str:
    charset = part.get_content_charset()
    if charset:
        with suppress(LookupError, ValueError):
            return _content(part).decode(charset, "replace")
    return decode(_content(part)).text


def _content(part: Message) -> bytes:
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""
