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


def covering_less(field, less):
    """A signature that says it has fewer pages, or is shorter."""
    data = bytearray(signed())
    start = macho.read(bytes(data)).signature_offset
    (directory,) = struct.unpack_from(">I", data, start + 16)
    (number,) = struct.unpack_from(">I", data, start + directory + field)
    struct.pack_into(">I", data, start + directory + field, number - less)
    return bytes(data)


def test_what_was_changed_after_signing_is_found(subtests):
    data = signed()
    entitled = data.replace(b"<key>a.b<", b"<key>a.c<")
    for name, changed, covered, named in [
        ("another Info.plist", data, CoveredFiles(b"<other/>", MINE.code_resources), "Info.plist"),
        ("no Info.plist", data, CoveredFiles(b"", MINE.code_resources), "Info.plist"),
        ("no CodeResources", data, CoveredFiles(MINE.info_plist, b""), "CodeResources"),
        ("other entitlements", entitled, MINE, "entitlements"),
        ("no signature", TinyMacho().build(), MINE, "not signed"),
        ("fewer pages", covering_less(28, 1), MINE, "number of pages"),
        ("a shorter one", covering_less(32, 4096), MINE, "length"),
    ]:
        with subtests.test(name=name), pytest.raises(SignatureError, match=named):
            code_signature.check(changed, covered)
    for place in (0x20, 0x700, 0x1700):
        changed = bytearray(data)
        changed[place] ^= 1
        refused = pytest.raises(ValueError, match=r"changed after signing|damaged|beyond")
        with subtests.test(place=place), refused:
            code_signature.check(bytes(changed), MINE)
    start = macho.read(data).signature_offset
    for place in range(start, start + 200):
        for value in (0, 0xFF):
            damaged = bytearray(data)
            damaged[place] = value
            if damaged != data:
                with contextlib.suppress(ValueError):  # some bytes matter to no one
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


def contents(app):
    paths = (path for path in app.rglob("*") if path.is_file())
    return {path.relative_to(app).as_posix(): path.read_bytes() for path in paths}


def test_a_library_s_signature_that_holds_is_kept_and_others_are_made_anew(bundle, tmp_path):
    app = tiny_bundle.make_bundle(tmp_path / "Slipstream.app")
    before = contents(app)
    assert before == contents(bundle), "the same bundle, the same bytes"
    tiny_bundle.sign(app)
    assert contents(app) == before
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
    for name in ("Contents/MacOS/notes.txt", "Contents/notes.txt"):  # where only programs may stand
        notes = tiny_bundle.write(app / name, b"text")
        with pytest.raises(Problem, match=r"notes\.txt"):
            tiny_bundle.sign(app)
        notes.unlink()
