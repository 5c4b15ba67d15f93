"""Verifying: nothing is found in a sound bundle, and each fault that was made on purpose is."""

import os
import plistlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bundle.assemble import PACKAGES
from sign.code_resources import CODE_RESOURCES
from tests.support.packaging import tiny_bundle
from tests.support.packaging.tiny_bundle import (
    CPP,
    LIBMLX,
    METALLIB,
    PYTHON,
    QT,
    SITE,
    configuration,
    write,
)  # fmt: skip
from tests.support.packaging.tiny_bundle import PYC as COMPILED
from tests.support.packaging.tiny_bundle import QT_CORE_BINDING as BINDING
from tests.support.packaging.tiny_macho import (
    EXECUTE,
    MODULE,
    X86_64,
    TinyMacho,
    with_circular_exports,
)
from verify.imports import imports
from verify.programs import newer_than
from verify.run import REPOSITORY, verify_bundle

SYSTEM = "/usr/lib/libSystem.B.dylib"
OLD_QT = TinyMacho(file_type=MODULE, minimum_macos=(15, 0), libraries=(SYSTEM, CPP))
SEARCHING = TinyMacho(exports=("_mlx_add",), rpaths=("/Users/somebody/lib",))
PYC = b"\xf3\r\r\n\x01\0\0\0" + bytes(8)


@pytest.fixture(scope="module", autouse=True)
def usual_permissions():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    return tiny_bundle.make_bundle(tmp_path_factory.mktemp("pristine") / "Slipstream.app")


@pytest.fixture
def app(pristine, tmp_path):
    return Path(shutil.copytree(pristine, tmp_path / "Slipstream.app", symlinks=True))


def put(path, data):
    content = data if isinstance(data, bytes) else data.build()
    return lambda app: write(app / path, content)


def remove(path):
    def make(app):
        if (app / path).is_dir() and not (app / path).is_symlink():
            shutil.rmtree(app / path)
        else:
            (app / path).unlink()

    return make


def allow(path, mode):
    return lambda app: (app / path).chmod(mode)


def change(path, old, new):
    def make(app):
        data = (app / path).read_bytes()
        assert old in data
        (app / path).write_bytes(data.replace(old, new))

    return make


def inform(**values):
    def make(app):
        path = app / "Contents/Info.plist"
        path.write_bytes(plistlib.dumps(plistlib.loads(path.read_bytes()) | values))

    return make


def mlx(**changes):
    return put(LIBMLX, TinyMacho(**changes))


def importing(symbol, library=CPP):
    number = OLD_QT.libraries.index(library) + 1
    return put(BINDING, replace(OLD_QT, imports=((symbol, number, False),)))


CIRCULAR = with_circular_exports(TinyMacho(exports=("_mlx_add",)).build(), "_mlx_add")
CHAINED = replace(OLD_QT, chained_imports=(("_strchrnul", 1, False),))
LACKS = "core.cpython-313-darwin.so: imports _mlx_add, which @rpath/libmlx.dylib does not have"
LICENCES = "Contents/Resources/licences"
BILL = "Contents/Resources/sbom.cdx.json"
QT_LICENCES = f"{LICENCES}/pyside6-essentials-6.11.3"
PLIST = "Contents/Info.plist"
CODE = f"{SITE}/app"

# Made before signing, so that nothing but the check that is meant can find them.
BEFORE_SIGNING = {
    "architecture": [(mlx(cpu=X86_64), "libmlx.dylib: x86_64, not arm64 alone")],
    "minimum macOS": [
        (mlx(minimum_macos=(14, 1)), "libmlx.dylib: needs macOS 14.1"),
        (put(BINDING, replace(OLD_QT, minimum_macos=(26, 0))), "QtCore.abi3.so: needs macOS 26.0"),
    ],
    "libraries": [
        (remove(LIBMLX), "@rpath/libmlx.dylib: missing"),
        (mlx(libraries=("/opt/lib/libx.dylib",)), "wants /opt/lib/libx.dylib: not in the bundle"),
        (
            put(LIBMLX, replace(SEARCHING, libraries=(SYSTEM, "@rpath/libx.dylib"))),
            "looks for libraries in /Users/somebody/lib",
        ),
        (mlx(libraries=("@loader_path/" + "../" * 40 + "bin/sh",)), "bin/sh: missing"),
    ],
    "newer symbols": [
        (importing("__ZNSt3__117bad_function_callD1Ev"), "QtCore.abi3.so: imports __ZNSt3__117bad"),
        (importing("_os_sync_wait_on_address", SYSTEM), "since macOS 14.4"),
        (put(BINDING, CHAINED), "since macOS 15.4"),
    ],
    "symbols": [
        (mlx(exports=("_mlx_sub",)), LACKS),
        (put(LIBMLX, CIRCULAR), LACKS),
        (put(f"{PYTHON}/bases/lib/Python", TinyMacho()), "_PyLong_Type: not in this Python"),
    ],
    "Metal kernels": [
        (put(METALLIB, b"MTLB" + bytes(8) + b"\x1a\0\x02\0"), "for macOS 26.2"),
        (remove(METALLIB), "missing"),
        (put(METALLIB, b"text"), "not a"),
    ],
    "Info.plist": [
        (inform(CFBundleShortVersionString="9"), "is '9'"),
        (inform(LSMinimumSystemVersion="15.0"), "is '15.0'"),
        (remove("Contents/Resources/Slipstream.icns"), "no icon"),
        (inform(NSRequiresAquaSystemAppearance=True), "Appearance is True"),
    ],
    "contents": [
        (remove(f"{SITE}/engine"), "engine"),
        (remove("Contents/MacOS/python3"), "MacOS/python3: missing"),
        (allow("Contents/MacOS/python3", 0o644), "may not be run"),
    ],
    "names": [(put(f"{SITE}/App/__main__.py", b""), "app: on a Mac the same as")],
    "permissions": [
        (allow(COMPILED, 0o600), "__main__.cpython-313.pyc: 0600"),
        (allow(COMPILED, 0o666), "__main__.cpython-313.pyc: 0666"),
    ],
    "strays": [
        (put(f"{SITE}/numpy/tests/test_a.py", b""), "numpy/tests"),
        (put(f"{SITE}/.DS_Store", b""), ".DS_Store"),
        (put(f"{CODE}/old.pyc", PYC), "app/old.pyc: compiled"),
        (put(f"{CODE}/__main__.cpython-313.pyc", PYC), "313.pyc: compiled, and not as"),
        (put(f"{CODE}/__pycache__/__main__.cpython-312.pyc", PYC), "cpython-313.pyc"),
        (put(f"{CODE}/__pycache__/gone.cpython-313.pyc", PYC), "a source that is not there"),
        (put(COMPILED, b"\xcb\r\r\n\x01\0\0\0" + bytes(8)), "compiled by another Python"),
        (put(COMPILED, b"\xf3\r\r\n\0\0\0\0" + bytes(8)), "unchecked hashes"),
    ],
    "build paths": [
        (put(f"{CODE}/made.json", f"{REPOSITORY}/x".encode()), f"made.json: names {REPOSITORY}/"),
        (
            put(f"{SITE}/mlx-0.32.4.dist-info/direct_url.json", b"file:///home/somebody/mlx"),
            "direct_url.json: names a folder under /home/",
        ),
    ],
    "size": [
        (put(f"{CODE}/large.bin", bytes(2_000_000)), "MB without the starter, more than 1.0"),
        (
            put(f"{SITE}/resources/starter/smollm2-135m-instruct/model", bytes(4_000_000)),
            "MB with the starter, more than 3.0",
        ),
    ],
    "imports": [
        (put(f"{CODE}/late.py", b"def a():\n    import gone\n"), "late.py: imports gone, which is")
    ],
    "licences": [
        (remove(f"{LICENCES}/mlx-0.32.4"), "no licence of mlx 0.32.4"),
        (put(f"{LICENCES}/mlx-0.32.4/LICENSE", b""), "no licence of mlx 0.32.4"),
        (remove(f"{LICENCES}/python-3.13.15"), "no licence of p"),
        (remove(f"{QT_LICENCES}/GPL-3.0-only.txt"), "GPL-3.0-only.txt: mis"),
        (remove(f"{LICENCES}/replacing-qt.txt"), "how to repl"),
    ],
    "bill of materials": [
        (remove(BILL), "missing"),
        (put(BILL, b"{}"), "cannot be read"),
        (change(BILL, b'"name": "mlx",', b'"name": "other",'), "lacks mlx 0.32.4"),
        (change(BILL, b'"name": "python",', b'"name": "other",'), "lacks Python"),
    ],
}

RET, OTHER = b"\xc0\x03\x5f\xd6", b"\xc0\x03\x5f\xd7"
MAIN, SEAL = "Contents/MacOS/Slipstream", f"Contents/{CODE_RESOURCES}"
CHANGED = "changed after signing"
AFTER_SIGNING = {
    "signature": [
        (change(LIBMLX, RET * 1200, OTHER * 1200), "libmlx.dylib: the bytes from 0x0"),
        (change(MAIN, RET * 9, OTHER * 9), "MacOS/Slipstream: the bytes from"),
        (put("Contents/MacOS/python3", TinyMacho(file_type=EXECUTE)), "python3: it is not signed"),
        (change(PLIST, b"<true/>", b"<true />"), f"MacOS/Slipstream: Info.plist: {CHANGED}"),
        (change(SEAL, b"</plist>", b"</plist> "), f"MacOS/Slipstream: CodeResources: {CHANGED}"),
    ],
    "seal": [
        (put(COMPILED, PYC + b"x"), "is not as it was sealed"),
        (put(f"{CODE}/new.py", b""), "new.py: is not in the seal"),
        (remove(f"{CODE}/__pycache__"), "in the seal and missing"),
        (put(SEAL, b"<plist>"), "is damaged"),
        (put(SEAL, b"text"), "is damaged"),
        (remove(SEAL), "CodeResources: missing"),
        (put(f"{QT}/Versions/A/Resources/new.txt", b""), "A/Resources/new.txt: is not in the seal"),
        (put("notes.txt", b""), "notes.txt: only Contents"),
    ],
    "Info.plist": [(put(PLIST, b"<plist>"), "cannot be read"), (remove(PLIST), "cannot be read")],
    "links": [
        (remove(f"{QT}/Versions/Current"), "Versions/Current: missing in a framework"),
        (lambda app: os.symlink("/bin/sh", app / CODE / "link"), "link: leads out of the bundle"),
        (lambda app: os.symlink("nothing", app / CODE / "link"), "link: leads nowhere"),
    ],
}


def rows(table):
    """For each check what breaks the bundle, and a part of the line that says so."""
    faults = ((check, *fault) for check, listed in table.items() for fault in listed)
    return [pytest.param(*fault, id=f"{fault[0]}: {fault[2]}") for fault in faults]


@pytest.mark.quick(8)
@pytest.mark.parametrize(("check", "make", "line"), rows(BEFORE_SIGNING))
def test_a_fault_from_before_signing(app, check, make, line):
    make(app)
    tiny_bundle.sign(app)
    found = verify_bundle(app, config=configuration())
    assert any(one.check == check and line in str(one) for one in found), found
    assert not {one.check for one in found} & {"signature", "seal", "links"}


@pytest.mark.quick(4)
@pytest.mark.parametrize(("check", "make", "line"), rows(AFTER_SIGNING))
def test_a_fault_from_after_signing(app, check, make, line):
    make(app)
    found = verify_bundle(app, config=configuration())
    assert any(one.check == check and line in str(one) for one in found), found


def test_nothing_is_found_in_a_sound_bundle(app):
    assert verify_bundle(app, config=configuration()) == []
    # What is not needed may be missing.
    weak = replace(
        OLD_QT,
        weak_libraries=("@rpath/QtSomething",),
        imports=(("_os_sync_wait_on_address", 1, True),),
    )
    write(app / BINDING, weak.build())
    write(app / LIBMLX, SEARCHING.build())  # in a folder in which nothing is looked for
    tiny_bundle.sign(app)
    assert verify_bundle(app, config=configuration()) == []
    # What a library passes on is its own.
    passing = TinyMacho(reexported=("@loader_path/libother.dylib",), exports=())
    write(app / LIBMLX, passing.build())
    other = (app / LIBMLX).with_name("libother.dylib")
    write(other, TinyMacho(exports=("_mlx_add",)).build())
    tiny_bundle.sign(app)
    assert verify_bundle(app, config=configuration()) == []
    write(other, TinyMacho().build())
    found = verify_bundle(app, config=configuration())
    assert any(one.check == "symbols" and "_mlx_add" in one.message for one in found)


def test_since_when_symbols_are_there(subtests):
    for symbol, since in [
        ("___cxa_init_primary_exception", (15, 0)),
        ("__ZTVNSt3__117bad_function_callE", (15, 4)),
        ("__ZNSt3__113__hash_memoryEPKvm", (26, 0)),
        ("___fmaxf16", (26, 0)),
        ("_printf", None),
        ("__ZNSt3__122__libcpp_verbose_abortEPKcz", None),
    ]:
        with subtests.test(symbol=symbol):
            newer = newer_than(symbol, (14, 0))
            assert (newer.macos if newer else None) == since
            assert newer_than(symbol, (26, 0)) is None


# What is imported and missing is found; what may be missing is not.


def _bundle(folder, files):
    """A bundle of these modules, by their paths below the packages."""
    for name, source in {"app/__init__.py": "", **files}.items():
        path = folder / PACKAGES / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return folder


def _found(folder, files):
    return {finding.message for finding in imports(_bundle(folder, files))}


@pytest.mark.parametrize(
    "source",
    [
        "import gone.deep",
        "from gone.deep import thing",
        "def late():\n    from gone.deep import thing",
        "class Late:\n    async def go(self):\n        import gone.deep",
        "with open('a'):\n    import gone.deep",
        "try:\n    import gone.deep\nfinally:\n    pass",
        "try:\n    pass\nexcept ImportError:\n    pass\nelse:\n    import gone.deep",
    ],
)
def test_what_we_import_must_be_there(tmp_path, source):
    files = {"app/a.py": source, "gone/__init__.py": ""}
    assert _found(tmp_path, files) == {"imports gone.deep, which is not in the bundle"}
    assert _found(tmp_path, files | {"gone/deep.py": "thing = 1"}) == set()


FROM_TOOL = "from tool import thing"


@pytest.mark.parametrize(
    ("source", "files"),
    [
        ("try:\n    import gone\nexcept ImportError:\n    gone = None", {}),
        ("try:\n    import gone\nexcept (OSError, ModuleNotFoundError):\n    gone = None", {}),
        ("try:\n    import gone\nexcept:\n    gone = None", {}),
        ("with suppress(ImportError):\n    import gone", {}),
        ("if TYPE_CHECKING:\n    import gone", {}),
        ("import sys, os.path, collections.abc", {}),
        ("from collections.abc import Iterator", {}),
        (FROM_TOOL, {"tool/__init__.py": "thing = 1"}),
        (FROM_TOOL, {"tool/__init__.py": "from .a import *", "tool/a.py": ""}),
        (FROM_TOOL, {"tool/__init__.py": "def __getattr__(name): ..."}),
        (FROM_TOOL, {"tool/__init__.py": "globals().update({})"}),
        ("import fast.core", {"fast/core.cpython-313-darwin.so": "\0"}),
    ],
)
def test_what_may_be_missing_or_is_there_in_another_form(tmp_path, source, files):
    files = {"app/a.py": source, "os.py": "", "collections/__init__.py": "", **files}
    assert _found(tmp_path, files) == set()


def test_what_others_import_is_followed(tmp_path):
    files = {
        "app/a.py": "from tool.part import thing",
        "tool/__init__.py": "from .version import number",
        "tool/part.py": "from . import inner\nfrom ..tool import other\ndef f():\n    import gone",
        "tool/never_imported.py": "import gone",
    }
    assert _found(tmp_path, files) == {
        "imports tool.version, which is not in the bundle",
        "imports tool.inner, which is not in the bundle",
        "imports tool.other, which is not in the bundle",
    }
    more = {"tool/version.py": "number = 1", "tool/inner.py": "", "tool/other/a.py": ""}
    assert _found(tmp_path, files | more) == set()


def test_what_cannot_be_read(tmp_path):
    (message,) = _found(tmp_path, {"app/a.py": "import"})
    assert message.startswith("cannot be read: ")
