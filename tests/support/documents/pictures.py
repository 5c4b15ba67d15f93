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


def png_of(width, height, *chunks, mode=2):
    """A PNG with this size, these chunks, and nothing that must be so."""
    head = (b"IHDR", struct.pack(">IIBBBBB", width, height, 8 if mode else 1, mode, 0, 0, 0))
    parts = (head, *chunks, (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )


def zeros(count):
    """Packed zeros."""
    packer = zlib.compressobj(1)
    block = bytes(1 << 20)
    parts = [packer.compress(block) for _ in range(count >> 20)]
    return b"".join((*parts, packer.compress(bytes(count % (1 << 20))), packer.flush()))


def bombs():
    """What makes files that claim, or unpack to, far more than they have, by a name for each."""
    jpeg, progressive = (
        saved(drawn(size=(256, 256)), "JPEG", progressive=progressive)
        for progressive in (False, True)
    )
    gif, bmp, tiff, webp = (saved(drawn("P"), format) for format in ("GIF", "BMP", "TIFF", "WEBP"))
    frame, wide = jpeg.index(b"\xff\xc0") + 5, progressive.index(b"\xff\xc2") + 5
    large, last = _put(progressive, wide, ">HH", 8000, 8000), progressive.rindex(b"\xff\xda")
    pixels = (b"IDAT", zeros(200))
    exif = Image.Exif()
    exif.update({0x0112: 6, 0x010E: "x" * 60_000})
    sides = [
        struct.pack("<HHII", tag, 4, 1, side) for tag, side in zip((256, 257), SIZE, strict=True)
    ]
    return {
        "png of 65,535 by 65,535": lambda: png_of(65_535, 65_535, pixels),
        "png of 2^31 - 1 by 2^31 - 1": lambda: png_of(2**31 - 1, 2**31 - 1, pixels),
        "png of 900 megapixels in one bit": lambda: png_of(
            30_000, 30_000, (b"IDAT", zeros(30_000 * 3_751)), mode=0
        ),
        "png of 100 megapixels with alpha": lambda: png_of(
            10_000, 10_000, (b"IDAT", zeros(10_000 * 40_001)), mode=6
        ),
        "png that is one row": lambda: png_of(50_000_000, 1, (b"IDAT", zeros(150_000_001))),
        "png with a text of 300 MB": lambda: png_of(
            8, 8, (b"zTXt", b"Comment\0\0" + zeros(300_000_000)), pixels
        ),
        "png with a profile of 300 MB": lambda: png_of(
            8, 8, (b"iCCP", b"Profile\0\0" + zeros(300_000_000)), pixels
        ),
        "png with 300,000 texts": lambda: png_of(8, 8, *[(b"tEXt", b"a\0b")] * 300_000, pixels),
        "png whose pixels never end": lambda: png_of(64, 64, (b"IDAT", zeros(300_000_000))),
        "jpeg of 65,500 by 65,500": lambda: _put(jpeg, frame, ">HH", 65_500, 65_500),
        "progressive jpeg of 65,500 by 65,500": lambda: _put(
            progressive, wide, ">HH", 65_500, 65_500
        ),
        "progressive jpeg with 3,000 scans of 64 megapixels": lambda: (
            large[:last] + large[last:-2] * 3000 + large[-2:]
        ),
        "jpeg with broken remarks": lambda: saved(drawn(), "JPEG", exif=exif).replace(
            struct.pack(">HHI", 0x010E, 2, 60_001), struct.pack(">HHI", 0x010E, 2, 2**32 - 1)
        ),
        "gif of 65,535 by 65,535": lambda: _put(gif, 6, "<HH", 65_535, 65_535),
        "gif with 30,000 frames": lambda: (
            gif[:-1] + gif[gif.rindex(b",\0\0\0\0") : -1] * 30_000 + gif[-1:]
        ),
        "webp with 30,000 frames": lambda: _many_frames(webp, 30_000),
        "bmp of 2^31 - 1 by 2^31 - 1": lambda: _put(bmp, 18, "<ii", 2**31 - 1, 2**31 - 1),
        "tiff of 100 megapixels": lambda: saved(
            Image.new("L", (10_000, 10_000)), "TIFF", compression="packbits"
        ),
        "tiff whose pages are a circle": lambda: tiff[:-4] + tiff[4:8],
        "tiff of 10^9 by 10^9": lambda: tiff.replace(
            sides[0], struct.pack("<HHII", 256, 4, 1, 10**9)
        ).replace(sides[1], struct.pack("<HHII", 257, 4, 1, 10**9)),
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
