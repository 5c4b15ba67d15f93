"""Writes Apple's compressed disk images (UDIF) from a raw volume, and reads them again.

An image is the volume in pieces, each deflated alone (hdiutil's UDZO), then a property list with
the table of pieces, then a trailer of 512 bytes. All numbers are big-endian.

Source: the structures of libdmg-hfsplus and of 7-Zip's DmgHandler, as Apple publishes none. The
same volume gives the same bytes: the identifier, usually random, is a digest.
"""

import hashlib
import os
import plistlib
import struct
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import batched
from pathlib import Path
from typing import Any, BinaryIO

SECTOR = 512
_PIECE_SECTORS = 512
_PIECE = SECTOR * _PIECE_SECTORS
_ZEROS, _RAW, _DEFLATED, _END = 0, 1, 0x80000005, 0xFFFFFFFF
_TRAILER_BYTES = 512
_CRC32 = 2
_LEVEL = 9
_AT_ONCE = 64  # pieces that wait in memory

_TABLE = struct.Struct(">4sIQQQII24x")
_RUN = struct.Struct(">IIQQQQ")


@dataclass(frozen=True)
class _Run:
    """A piece: its kind, its first sector, its number of sectors, and its place in the image."""

    kind: int
    sector: int
    sectors: int
    offset: int
    size: int


def write_image(raw: Path, image: Path) -> None:
    """Compress the volume in `raw`, a whole number of sectors, to `image`."""
    runs: list[_Run] = []
    raw_crc = data_crc = offset = sector = 0
    identity = hashlib.sha256()
    with raw.open("rb") as source, image.open("wb") as target:
        for piece, packed in _packed(source):
            kind, stored = _stored(piece, packed)
            raw_crc, data_crc = zlib.crc32(piece, raw_crc), zlib.crc32(stored, data_crc)
            identity.update(stored)
            target.write(stored)
            runs.append(_Run(kind, sector, len(piece) // SECTOR, offset, len(stored)))
            sector += len(piece) // SECTOR
            offset += len(stored)
        runs.append(_Run(_END, sector, 0, offset, 0))
        names = plistlib.dumps(_resources(_table(runs, raw_crc)))
        target.write(names)
        target.write(
            _trailer(
                data_bytes=offset,
                names_bytes=len(names),
                sectors=sector,
                data_crc=data_crc,
                raw_crc=raw_crc,
                identity=identity.digest()[:16],
            )
        )


def read_image(image: Path) -> Iterator[bytes]:
    """Yield the volume in `image`, piece by piece. Raises ValueError if it is damaged."""
    with image.open("rb") as file:
        trailer = _tail(file)
        if trailer[:4] != b"koly":
            raise ValueError(f"{image} is not a disk image.")
        names_offset, names_size = struct.unpack_from(">QQ", trailer, 216)
        (claimed_crc,) = struct.unpack_from(">I", trailer, 360)
        file.seek(names_offset)
        try:
            resources: dict[str, Any] = plistlib.loads(file.read(names_size))
            table: bytes = resources["resource-fork"]["blkx"][0]["Data"]
        except Exception as error:  # plistlib raises what its parsers do
            raise ValueError(f"{image} has no table of its pieces.") from error
        (raw_crc,) = struct.unpack_from(">I", table, 72)
        if zlib.crc32(struct.pack(">I", raw_crc)) != claimed_crc:
            raise ValueError(f"{image} has another table than its trailer says.")
        found = 0
        for piece in _pieces(file, table):
            found = zlib.crc32(piece, found)
            yield piece
        if found != raw_crc:
            raise ValueError(f"{image} is damaged: its checksum is another.")


def _tail(file: BinaryIO) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TRAILER_BYTES))
    return file.read().ljust(_TRAILER_BYTES, b"\0")


def _pieces(file: BinaryIO, table: bytes) -> Iterator[bytes]:
    (count,) = struct.unpack_from(">I", table, 200)
    for kind, _, _, sectors, offset, size in _RUN.iter_unpack(table[204 : 204 + count * _RUN.size]):
        if kind == _END:
            return
        file.seek(offset)
        stored = file.read(size)
        try:
            piece = zlib.decompress(stored) if kind == _DEFLATED else stored
        except zlib.error as error:
            raise ValueError(f"A piece of the image is damaged: {error}.") from error
        if kind == _ZEROS:
            piece = bytes(sectors * SECTOR)
        yield piece


def _packed(source: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Yield every piece of `source` in order, plain and deflated, computed on all cores."""
    pieces = iter(lambda: source.read(_PIECE), b"")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for batch in batched(pieces, _AT_ONCE):
            packed = pool.map(lambda piece: zlib.compress(piece, _LEVEL), batch)
            yield from zip(batch, packed, strict=True)


def _stored(piece: bytes, packed: bytes) -> tuple[int, bytes]:
    if not piece.strip(b"\0"):
        return _ZEROS, b""
    return (_DEFLATED, packed) if len(packed) < len(piece) else (_RAW, piece)


def _table(runs: list[_Run], raw_crc: int) -> bytes:
    head = _TABLE.pack(b"mish", 1, 0, runs[-1].sector, 0, _PIECE_SECTORS + 8, 0)
    lines = [_RUN.pack(run.kind, 0, run.sector, run.sectors, run.offset, run.size) for run in runs]
    return head + _checksum(raw_crc) + struct.pack(">I", len(runs)) + b"".join(lines)


def _checksum(crc: int) -> bytes:
    return struct.pack(">III124x", _CRC32, 32, crc)


def _resources(table: bytes) -> dict[str, Any]:
    """The property list around the table of pieces, in the form of a resource fork."""
    name = "whole disk (Apple_HFS : 0)"
    block = {"Attributes": "0x0050", "CFName": name, "Data": table, "ID": "0", "Name": name}
    return {"resource-fork": {"blkx": [block]}}


def _trailer(
    *, data_bytes: int, names_bytes: int, sectors: int, data_crc: int, raw_crc: int, identity: bytes
) -> bytes:
    head = struct.pack(">4sIIIQQQQQII", b"koly", 4, _TRAILER_BYTES, 1, 0, 0, data_bytes, 0, 0, 1, 1)
    names = struct.pack(">QQ120x", data_bytes, names_bytes)
    of_tables = zlib.crc32(struct.pack(">I", raw_crc))
    end = struct.pack(">IQ12x", 1, sectors)
    return head + identity + _checksum(data_crc) + names + _checksum(of_tables) + end
