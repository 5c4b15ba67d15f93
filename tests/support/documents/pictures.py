"""Small pictures of every format that is read, and files that claim to be far too large."""

import struct
import zlib
from io import BytesIO

from PIL import Image

SIZE = (48, 32)


def drawn(mode="RGB", size=SIZE):
    """A blue picture with a red corner at the upper left."""
    picture = Image.new("RGB", size, "blue")
    picture.paste("red", (0, 0, 8, 8))
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


def too_large():
    """Files that claim far more pixels than they have."""
    png, jpeg = (saved(drawn(size=(256, 256)), format) for format in ("PNG", "JPEG"))
    png = _put(png, 16, ">II", 2**31 - 1, 2**31 - 1)
    gif, bmp, tiff = (saved(drawn("P"), format) for format in ("GIF", "BMP", "TIFF"))
    for tag, side in zip((256, 257), SIZE, strict=True):
        tiff = tiff.replace(
            struct.pack("<HHII", tag, 4, 1, side), struct.pack("<HHII", tag, 4, 1, 10**9)
        )
    return (
        _put(png, 29, ">I", zlib.crc32(png[12:29])),
        _put(jpeg, jpeg.index(b"\xff\xc0") + 5, ">HH", 65_500, 65_500),
        _put(gif, 6, "<HH", 65_535, 65_535),
        _put(bmp, 18, "<ii", 2**31 - 1, 2**31 - 1),
        tiff,
    )


def _put(data, place, form, *values):
    written = struct.pack(form, *values)
    return data[:place] + written + data[place + len(written) :]
