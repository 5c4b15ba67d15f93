"""A picture of a page, with boxes around parts of its text: plain values, and a writer of PNG."""

import struct
import zlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Box:
    """Where a part of a span stands, in pixels from the picture's upper left corner; `span` is the
    number of the span, from 0."""

    span: int
    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True, slots=True)
class PagePicture:
    """`boxes`: those of a span follow each other, one for each line that it is in, or more where
    there are gaps."""

    png: bytes
    width: int
    height: int
    boxes: tuple[Box, ...]


def png(pixels: bytes, *, width: int, height: int, row_bytes: int) -> bytes:
    """Three bytes a pixel, red, green and blue, as a PNG file."""
    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = b"".join(
        b"\0" + pixels[start : start + 3 * width]
        for start in range(0, height * row_bytes, row_bytes)
    )
    chunks = ((b"IHDR", size), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
