"""Disk images: what is written is read, and what is damaged is noticed."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image import udif
from image.udif import SECTOR, read_image, write_image

PIECES = st.lists(
    st.one_of(
        st.just(bytes(SECTOR)),
        st.binary(min_size=SECTOR, max_size=SECTOR),
        st.binary(min_size=1, max_size=1).map(lambda byte: byte * 700 * SECTOR),
    ),
    min_size=1,
    max_size=4,
)


@given(PIECES)
def test_a_volume_comes_back(tmp_path_factory, pieces):
    folder = tmp_path_factory.mktemp("image")
    volume = b"".join(pieces)
    (folder / "raw").write_bytes(volume)
    write_image(folder / "raw", folder / "a.dmg")
    assert b"".join(read_image(folder / "a.dmg")) == volume
    assert (folder / "a.dmg").read_bytes()[-512:-508] == b"koly"


def _image(folder):
    """Of pieces of each kind: zeros, what deflates, and what does not."""
    noise = os.urandom(udif._PIECE)
    text = b"slipstream" * (udif._PIECE // 10 + 1)
    raw = folder / "raw"
    raw.write_bytes(bytes(udif._PIECE) + text[: udif._PIECE] + noise + bytes(3 * SECTOR))
    write_image(raw, folder / "a.dmg")
    return folder / "a.dmg"


@pytest.mark.parametrize(
    "place",
    [100, 5000, 200_000, -512, -293, -150],
    ids=["deflated", "noise", "more noise", "magic", "where the table is", "checksum"],
)
def test_a_flipped_byte_is_noticed(tmp_path, place):
    image = _image(tmp_path)
    data = bytearray(image.read_bytes())
    data[place] ^= 0xFF
    image.write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.dmg|image|piece"):
        list(read_image(image))
