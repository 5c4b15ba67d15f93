"""Reads a message of Outlook (.msg): a compound file with a stream for each of its properties.

Names in brackets are those of Microsoft's specifications, MS-CFB and MS-OXMSG.
"""

import struct
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from engine.documents import BETWEEN, Section
from engine.documents.decoding import decode
from engine.documents.hidden import with_plain_lines
from engine.documents.mail import with_headers
from engine.documents.read import Read, left_out_line, unseen_line
from engine.documents.web import decoded, read_page, shortened
from engine.documents.zips import damaged, reading

_SECTORS = 0xFFFFFFFA  # the numbers of sectors are smaller
_ENTRY = struct.Struct("<64sHBB3I36xIQ")
_ENTRIES = 65_536
_STORAGE, _STREAM, _ROOT = 1, 2, 5
_FIXED = "__properties_version1.0"  # the properties with a fixed size
_ATTACHED = "__attach_version1.0_"
_SUBJECT, _FROM, _TO, _CC = 0x0037, 0x0C1A, 0x0E04, 0x0E03
_FROM_ADDRESSES = (0x5D01, 0x0C1F)
_BODY, _PAGE, _RTF = 0x1000, 0x1013, 0x1009
_DATES = (0x0039, 0x0E06)  # sent, delivered
_NAMES = (0x3707, 0x3704, 0x3001)  # of an attachment: long, short, displayed
_START_OF_TIME = datetime(1601, 1, 1, tzinfo=UTC)


def read_msg(data: bytes) -> Read:
    with reading("message"):
        file = _CompoundFile(data)
        subject = _text(file, _SUBJECT)
        headers = {
            "From": _sender(file),
            "To": _text(file, _TO),
            "Cc": _text(file, _CC),
            "Date": _date(file),
            "Subject": subject,
        }
        body = file.read((f"__substg1.0_{_PAGE:04X}0102",))
        text = _text(file, _BODY)
        page = read_page(decoded(body or _text(file, _PAGE).encode()).text)
        text = BETWEEN.join(part.text for part in page.parts) or text
        text = with_headers(iter(headers.items()), with_plain_lines(text))
        folders = sorted({path[0] for path in file.paths if path[0].startswith(_ATTACHED)})
        attached = [
            next(filter(None, (_text(file, name, folder) for name in _NAMES)), "without a name")
            for folder in folders
        ]
        only_rtf = [""] if not text and file.read((f"__substg1.0_{_RTF:04X}0102",)) else []
        if only_rtf:
            raise damaged("message has its text as RTF only")
        return Read(
            (Section("part", 1, text, shortened(subject)),) if text else (),
            left_out=left_out_line("Attachments", attached) + unseen_line(page.unseen),
        )


def _sender(file: "_CompoundFile") -> str:
    name = _text(file, _FROM)
    address = next((each for tag in _FROM_ADDRESSES if "@" in (each := _text(file, tag))), "")
    return f"{name} <{address}>" if name and address and name != address else name or address


def _date(file: "_CompoundFile") -> str:
    properties = file.read((_FIXED,))[32:]
    for start in range(0, len(properties) - 15, 16):
        kind, name, _, value = struct.unpack_from("<HHIQ", properties, start)
        if name in _DATES and kind == 0x0040:
            moment = _START_OF_TIME + timedelta(microseconds=value // 10)
            return moment.isoformat(" ", "minutes").replace("+00:00", " UTC")
    return ""


def _text(file: "_CompoundFile", name: int, *folder: str) -> str:
    stream = (*folder, f"__substg1.0_{name:04X}001F")
    if found := file.read(stream):
        return found.decode("utf-16-le", "replace").rstrip("\0")
    found = file.read((*folder, f"__substg1.0_{name:04X}001E"))
    return decode(found.rstrip(b"\0")).text if found else ""


class _CompoundFile:
    """The streams of a file that is a small file system, by their paths."""

    def __init__(self, data: bytes) -> None:
        shifts, head = struct.unpack_from("<HH", data, 30), struct.unpack_from("<9I", data, 40)
        if shifts[0] not in (9, 12) or shifts[1] != 6:
            raise damaged("message is damaged: its sectors have an odd size")
        first_directory, self._small_below, first_small, next_table = (
            head[i] for i in (2, 4, 5, 7)
        )
        self._data = data
        self._size, self._small_size = 1 << shifts[0], 1 << shifts[1]
        tables = list(struct.unpack_from("<109I", data, 76))
        most = len(data) // self._size
        while next_table < _SECTORS and len(tables) <= most + 109:  # [DIFAT]
            more = self._numbers(next_table)
            tables += more[:-1]
            next_table = more[-1]
        self._next = array("I")  # [FAT]
        for table in tables:
            if table < _SECTORS and len(self._next) <= most:
                self._next.extend(self._numbers(table))
        self._small_next = array("I")  # [mini FAT]
        directory = b"".join(self._sectors(first_directory))
        listed = b"".join(self._sectors(first_small))
        self._small_next.frombytes(listed[: len(listed) // 4 * 4])
        entries = [
            _ENTRY.unpack_from(directory, start)
            for start in range(0, min(len(directory), _ENTRIES * 128) - 127, 128)
        ]
        self.paths: dict[tuple[str, ...], tuple[int, int]] = {}
        self._small = b""
        if not entries or entries[0][2] != _ROOT:
            raise damaged("message is damaged: it has no contents")
        self._small = b"".join(self._sectors(entries[0][7]))
        waiting: list[tuple[int, tuple[str, ...]]] = [(entries[0][6], ())]
        seen = {0}
        while waiting:
            number, folder = waiting.pop()
            if number in seen or number >= len(entries):
                continue
            seen.add(number)
            name, length, kind, _, left, right, child, start, size = entries[number]
            path = (*folder, name[: max(length - 2, 0)].decode("utf-16-le", "replace"))
            if kind == _STREAM:
                self.paths[path] = start, size & 0xFFFFFFFF
            elif kind == _STORAGE:
                waiting.append((child, path))
            waiting += [(left, folder), (right, folder)]

    def read(self, path: tuple[str, ...]) -> bytes:
        """The content of a stream; empty if there is none."""
        start, size = self.paths.get(path, (0, 0))
        if size == 0:
            return b""
        sectors = self._small_sectors(start) if size < self._small_below else self._sectors(start)
        content = bytearray()
        for sector in sectors:
            content += sector
            if len(content) >= size:
                break
        return bytes(content[:size])

    def _numbers(self, sector: int) -> list[int]:
        start = (sector + 1) * self._size
        return list(struct.unpack_from(f"<{self._size // 4}I", self._data, start))

    def _sectors(self, number: int) -> Iterator[bytes]:
        for each in _chain(self._next, number):
            start = (each + 1) * self._size
            yield self._data[start : start + self._size]

    def _small_sectors(self, number: int) -> Iterator[bytes]:
        for each in _chain(self._small_next, number):
            yield self._small[each * self._small_size : (each + 1) * self._small_size]


def _chain(following: "array[int]", number: int) -> Iterator[int]:
    """Yield a sector's number, and the numbers that follow it; a circle ends it."""
    for _ in range(len(following)):
        if number >= len(following):
            return
        yield number
        number = following[number]
