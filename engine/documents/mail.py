"""Reads a message as a mail program shows it.

A message is a part: who wrote it to whom, when and about what, and its text. Attachments are not
read, but reported. A mailbox has a part for each of its messages.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email import message_from_bytes, policy
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message

from engine.documents import BETWEEN, Section
from engine.documents.decoding import Decoded, decode, decode_declared
from engine.documents.hidden import with_plain_lines
from engine.documents.read import Read, left_out_line, unseen_line
from engine.documents.web import decoded, read_page, shortened
from engine.documents.zips import reading
from models.errors import Problem

_SHOWN = ("From", "To", "Cc", "Date", "Subject")

_PAGES = ("text/html", "application/xhtml+xml")
_CALENDAR = "text/calendar"
_IN_LINES = re.MULTILINE | re.DOTALL | re.IGNORECASE
_EVENT = re.compile(r"^BEGIN:VEVENT$(.*?)^END:VEVENT$", _IN_LINES)
_ALARM = re.compile(r"^BEGIN:VALARM$.*?^END:VALARM$", _IN_LINES)
_FOLDED = re.compile(r"\n[ \t]")
_PROPERTY = re.compile(r"""^([\w-]+)((?:;(?:"[^"\n]*"|[^":\n])*)?):(.+)$""", re.MULTILINE)
_OF_EVENT = {
    "SUMMARY": "Event", "STATUS": "Status", "DTSTART": "Start", "DTEND": "End",
    "RRULE": "Repeats", "LOCATION": "Place", "DESCRIPTION": "Notes",
}  # fmt: skip
_MOMENT = re.compile(r"(\d{8})(T\d{6})?(Z?)")
_ZONE = re.compile(r""";TZID=("[^"]*"|[^;:]*)""", re.IGNORECASE)
_OF_MAILBOX = re.compile(  # text may begin with "From" too, but has no time or no headers after it
    rb"\AFrom [^\r\n]*\r?\n"
    rb"|^From [^\r\n]*(?:[A-Za-z]{3} +\d{1,2} \d\d:\d\d[^\r\n]*\r?\n(?=>?[\w-]+[: ])"
    rb"|\r?\n(?=(?:From|To|Date|Subject|Return-Path|Received|Message-ID|X-[\w-]+):))",
    re.MULTILINE,
)
_FROM_IN_TEXT = re.compile(rb"^>(?=>*From )", re.MULTILINE)
_SIZE_FIRST = re.compile(rb"\s*([0-9]{1,9})\s*\r?\n")  # in the files of Apple's Mail


def read_mail(data: bytes) -> Read:
    with reading("message"):
        lost = _LeftOut()
        sections = [
            Section("part", number, text, shortened(subject))
            for number, (subject, text) in enumerate(_messages(data, lost), start=1)
        ]
        lines = left_out_line("Attachments", lost.attached) + tuple(lost.remarks)
        return Read(tuple(sections), left_out=lines + unseen_line(lost.unseen))


@dataclass(slots=True)
class _LeftOut:
    """Attachments, remarks on decoding, and the number of hidden characters."""

    attached: list[str] = field(default_factory=list)
    remarks: dict[str, None] = field(default_factory=dict)
    unseen: int = 0


def _messages(data: bytes, lost: _LeftOut) -> Iterator[tuple[str, str]]:
    """Yield the subject and the text of each message."""
    if data.startswith(b"From "):
        pieces = [_FROM_IN_TEXT.sub(b"", each) for each in _OF_MAILBOX.split(data)]
    elif size := _SIZE_FIRST.match(data):
        pieces = [data[size.end() : size.end() + int(size[1])]]
    else:
        pieces = [data]
    for piece in pieces:
        if piece.strip():
            # The library's newer policy reads some headers in quadratic time, and fails at others.
            message = message_from_bytes(piece, policy=policy.compat32)
            text = BETWEEN.join(filter(None, _texts(message, lost)))
            headers = ((name, _header(message, name)) for name in _SHOWN)
            lines = "\n".join(f"{name}: {value}" for name, value in headers if value)
            yield _header(message, "Subject"), BETWEEN.join(filter(None, (lines, text.strip("\n"))))


def _header(message: Message, name: str) -> str:
    """A header's text; as it is written, if its encoding is not known."""
    raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
    written = decode(str(raw).encode("utf-8", "surrogateescape")).text if raw else ""
    return _in_words(written)


def _in_words(text: str) -> str:
    """A text with its parts like "=?utf-8?q?Gr=C3=B6=C3=9Fe?=" as they are meant."""
    with suppress(HeaderParseError, LookupError, ValueError, Problem):
        pieces = [
            (decode_declared(each, charset).text, "utf-8") if charset else (each, None)
            for each, charset in decode_header(text)
        ]
        text = str(make_header(pieces))
    return " ".join(text.split())


def _texts(part: Message, lost: _LeftOut) -> Iterator[str]:
    """Yield the texts that are shown of a part; of alternatives, the page or else the last one."""
    kind = part.get_content_type()
    if kind.startswith("multipart/") and part.is_multipart():
        parts = _parts(part)
        if kind == "multipart/alternative":  # of texts, one; an invitation is shown as well
            dates = [each for each in parts if each.get_content_type() == _CALENDAR]
            texts = [each for each in parts if each not in dates]
            parts = ([each for each in texts if _holds_page(each)] or texts)[-1:] + dates
        for each in parts:
            yield from _texts(each, lost)
    elif kind.startswith("text/") and part.get_content_disposition() != "attachment":
        yield _text(part, lost)
    else:
        lost.attached.append(_name(part) or kind)


def _parts(part: Message) -> list[Message]:
    inner = part.get_payload()
    return [each for each in inner if isinstance(each, Message)] if isinstance(inner, list) else []


def _holds_page(part: Message) -> bool:
    return any(each.get_content_type() in _PAGES for each in part.walk())


def _name(part: Message) -> str:
    """The name of an attachment; of a message, its subject."""
    if part.get_content_type() == "message/rfc822":
        return next((_header(inner, "Subject") for inner in _parts(part)), "")
    return _in_words(part.get_filename("") or "")


def _text(part: Message, lost: _LeftOut) -> str:
    known = _decoded(part)
    lost.remarks |= dict.fromkeys(known.remarks)
    if part.get_content_type() == _CALENDAR:
        return _events(with_plain_lines(known.text)) or known.text
    if part.get_content_type() not in _PAGES:
        return with_plain_lines(known.text).strip("\n")
    page = read_page(known.text)
    lost.unseen += page.unseen
    return BETWEEN.join(each.text for each in page.parts)


def _events(calendar: str) -> str:
    """The events of a calendar (RFC 5545), with a line for each property that a program shows."""
    texts = []
    for event in _EVENT.findall(_ALARM.sub("", _FOLDED.sub("", calendar))):
        said = {name.upper(): value for name, *value in reversed(_PROPERTY.findall(event))}
        if "DTEND" in said:
            said["DTEND"][1] = _last_day(said["DTEND"][1], said.get("DTSTART", ("", ""))[1])
        lines = (f"{_OF_EVENT[name]}: {_meant(*said[name])}" for name in _OF_EVENT if name in said)
        texts.append("\n".join(lines))
    return BETWEEN.join(texts)


def _last_day(end: str, start: str) -> str:
    """The last day of an event of whole days, which ends before the next one; any other end."""
    with suppress(ValueError, OverflowError):
        return max(f"{datetime.strptime(end, '%Y%m%d') - timedelta(days=1):%Y%m%d}", start)
    return end


def _meant(options: str, value: str) -> str:
    """The value of a property: a text, or "2026-12-03 14:00 (Europe/Berlin)"."""
    if moment := _MOMENT.fullmatch(value):
        day, clock, zone = moment[1], moment[2], moment[3] and "UTC"
        named = zone or "".join(_ZONE.findall(options)).strip('"')
        time = f" {clock[1:3]}:{clock[3:5]}" if clock else ""
        return f"{day[:4]}-{day[4:6]}-{day[6:]}{time}{f' ({named})' if named else ''}"
    return re.sub(r"\\(.)", lambda sign: "\n" if sign[1] in "nN" else sign[1], value)


def _decoded(part: Message) -> Decoded:
    charset, content = part.get_content_charset(), part.get_payload(decode=True)
    data = content if isinstance(content, bytes) else b""
    in_page = part.get_content_type() in _PAGES and not charset
    return decoded(data) if in_page else decode_declared(data, charset)
