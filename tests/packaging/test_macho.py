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
    # Also of imports that only the loader's own table has.
    chained = TinyMacho(chained_imports=(("_a", 1, False), ("_b", 1, True)))
    both = (Import("_a", SYSTEM, weak=False), Import("_b", SYSTEM, weak=True))
    assert macho.read(chained.build()).imports == both


@pytest.mark.parametrize(
    ("data", "is_macho", "is_program"),
    [
        (TinyMacho(file_type=EXECUTE).build(), True, True),
        (TinyMacho().build(), True, False),
        (universal({ARM64: TinyMacho(file_type=EXECUTE).build()}), True, False),
        (b"\xca\xfe\xba\xbe\x00\x00\x00\x2d", False, False),
        (b"\xca\xfe\xba\xbe\x00\x00\x00\x41", False, False),
        (b"\xca\xfe\xba\xbe", False, False),
        (b"\x7fELF\x02\x01\x01\0", False, False),
        (b"#!/bin/sh\n", False, False),
        (b"", False, False),
    ],
    ids=["a program", "a library", "a universal one", "a Java class of version 45",
         "one of version 65", "a cut one", "a program for Linux", "a script", "nothing"],
)  # fmt: skip
def test_what_counts_as_a_mach_o_file_and_is_run_by_itself(tmp_path, data, is_macho, is_program):
    (tmp_path / "file").write_bytes(data)
    (tmp_path / "link").symlink_to("file")
    assert macho.is_macho(tmp_path / "file") is is_macho
    assert not macho.is_macho(tmp_path / "link")
    assert not macho.is_macho(tmp_path)
    assert macho.is_program(data) is is_program


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


@pytest.mark.parametrize("version", [45, 65])
def test_what_is_not_taken_apart(version):
    java = struct.pack(">II", 0xCAFEBABE, version) + bytes(100)
    for data in (b"", b"text", java):
        assert thin(data, "arm64") == data
    head = struct.pack(">II", 0xCAFEBABF, 1) + struct.pack(">IIQQII", ARM64, 0, 40, 3, 0, 0)
    assert thin(head + b"arm", "arm64") == b"arm", "the wide form"
    whole = universal({ARM64: b"whole"})
    assert thin(universal({X86_64: b"intel", ARM64: b"arm"}), "arm64") == b"arm"
    cut = [whole[:length] for length in range(8, len(whole))]
    for data in (universal({X86_64: b"intel"}), *cut):
        with pytest.raises(ValueError, match="arm64"):
            thin(data, "arm64")


@given(st.data())
def test_a_damaged_image_is_refused_in_order_or_read(data):
    image = bytearray(TinyMacho(imports=(("_a", 1, False),), rpaths=("@loader_path",)).build())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(4, 0x200) | st.integers(4, len(image) - 1))
        image[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(image)) | st.just(len(image)))
    with contextlib.suppress(MachoError):
        macho.read(bytes(image[:cut]))


def test_exports_that_lead_in_a_circle_are_none():
    image = TinyMacho(exports=("_a",)).build()
    assert macho.read(image).exports == {"_a"}
    assert macho.read(with_circular_exports(image, "_a")).exports == frozenset()


def test_what_is_damaged_is_named(tmp_path, monkeypatch, subtests):
    # LIEF would go on with what is left, and a library that is missed would not be looked for.
    tiny = TinyMacho(imports=(("_a", 1, False),), chained_imports=(("_b", 1, False),)).build()
    segment, symbols = tiny.index(b"__TEXT"), tiny.index(b"\x02\0\0\0\x18\0\0\0")
    for what, place, value, named in [
        ("a segment's size", segment + 0x28, 0x7FFFFFFF, "beyond the file"),
        ("the symbols' number", symbols + 12, 0x10000, "beyond the file"),
        ("the fixups' size", tiny.index(b"\x34\0\0\x80") + 12, 0x10000, "beyond the file"),
        *(("a command's size", 36, size, "load command") for size in (0, 7, 0x10000000)),
    ]:
        image = bytearray(tiny)
        struct.pack_into("<I", image, place, value)
        with subtests.test(what=what, value=value), pytest.raises(MachoError, match=named):
            macho.read(bytes(image))
    header = bytearray(TinyMacho().build()[:32])
    header[16:24] = bytes(8)  # no load commands: it is all there is
    assert macho.read(bytes(header)).rpaths == ()
    # LIEF would take so few bytes for a file's name, and read that file.
    monkeypatch.chdir(tmp_path)
    for data in (*(tiny[:size] for size in (4, 7, 31)), bytes(header[:31])):
        (tmp_path / os.fsdecode(data.partition(b"\0")[0])).write_bytes(tiny)
        with subtests.test(size=len(data)), pytest.raises(MachoError, match="within its header"):
            macho.read(data)


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
    commands_end = 32 + int.from_bytes(data[20:24], "little")
    full = TinyMacho(padding=commands_end).build()
    with pytest.raises(MachoError, match="no room"):
        macho.with_room_for_signature(full, 64)
