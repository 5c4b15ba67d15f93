"""A picture of a page with boxes around parts of its text, as plain values; and a PNG writer."""

import struct
import zlib
from dataclasses import dataclass

PIXELS_FROM = 41
"""The place of the packed pixels in a file that `png` writes: after two heads and the size."""
AS_PNG = "Save it as JPEG or PNG."
"""The remedy for a picture that cannot be read."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box around a part of span number `span` (from 0), in pixels from the upper left corner."""

    span: int
    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True, slots=True)
class PagePicture:
    """A page as PNG. `boxes` are ordered by span: one for each line of a span, more if the line has
    gaps."""

    png: bytes
    width: int
    height: int
    boxes: tuple[Box, ...]


def png(pixels: bytes, *, width: int, height: int, row_bytes: int, effort: int = -1) -> bytes:
    """Encode pixels, three bytes each (red, green, blue), as a PNG file. `effort`: zlib's level."""
    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = b"".join(
        b"\0" + pixels[start : start + 3 * width]
        for start in range(0, height * row_bytes, row_bytes)
    )
    chunks = ((b"IHDR", size), (b"IDAT", zlib.compress(rows, effort)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
