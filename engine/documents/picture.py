"""Decodes a picture by a stranger to plain pixels: RGB, upright, its first frame, on white.

A picture of several pages is refused: a PDF of them is read page by page.

Colour profiles are ignored, as the processors that models were trained with ignore them. The size
that a file claims is looked at before anything is decoded. Knows no model; see `child` for where
this runs, and `reading.normalize` for what becomes of the pixels.
"""

import warnings
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import cast

from PIL import ExifTags, Image
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from engine.documents.limits import (
    JPEG_PIXELS,
    LONG,
    LONG_PIXELS,
    PICTURE_PIXELS,
    PICTURE_SIDE,
    SHORT_SIDE,
    UNSCALED_PIXELS,
)
from engine.documents.page_picture import AS_PNG
from engine.documents.zips import reading
from models.errors import Problem

_READERS: dict[bytes, type[ImageFile]] = {
    b"\x89PNG\r\n\x1a\n": PngImageFile, b"\xff\xd8\xff": JpegImageFile, b"BM": BmpImageFile,
    b"GIF87a": GifImageFile, b"GIF89a": GifImageFile,
    b"II*\0": TiffImageFile, b"MM\0*": TiffImageFile,
}  # fmt: skip
_REFUSED = {
    b"8BPS": "a drawing of Photoshop", b"\0\0\1\0": "an icon (ICO)", b"%PDF": "a PDF",
    b"\xff\x0a": "JPEG XL", b"\0\0\0\x0cJXL ": "JPEG XL", b"\0\0\0\x0cjP  ": "JPEG 2000",
    b"II+\0": "BigTIFF", b"MM\0+": "BigTIFF",
}  # fmt: skip
_FAMILIES = {
    b"heic": "HEIC", b"heix": "HEIC", b"hevc": "HEIC", b"mif1": "HEIC", b"msf1": "HEIC",
    b"avif": "AVIF", b"avis": "AVIF",
}  # fmt: skip
_MOST_COPIES = 20
_KIND_OF_FRAME = 254  # a tag of TIFF; 1: a smaller copy of another frame
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_90,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pixels:
    """A picture's pixels row by row, three bytes each: red, green, blue."""

    width: int
    height: int
    rgb: bytes


def read_picture(data: bytes) -> Pixels:
    """Decode a picture. Raises `Problem`."""
    reader = _reader_of(data)
    # Pillow's own limit warns of some sizes and refuses others; ours is below.
    Image.MAX_IMAGE_PIXELS = None
    with reading("picture", AS_PNG), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = reader(BytesIO(data))
        most = JPEG_PIXELS if reader is JpegImageFile else UNSCALED_PIXELS
        if opened.width * opened.height > most:
            raise Problem(
                f"The picture has {opened.width:,} × {opened.height:,} pixels.",
                f"Save it with at most {most // 10**6} million.",
            )
        if isinstance(opened, TiffImageFile) and _has_pages(opened):
            raise Problem("The picture has several pages.", "Save it as PDF.")
        wanted = _size_within(opened.size)
        opened.draft(None, wanted)  # a JPEG is scaled while it is decoded
        opened.load()
        picture = _on_white(_scaled(_in_bytes(opened), wanted))
        if (turn := _turn_of(opened)) is not None:
            picture = picture.transpose(turn)
    return Pixels(picture.width, picture.height, picture.tobytes())


def _reader_of(data: bytes) -> type[ImageFile]:
    """Pillow's reader of the format. Raises `Problem` if there is none."""
    for start, reader in _READERS.items():
        if data.startswith(start):
            return reader
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return WebPImageFile
    kind = next((kind for start, kind in _REFUSED.items() if data.startswith(start)), "")
    if data[4:8] == b"ftyp":
        kind = _FAMILIES.get(data[8:12], "a video")
    if b"<svg" in data[:4096].lower():
        kind = "SVG"
    if kind:
        raise Problem(f"The picture is {kind}, which cannot be read.", AS_PNG)
    if not data:
        raise Problem("The picture is empty.", "Choose another one.")
    raise Problem("The format of this picture is not supported.", AS_PNG)


def _has_pages(opened: TiffImageFile) -> bool:
    """Whether more follows the first page than smaller copies of it."""
    with suppress(Exception):  # a damaged end does no harm to the first page
        for number in range(1, _MOST_COPIES):
            opened.seek(number)
            if not opened.tag_v2.get(_KIND_OF_FRAME, 0) & 1:
                return True
    opened.seek(0)
    return False


def _size_within(size: tuple[int, int]) -> tuple[int, int]:
    """The size, scaled down to the limits where it is larger."""
    width, height = size
    long = max(size) > LONG * min(size)
    side, most = (PICTURE_SIDE, LONG_PIXELS) if long else (SHORT_SIDE, PICTURE_PIXELS)
    scale = min(1.0, side / max(size), (most / (width * height)) ** 0.5)
    return max(1, int(width * scale)), max(1, int(height * scale))


def _in_bytes(picture: Image.Image) -> Image.Image:
    """The picture in a mode with a byte for each channel, and alpha if it has any."""
    if picture.mode.startswith("I;16"):
        return _linear(picture.convert("I"), 1 / 256)
    if picture.has_transparency_data:
        return picture.convert("RGBA")
    if picture.mode in ("I", "F"):  # measurements, which have no scale of their own
        low, high = cast(tuple[float, float], picture.getextrema())
        scale = 255.0 / max(high - low, 1e-30)
        return _linear(picture, scale, -low * scale)
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _linear(picture: Image.Image, scale: float, offset: float = 0.0) -> Image.Image:
    return picture.point(lambda value: value * scale + offset).convert("L")


def _scaled(picture: Image.Image, wanted: tuple[int, int]) -> Image.Image:
    """Scaled down; a JPEG is so in part already."""
    if picture.width <= wanted[0] and picture.height <= wanted[1]:
        return picture
    return picture.resize(wanted, Image.Resampling.LANCZOS, reducing_gap=3.0)


def _on_white(picture: Image.Image) -> Image.Image:
    if picture.mode != "RGBA":
        return picture if picture.mode == "RGB" else picture.convert("RGB")
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, picture).convert("RGB")


def _turn_of(picture: Image.Image) -> Image.Transpose | None:
    """How the picture has to be turned; a camera's remarks that are broken do not say."""
    try:
        return _TURNS.get(picture.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:
        return None
