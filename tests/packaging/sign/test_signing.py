"""Signatures: made and checked; that a bundle is signed whole, and always to the same bytes."""

import contextlib
import hashlib
import plistlib
import struct

import pytest

import macho
from models.errors import Problem
from sign import code_signature
from sign.code_resources import CODE_RESOURCES
from sign.code_signature import CoveredFiles, SignatureError
from tests.support.packaging import tiny_bundle
from tests.support.packaging.tiny_macho import EXECUTE, TinyMacho

MINE = CoveredFiles(info_plist=b"<plist/>", code_resources=b"<seal/>")
ENTITLEMENTS = {"a.b": True}


def signed(tiny=None):
    return code_signature.signed(
        (tiny or TinyMacho()).build(), identifier="a.name", covered=MINE, entitlements=ENTITLEMENTS
    )


def test_where_the_format_puts_things():
    # Read by offsets out of Apple's headers, not by the code that wrote it.
    data = signed(TinyMacho(file_type=EXECUTE))
    image = macho.read(data)
    blob = data[image.signature_offset :]
    magic, _, count = struct.unpack_from(">III", blob)
    assert magic == 0xFADE0CC0
    places = dict(struct.unpack_from(">II", blob, 12 + 8 * index) for index in range(count))
    assert list(places) == [0, 2, 5, 7, 0x10000]
    directory = blob[places[0] :]
    magic, _, version, flags, hashes, _, special, pages, limit = struct.unpack_from(
        ">9I", directory
    )
    assert (magic, version, flags, special) == (0xFADE0C02, 0x20400, 0x2, 7)
    assert limit == image.signature_offset
    assert pages == (limit + 4095) // 4096
    assert directory[hashes : hashes + 32] == hashlib.sha256(data[:4096]).digest()
    assert directory[hashes - 32 : hashes] == hashlib.sha256(MINE.info_plist).digest()
    assert directory[hashes - 96 : hashes - 64] == hashlib.sha256(MINE.code_resources).digest()
    assert struct.unpack_from(">QQQ", directory, 64)[2] == 1  # the main binary
    entitlements = blob[places[7] + 8 :]
    assert entitlements.startswith(bytes.fromhex("700f 020101 b00a 3008 0c03") + b"a.b\x01\x01\xff")


@pytest.mark.parametrize("place", [0x20, 0x700, 0x1700])
def test_a_changed_byte_is_found(place):
    data = bytearray(signed())
    data[place] ^= 1
    with pytest.raises(ValueError, match=r"changed after signing|damaged|beyond"):
        code_signature.check(bytes(data), MINE)


@pytest.mark.parametrize(
    ("covered", "named"),
    [
        (CoveredFiles(b"<other/>", MINE.code_resources), "Info.plist"),
        (CoveredFiles(MINE.info_plist, b""), "CodeResources"),
        (CoveredFiles(b"", MINE.code_resources), "Info.plist"),
    ],
)
def test_another_covered_file_is_found(covered, named):
    with pytest.raises(SignatureError, match=named):
        code_signature.check(signed(), covered)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (signed().replace(b"<key>a.b<", b"<key>a.c<"), "entitlements"),
        (TinyMacho().build(), "not signed"),
    ],
    ids=["other entitlements", "none"],
)
def test_another_signature_is_found(data, named):
    with pytest.raises(SignatureError, match=named):
        code_signature.check(data, MINE)


@pytest.mark.parametrize(
    ("field", "less", "named"), [(28, 1, "number of pages"), (32, 4096, "length")]
)
def test_a_signature_that_covers_less_is_found(field, less, named):
    data = bytearray(signed())
    start = macho.read(bytes(data)).signature_offset
    (directory,) = struct.unpack_from(">I", data, start + 16)
    (number,) = struct.unpack_from(">I", data, start + directory + field)
    struct.pack_into(">I", data, start + directory + field, number - less)
    with pytest.raises(SignatureError, match=named):
        code_signature.check(bytes(data), MINE)


def test_damaged_signatures_are_refused_in_order():
    data = signed()
    start = macho.read(data).signature_offset
    for place in range(start, start + 200):
        for value in (0, 0xFF):
            damaged = bytearray(data)
            damaged[place] = value
            if damaged != data:
                with contextlib.suppress(ValueError):  # some bytes matter to nobody
                    code_signature.check(bytes(damaged), MINE)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return tiny_bundle.make_bundle(tmp_path_factory.mktemp("signed") / "Slipstream.app")


def test_every_program_of_a_bundle_is_signed(bundle):
    identifiers = {
        path.name: code_signature.check(path.read_bytes()).identifier
        for path in bundle.rglob("*")
        if macho.is_macho(path)
    }
    identifier = tiny_bundle.configuration().application.identifier
    assert identifiers["Slipstream"] == identifier
    assert identifiers["python3"] == f"{identifier}.python3"
    assert identifiers["libmlx.dylib"] == "libmlx"
    assert identifiers["QtCore"] == "org.qt-project.QtCore"
    wanted = b"com.apple.security.cs.disable-library-validation"
    asking = {name for name in identifiers if wanted in next(bundle.rglob(name)).read_bytes()}
    assert asking == {"Slipstream", "python3"}, "libraries have none"


def test_the_seal_lists_everything_but_what_is_sealed_otherwise(bundle):
    contents = bundle / "Contents"
    sealed = plistlib.loads((contents / CODE_RESOURCES).read_bytes())["files2"]
    files = {
        path.relative_to(contents).as_posix()
        for path in contents.rglob("*")
        if path.is_symlink() or path.is_file()
    }
    assert files - sealed.keys() == {"Info.plist", "PkgInfo", "MacOS/Slipstream", CODE_RESOURCES}
    assert sealed.keys() <= files
    python = code_signature.check((contents / "MacOS/python3").read_bytes()).cdhash
    assert sealed["MacOS/python3"] == {"cdhash": python, "requirement": f'cdhash H"{python.hex()}"'}
    framework = f"{tiny_bundle.QT.removeprefix('Contents/')}/Versions/Current"
    assert sealed[framework] == {"symlink": "A"}


def test_the_same_bundle_gets_the_same_bytes(bundle, tmp_path):
    other = tiny_bundle.make_bundle(tmp_path / "Slipstream.app")
    before = _contents(other)
    assert before == _contents(bundle)
    tiny_bundle.sign(other)
    assert _contents(other) == before


def _contents(app):
    return {
        path.relative_to(app).as_posix(): path.read_bytes()
        for path in app.rglob("*")
        if path.is_file()
    }


def test_a_library_s_signature_that_holds_is_kept_and_others_are_made_anew(tmp_path):
    app = tiny_bundle.unsigned_bundle(tmp_path / "Slipstream.app")
    kept = signed()
    (app / tiny_bundle.LIBMLX).write_bytes(kept)
    broken = bytearray(kept)
    broken[0x700] ^= 1
    (app / tiny_bundle.MLX_CORE).write_bytes(broken)
    (app / "Contents/MacOS/python3").write_bytes(signed(TinyMacho(file_type=EXECUTE)))
    tiny_bundle.sign(app)
    assert (app / tiny_bundle.LIBMLX).read_bytes() == kept
    core = code_signature.check((app / tiny_bundle.MLX_CORE).read_bytes())
    assert core.identifier == "core.cpython-313-darwin"
    python = code_signature.check((app / "Contents/MacOS/python3").read_bytes())
    assert python.identifier.endswith(".python3")


@pytest.mark.parametrize("name", ["Contents/MacOS/notes.txt", "Contents/notes.txt"])
def test_other_files_where_only_programs_may_stand(tmp_path, name):
    app = tiny_bundle.unsigned_bundle(tmp_path / "Slipstream.app")
    tiny_bundle.write(app / name, b"text")
    with pytest.raises(Problem, match=r"notes\.txt"):
        tiny_bundle.sign(app)
