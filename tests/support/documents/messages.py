"""Small messages: of mail programs, of Outlook, and pages that were saved as one file."""

import plistlib
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import EmailMessage

_SECTOR, _SMALL = 512, 64
_END, _FREE, _TABLE, _NONE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF


def eml(
    text: str,
    *,
    page: str = "",
    attached: Mapping[str, bytes] | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """A message with a text, the same as a page, and attachments by their names."""
    message = EmailMessage()
    message["From"] = "Zoë Müller <zoe@example.org>"
    message["To"] = "Ada <ada@example.org>"
    message["Date"] = "Mon, 02 Mar 2026 09:30:00 +0100"
    message["Subject"] = "Größe des Büros"
    for name, value in (headers or {}).items():
        message[name] = value
    message.set_content(text, cte="base64")
    if page:
        message.add_alternative(page, subtype="html", cte="quoted-printable")
    for name, content in (attached or {}).items():
        message.add_attachment(content, maintype="application", subtype="pdf", filename=name)
    return message.as_bytes()


def mhtml(page: str) -> bytes:
    """A page as a browser saves it with its pictures."""
    message = EmailMessage()
    message["From"] = "<Saved by Blink>"
    message["Snapshot-Content-Location"] = "https://example.org/"
    message["Subject"] = "A page"
    message.set_content(page, subtype="html", cte="quoted-printable")
    message.add_related(b"\x89PNG", maintype="image", subtype="png", cid="<p>")
    return message.as_bytes()


def webarchive(page: str, *, binary: bool = True, css: str = "") -> bytes:
    """A page as Safari saves it, with its styles."""
    main = {
        "WebResourceData": page.encode(),
        "WebResourceMIMEType": "text/html",
        "WebResourceTextEncodingName": "UTF-8",
    }
    kind = plistlib.FMT_BINARY if binary else plistlib.FMT_XML
    style = {"WebResourceData": css.encode(), "WebResourceMIMEType": "text/css"}
    return plistlib.dumps({"WebMainResource": main, "WebSubresources": [style]}, fmt=kind)


def msg(streams: Mapping[str, bytes], *, attached: tuple[str, ...] = ()) -> bytes:
    """A message of Outlook. `streams`: by property and type, "0037001F" is the subject."""
    sent = int(
        (datetime(2026, 3, 2, 8, 30, tzinfo=UTC) - datetime(1601, 1, 1, tzinfo=UTC)).total_seconds()
    )
    dates = bytes(32) + struct.pack("<HHIQ", 0x40, 0x39, 6, sent * 10**7)
    files = {f"__substg1.0_{name}": content for name, content in streams.items()}
    folders = {
        f"__attach_version1.0_#{number:08X}": {"__substg1.0_3707001F": name.encode("utf-16-le")}
        for number, name in enumerate(attached)
    }
    return compound({**files, "__properties_version1.0": dates, **folders})


def compound(tree: Mapping[str, bytes | Mapping[str, bytes]]) -> bytes:
    """A compound file with these streams, and with these folders of streams."""
    sectors: list[bytes] = []
    following: list[int] = []
    small = bytearray()
    small_following: list[int] = []

    def store(content: bytes) -> int:
        """Append sectors; return the number of the first one."""
        if not content:
            return _END
        first = len(sectors)
        for start in range(0, len(content), _SECTOR):
            sectors.append(content[start : start + _SECTOR].ljust(_SECTOR, b"\0"))
            following.append(len(sectors))
        following[-1] = _END
        return first

    def store_stream(content: bytes) -> int:
        if len(content) >= 4096:
            return store(content)
        first = len(small_following)
        for start in range(0, len(content), _SMALL):
            small.extend(content[start : start + _SMALL].ljust(_SMALL, b"\0"))
            small_following.append(len(small_following) + 1)
        small_following[-1] = _END
        return first

    entries: list[list[object]] = [["Root Entry", 5, _NONE, _NONE, _END, 0]]

    def add(items: Mapping[str, bytes | Mapping[str, bytes]]) -> int:
        """Append entries, each the next one's left neighbour; return the number of the first."""
        first = before = _NONE
        for name, content in items.items():
            number = len(entries)
            if isinstance(content, bytes):
                entries.append([name, 2, _NONE, _NONE, store_stream(content), len(content)])
            else:
                entries.append([name, 1, _NONE, _NONE, 0, 0])
                entries[number][3] = add(content)
            if before == _NONE:
                first = number
            else:
                entries[before][2] = number
            before = number
        return first

    entries[0][3] = add(tree)
    entries[0][4], entries[0][5] = store(bytes(small)), len(small)
    directory = store(b"".join(map(_entry, entries)))
    listed = store(
        struct.pack(f"<{len(small_following)}I", *small_following).ljust(_SECTOR, b"\xff")
    )
    per_table = _SECTOR // 4
    tables = -(-(len(sectors) + 1) // (per_table - 1))
    places = list(range(len(sectors), len(sectors) + tables))
    following += [_TABLE] * tables
    following += [_FREE] * (tables * per_table - len(following))
    head = (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 62, 3, 0xFFFE, 9, 6)
    )
    head += bytes(6) + struct.pack("<9I", 0, tables, directory, 0, 4096, listed, 1, _END, 0)
    head += struct.pack("<109I", *places, *[_FREE] * (109 - len(places)))
    return head + b"".join(sectors) + struct.pack(f"<{len(following)}I", *following)


def _entry(entry: list[object]) -> bytes:
    name, kind, left, child, start, size = entry
    written = f"{name}\0".encode("utf-16-le")
    return struct.pack(
        "<64sHBB3I36xIQ", written, len(written), kind, 1, left, _NONE, child, start, size
    )
