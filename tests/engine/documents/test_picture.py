"""Pictures are decoded to RGB on white, upright, within limits; what cannot be is one Problem."""

import pytest
from PIL import Image

from engine.documents.picture import read_picture
from models.errors import Problem
from tests.support.documents.pictures import (
    SIZE,
    drawn,
    many_frames,
    samples,
    saved,
    too_large,
    turned,
)

RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)


def pixel(read, across, down):
    place = 3 * (down * read.width + across)
    return tuple(read.rgb[place : place + 3])


def near(one, other):
    return all(abs(a - b) < 30 for a, b in zip(one, other, strict=True))


def test_each_format_and_mode_has_its_size():
    for format, files in samples().items():
        for data in files:
            read = read_picture(data)
            assert {read.width, read.height} == {*SIZE}, format
            assert len(read.rgb) == 3 * read.width * read.height


def test_colours_are_kept_however_they_are_written():
    for data in (
        saved(drawn("P"), "PNG"),
        saved(drawn(), "PNG", icc_profile=b"no profile"),
        saved(drawn("CMYK"), "JPEG", quality=95),
        saved(drawn(), "JPEG", quality=95),
        saved(drawn(), "WEBP", lossless=True),
        saved(drawn(), "GIF", save_all=True, append_images=[Image.new("RGB", SIZE, "green")]),
        saved(drawn(), "BMP"),
        saved(drawn("CMYK"), "TIFF"),
    ):
        read = read_picture(data)
        assert near(pixel(read, 2, 2), RED), data[:8]
        assert near(pixel(read, 40, 20), BLUE), data[:8]


def test_sixteen_bits_and_numbers_of_no_scale_become_eight():
    deep, numbers = Image.new("I;16", (2, 1)), Image.new("F", (2, 1))
    deep.putdata([0x4000, 0xFFFF])
    numbers.putdata([-7.5, 1e6])
    turned_bytes = Image.frombytes("I;16B", (2, 1), bytes((0x40, 0, 0xFF, 0xFF)))
    for data in (
        saved(deep, "PNG"),
        saved(deep, "PNG", transparency=5),
        saved(turned_bytes, "TIFF", big_endian=True),
    ):
        assert [*read_picture(data).rgb] == [0x40] * 3 + [0xFF] * 3
    assert [*read_picture(saved(numbers, "TIFF")).rgb] == [0] * 3 + [255] * 3


def test_transparency_is_on_white():
    veiled = Image.new("RGBA", (2, 1), (255, 0, 0, 0))
    veiled.putpixel((1, 0), (*RED, 255))
    keyed = Image.new("P", (2, 1))
    keyed.putpalette([0, 0, 0, *RED])
    keyed.putdata([0, 1])
    for data in (
        saved(veiled, "PNG"),
        saved(veiled, "WEBP", lossless=True),
        saved(veiled, "TIFF"),
        saved(keyed, "GIF", transparency=0),
        saved(keyed, "PNG", transparency=0),
    ):
        read = read_picture(data)
        assert [pixel(read, 0, 0), pixel(read, 1, 0)] == [WHITE, RED], data[:8]


def test_it_stands_upright_whatever_the_camera_says():
    places = ((0, 0), (1, 0), (1, 1), (0, 1), (0, 0), (1, 0), (1, 1), (0, 1))
    corners = dict(enumerate(places, start=1))
    for format in ("PNG", "JPEG", "WEBP", "TIFF"):
        for orientation, (right, below) in corners.items():
            read = read_picture(turned(format, orientation))
            assert (read.width, read.height) == (SIZE if orientation < 5 else SIZE[::-1])
            place = (right * (read.width - 4) + 2, below * (read.height - 4) + 2)
            assert near(pixel(read, *place), RED), (format, orientation)


def test_a_large_one_is_scaled_down_but_not_for_its_length(monkeypatch):
    monkeypatch.setattr("engine.documents.picture.PICTURE_PIXELS", 60_000)
    monkeypatch.setattr("engine.documents.picture.LONG_PIXELS", 167_772)
    for size, format, wanted in (
        ((20_000, 1), "PNG", (16_384, 1)),
        ((129, 2_000), "PNG", (104, 1_612)),
        ((1_200, 310), "PNG", (481, 124)),
        ((300, 210), "JPEG", (292, 204)),
        ((210, 280), "JPEG", (210, 280)),
    ):
        read = read_picture(saved(Image.new("L", size), format))
        assert (read.width, read.height) == wanted
    monkeypatch.setattr("engine.documents.picture.SHORT_SIDE", 100)
    read = read_picture(saved(Image.new("L", (110, 50)), "PNG"))
    assert (read.width, read.height) == (100, 45)


def test_several_pages_and_other_kinds_are_named_with_a_remedy():
    pages = saved(drawn(), "TIFF", save_all=True, append_images=[drawn()])
    for said, data, remedy in (
        ("pages", pages, "Save it as PDF."),
        *((said, data, "Save it as JPEG or PNG.") for said, data in KINDS.items()),
    ):
        with pytest.raises(Problem, match=said) as caught:
            read_picture(data)
        assert caught.value.remedy == remedy


KINDS = {
    "HEIC": b"\0\0\0\x18ftypheic\0\0\0\0",
    "AVIF": b"\0\0\0\x18ftypavif\0\0\0\0",
    "SVG": b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>',
    "video": b"\0\0\0\x18ftypisom\0\0\0\0",
    "PDF": b"%PDF-1.7",
    "Photoshop": b"8BPS\0\1",
    "ICO": b"\0\0\1\0\1\0",
    "JPEG XL": b"\xff\x0a\xfa",
    "not supported": b"Dear Ada,",
}


def test_what_is_cut_off_is_damaged():
    for format in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"):
        data = saved(Image.effect_noise((64, 64), 50), format)
        for length in (12, len(data) // 2):
            with pytest.raises(Problem, match="damaged"):
                read_picture(data[:length])


def test_a_size_that_is_too_large_is_refused_before_anything_is_decoded():
    for data in too_large().values():
        with pytest.raises(Problem, match="pixels"):
            read_picture(data)


def test_what_comes_after_the_first_frame_is_not_read():
    for data in many_frames().values():
        read = read_picture(data)
        assert (read.width, read.height) == SIZE
