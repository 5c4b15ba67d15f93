"""Small pictures of every format that is read, and files that claim or unpack to far too much."""

import struct
import zlib
from io import BytesIO

from PIL import Image

SIZE = (48, 32)
CORNER = (8, 8)
"""The upper left corner is red, the rest is blue."""


def drawn(mode="RGB", size=SIZE):
    """A blue picture with a red corner at the upper left."""
    picture = Image.new("RGB", size, "blue")
    picture.paste("red", (0, 0, *CORNER))
    return picture.convert(mode)


def saved(picture, format, **options):
    """The bytes of a file."""
    file = BytesIO()
    picture.save(file, format, **options)
    return file.getvalue()


def turned(format, orientation):
    """A picture that a camera wrote with this orientation."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved(drawn(), format, exif=exif, **({"lossless": True} if format == "WEBP" else {}))


def samples():
    """The bytes of pictures, by format."""
    frames = {"save_all": True, "append_images": [Image.new("RGB", SIZE, "green")]}
    veiled = drawn("RGBA")
    veiled.putalpha(100)
    deep = Image.new("I;16", SIZE, 40_000)
    return {
        "png": [
            *(saved(drawn(mode), "PNG") for mode in ("1", "L", "P", "RGB")),
            *(saved(veiled.convert(mode), "PNG") for mode in ("LA", "RGBA")),
            saved(deep, "PNG"),
            saved(drawn(), "PNG", **frames),
            turned("PNG", 6),
        ],
        "jpeg": [
            *(saved(drawn(mode), "JPEG", quality=95) for mode in ("L", "RGB", "CMYK")),
            saved(drawn(), "JPEG", progressive=True),
            turned("JPEG", 6),
        ],
        "webp": [
            saved(drawn(), "WEBP"),
            saved(veiled, "WEBP", lossless=True),
            saved(drawn(), "WEBP", **frames),
        ],
        "gif": [
            saved(drawn("P"), "GIF"),
            saved(drawn(), "GIF", **frames),
            saved(drawn("P"), "GIF", transparency=0),
        ],
        "bmp": [saved(drawn(mode), "BMP") for mode in ("1", "P", "RGB")],
        "tiff": [
            *(saved(drawn(), "TIFF", compression=how) for how in ("raw", "tiff_lzw", "jpeg")),
            saved(drawn("CMYK"), "TIFF"),
            saved(deep, "TIFF", big_endian=True),
            saved(drawn("F"), "TIFF"),
            saved(drawn(), "TIFF", tiffinfo={254: 1}, **frames),  # a smaller copy
        ],
    }


def _png_of(width, height, *chunks):
    """A PNG with this size, these chunks, and nothing that must be so."""
    head = (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in (head, *chunks, (b"IEND", b""))
    )


def too_large():
    """Files that claim far more pixels than they have, by a name for each."""
    jpeg = saved(drawn(size=(256, 256)), "JPEG")
    gif, bmp, tiff = (saved(drawn("P"), format) for format in ("GIF", "BMP", "TIFF"))
    for tag, side in zip((256, 257), SIZE, strict=True):
        tiff = tiff.replace(
            struct.pack("<HHII", tag, 4, 1, side), struct.pack("<HHII", tag, 4, 1, 10**9)
        )
    return {
        "png of 2^31 - 1 by 2^31 - 1": _png_of(
            2**31 - 1, 2**31 - 1, (b"IDAT", zlib.compress(bytes(200)))
        ),
        "jpeg of 65,500 by 65,500": _put(jpeg, jpeg.index(b"\xff\xc0") + 5, ">HH", 65_500, 65_500),
        "gif of 65,535 by 65,535": _put(gif, 6, "<HH", 65_535, 65_535),
        "bmp of 2^31 - 1 by 2^31 - 1": _put(bmp, 18, "<ii", 2**31 - 1, 2**31 - 1),
        "tiff of 10^9 by 10^9": tiff,
    }


def many_frames():
    """Animations of 30,000 frames, by their formats."""
    gif, webp = (saved(drawn("P"), format) for format in ("GIF", "WEBP"))
    return {
        "gif": gif[:-1] + gif[gif.rindex(b",\0\0\0\0") : -1] * 30_000 + gif[-1:],
        "webp": _many_frames(webp, 30_000),
    }


def _put(data, place, form, *values):
    written = struct.pack(form, *values)
    return data[:place] + written + data[place + len(written) :]


def _many_frames(webp, count):
    """An animation of copies of this still."""
    side = struct.pack("<I", SIZE[0] - 1)[:3] + struct.pack("<I", SIZE[1] - 1)[:3]
    head = _webp_chunk(b"VP8X", b"\2\0\0\0" + side) + _webp_chunk(b"ANIM", bytes(6))
    frame = _webp_chunk(b"ANMF", bytes(6) + side + b"\1\0\0\0" + webp[12:])
    body = b"WEBP" + head + frame * count
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _webp_chunk(name, data):
    return name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)
