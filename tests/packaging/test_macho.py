"""Reading Mach-O files: what they say, and that damaged ones are refused in order."""

import contextlib
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

import macho
from macho import Import, LinkedLibrary, MachoError, thin
from tests.support.packaging.tiny_macho import (
    ARM64,
    EXECUTE,
    X86_64,
    TinyMacho,
    universal,
    with_circular_exports,
)

SYSTEM = "/usr/lib/libSystem.B.dylib"


def test_what_an_image_says():
    image = macho.read(
        TinyMacho(
            file_type=EXECUTE,
            minimum_macos=(14, 2),
            libraries=(SYSTEM, "@rpath/libmlx.dylib"),
            weak_libraries=("/usr/lib/libz.1.dylib",),
            rpaths=("@loader_path/lib",),
            imports=(("_printf", 1, False), ("_mlx", 2, True), ("_anywhere", 254, False)),
        ).build()
    )
    assert image.architecture == "arm64"
    assert image.file_type == macho.EXECUTE
    assert image.minimum_macos == (14, 2, 0)
    assert image.sdk == (14, 4, 0)
    assert image.libraries == (
        LinkedLibrary(SYSTEM, weak=False),
        LinkedLibrary("@rpath/libmlx.dylib", weak=False),
        LinkedLibrary("/usr/lib/libz.1.dylib", weak=True),
    )
    assert image.rpaths == ("@loader_path/lib",)
    assert image.imports == (
        Import("_printf", SYSTEM, weak=False),
        Import("_mlx", "@rpath/libmlx.dylib", weak=True),
        Import("_anywhere", "", weak=False),
    )
    assert image.signature_bytes == 0


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (TinyMacho(file_type=EXECUTE).build(), True),
        (TinyMacho().build(), False),
        (universal({ARM64: TinyMacho(file_type=EXECUTE).build()}), False),
        (b"#!/bin/sh\n", False),
        (b"", False),
    ],
    ids=["a program", "a library", "a universal one", "a script", "nothing"],
)
def test_what_is_run_by_itself(data, expected):
    assert macho.is_program(data) is expected


def test_imports_that_only_the_loader_s_own_table_has():
    image = macho.read(TinyMacho(chained_imports=(("_a", 1, False), ("_b", 1, True))).build())
    assert image.imports == (Import("_a", SYSTEM, weak=False), Import("_b", SYSTEM, weak=True))


def test_several_architectures():
    both = universal({X86_64: TinyMacho(cpu=X86_64).build(), ARM64: TinyMacho().build()})
    assert macho.architectures(both) == ("x86_64", "arm64")
    assert macho.architectures(b"\xfe\xed\xfa\xce") == ("32 bits or big-endian",)
    for data, named in ((both, "one architecture"), (both[:20], "header"), (b"text", "not a Mach")):
        with pytest.raises(MachoError, match=named):
            macho.read(data)
    for data in (both[:20], both[:36], b"\xcf\xfa\xed\xfe", b"text"):
        with pytest.raises(MachoError):
            macho.architectures(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (TinyMacho().build(), True),
        (universal({ARM64: TinyMacho().build()}), True),
        (b"\xca\xfe\xba\xbe\x00\x00\x00\x2d", False),  # the oldest Java class: version 45
        (b"\xca\xfe\xba\xbe\x00\x00\x00\x41", False),  # of version 65
        (b"\xca\xfe\xba\xbe", False),
        (b"\x7fELF\x02\x01\x01\0", False),  # a program for Linux
        (b"#!/bin/sh\n", False),
        (b"", False),
    ],
)
def test_what_counts_as_a_mach_o_file(tmp_path, data, expected):
    (tmp_path / "file").write_bytes(data)
    (tmp_path / "link").symlink_to("file")
    assert macho.is_macho(tmp_path / "file") is expected
    assert not macho.is_macho(tmp_path / "link")
    assert not macho.is_macho(tmp_path)


@given(intel=st.binary(), arm=st.binary())
def test_the_part_that_is_asked_for(intel, arm):
    data = universal({X86_64: intel, ARM64: arm})
    assert thin(data, "arm64") == arm
    assert thin(data, "x86_64") == intel


def test_what_is_not_taken_apart():
    classes = [
        struct.pack(">II", 0xCAFEBABE, version) + bytes(100) for version in (45, 65)
    ]  # Java's
    for data in (b"", b"text", *classes):
        assert thin(data, "arm64") == data
    head = struct.pack(">II", 0xCAFEBABF, 1) + struct.pack(">IIQQII", ARM64, 0, 40, 3, 0, 0)
    assert thin(head + b"arm", "arm64") == b"arm", "the wide form"
    with pytest.raises(ValueError, match="arm64"):
        thin(universal({X86_64: b"intel"}), "arm64")


@given(st.integers(min_value=8))
def test_an_architecture_that_is_cut_off(length):
    data = universal({ARM64: b"whole"})
    with pytest.raises(ValueError, match="arm64"):
        thin(data[: min(length, len(data) - 1)], "arm64")


@given(st.data())
def test_a_damaged_image_is_refused_in_order_or_read(data):
    image = bytearray(TinyMacho(imports=(("_a", 1, False),), rpaths=("@loader_path",)).build())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(4, 0x200) | st.integers(4, len(image) - 1))
        image[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(image)) | st.just(len(image)))
    with contextlib.suppress(MachoError):
        macho.read(bytes(image[:cut]))


def test_a_header_that_is_all_there_is():
    header = bytearray(TinyMacho().build()[:32])
    header[16:24] = bytes(8)  # no load commands
    assert macho.read(bytes(header)).rpaths == ()
    with pytest.raises(MachoError, match="within its header"):
        macho.read(bytes(header[:31]))


@pytest.mark.parametrize("size_bytes", [0, 7, 0x10000000])
def test_a_load_command_of_no_sensible_size(size_bytes):
    image = bytearray(TinyMacho().build())
    image[36:40] = size_bytes.to_bytes(4, "little")
    with pytest.raises(MachoError, match="load command"):
        macho.read(bytes(image))


def test_exports_that_lead_in_a_circle_are_none():
    image = TinyMacho(exports=("_a",)).build()
    assert macho.read(image).exports == {"_a"}
    assert macho.read(with_circular_exports(image, "_a")).exports == frozenset()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (lambda image: image.index(b"__TEXT") + 0x28, 0x7FFFFFFF),  # size in the file
        (lambda image: image.index(b"\x02\0\0\0\x18\0\0\0") + 12, 0x10000),  # how many symbols
        (lambda image: image.index(b"\x34\0\0\x80") + 12, 0x10000),  # size of the fixups
    ],
    ids=["segment", "symbols", "imports"],
)
def test_what_reaches_beyond_the_file(place, value):
    # LIEF would go on with what is left, and a library that is missed would not be looked for.
    tiny = TinyMacho(imports=(("_a", 1, False),), chained_imports=(("_b", 1, False),))
    image = bytearray(tiny.build())
    struct.pack_into("<I", image, place(bytes(image)), value)
    with pytest.raises(MachoError, match="beyond the file"):
        macho.read(bytes(image))


@pytest.mark.parametrize("size", [4, 7, 31])
def test_a_file_that_ends_within_its_header(size, tmp_path, monkeypatch):
    # LIEF would take so few bytes for a file's name, and read that file.
    monkeypatch.chdir(tmp_path)
    start = TinyMacho().build()[:size]
    (tmp_path / os.fsdecode(start.partition(b"\0")[0])).write_bytes(TinyMacho().build())
    with pytest.raises(MachoError, match="within its header"):
        macho.read(start)


def test_an_sdk_that_is_newer_than_the_oldest_system():
    data = TinyMacho(minimum_macos=(14, 0), sdk=(27, 1)).build()
    assert macho.read(data).sdk == (27, 1, 0)
    assert macho.without_newer_sdk(data) == TinyMacho(minimum_macos=(14, 0), sdk=(14, 0)).build()


def test_room_for_a_signature():
    data = TinyMacho().build()
    grown = macho.with_room_for_signature(data, 160)
    image = macho.read(grown + bytes(160))
    assert image.signature_offset == len(grown)
    assert image.signature_bytes == 160
    linkedit = image.segment("__LINKEDIT")
    assert linkedit.file_offset + linkedit.file_bytes == len(grown) + 160
    # Once more: the older signature goes, and no second command is added.
    again = macho.with_room_for_signature(grown + bytes(160), 64)
    assert len(again) == len(grown)
    assert macho.read(again + bytes(64)).signature_bytes == 64
    assert macho.read(again + bytes(64)).signature_command_offset == image.signature_command_offset


def test_no_room_for_the_load_command():
    commands_end = next(
        size for size in range(0x100, 0x400) if _fits(TinyMacho(padding=size, code=bytes(64)))
    )
    with pytest.raises(MachoError, match="no room"):
        macho.with_room_for_signature(TinyMacho(padding=commands_end).build(), 64)


def _fits(tiny):
    try:
        tiny.build()
    except AssertionError:
        return False
    return True
