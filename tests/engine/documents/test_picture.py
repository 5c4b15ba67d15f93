"""Pictures are decoded to RGB on white, upright, within limits; what cannot be is one Problem."""

import pytest
from PIL import Image

from engine.documents.picture import read_picture
from models.errors import Problem
from tests.support.documents.pictures import SIZE, drawn, samples, saved, too_large, turned

RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)


def pixel(read, across, down):
    place = 3 * (down * read.width + across)
    return tuple(read.rgb[place : place + 3])


def near(one, other):
    return all(abs(a - b) < 30 for a, b in zip(one, other, strict=True))


def test_sizes_and_colours_are_kept_however_they_are_written():
    for format, files in samples().items():
        for data in files:
            read = read_picture(data)
            assert {read.width, read.height} == {*SIZE}, format
            assert len(read.rgb) == 3 * read.width * read.height
    for data in (
        saved(drawn("P"), "PNG"),
        saved(drawn(), "PNG", icc_profile=b"no profile"),
        saved(drawn("CMYK"), "JPEG", quality=95),
        saved(drawn(), "WEBP", lossless=True),
        saved(drawn(), "GIF", save_all=True, append_images=[Image.new("RGB", SIZE, "green")]),
        saved(drawn(), "BMP"),
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


def test_other_kinds_damaged_ones_and_too_large_ones_are_named():
    pages = saved(drawn(), "TIFF", save_all=True, append_images=[drawn()])
    noise = Image.effect_noise((64, 64), 50)
    files = [saved(noise, each) for each in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")]
    for said, data in (
        ("pages", pages),
        *KINDS.items(),
        *(("damaged", file[:length]) for file in files for length in (12, len(file) // 2)),
        *(("pixels", file) for file in too_large()),  # before anything is decoded
    ):
        with pytest.raises(Problem, match=said) as caught:
            read_picture(data)
        assert ("PDF" in caught.value.remedy) == (said == "pages")
        assert said not in KINDS or "JPEG or PNG" in caught.value.remedy
