"""Verifying: nothing is found in a sound bundle, and each fault that was made on purpose is."""

import os
import plistlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sign.code_resources import CODE_RESOURCES
from tests.support.packaging import tiny_bundle
from tests.support.packaging.tiny_bundle import CPP, SITE, configuration, write
from tests.support.packaging.tiny_macho import (
    ARM64,
    EXECUTE,
    MODULE,
    X86_64,
    TinyMacho,
    universal,
    with_circular_exports,
)
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


@dataclass(frozen=True)
class Fault:
    """Something to break, and what has to be found: the check's name and a part of its line."""

    name: str
    make: Callable[[Path], object]
    check: str
    line: str


def put(path, data):
    content = data if isinstance(data, bytes) else data.build()
    return lambda app: write(app / path, content)


def remove(path):
    return lambda app: _remove(app / path)


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


def importing(symbol, library=CPP):
    number = OLD_QT.libraries.index(library) + 1
    return replace(OLD_QT, imports=((symbol, number, False),))


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def mlx_for_26(app):
    change(f"{SITE}/mlx-0.32.4.dist-info/WHEEL", b"_14_0_", b"_26_0_")(app)


LICENCES = "Contents/Resources/licences"
BILL = "Contents/Resources/sbom.cdx.json"
QT_LICENCES = f"{LICENCES}/pyside6-essentials-6.11.3"
PLIST = "Contents/Info.plist"
CODE = f"{SITE}/app"

# Made before signing, so that nothing but the check that is meant can find them.
BEFORE_SIGNING = [
    Fault(
        "x86 alone",
        put(tiny_bundle.LIBMLX, TinyMacho(cpu=X86_64)),
        "architecture",
        "libmlx.dylib: x86_64, not arm64 alone",
    ),
    Fault(
        "newer than the oldest system",
        put(tiny_bundle.LIBMLX, TinyMacho(minimum_macos=(14, 1))),
        "minimum macOS",
        "libmlx.dylib: needs macOS 14.1",
    ),
    Fault(
        "newer than its exception",
        put(tiny_bundle.QT_CORE_BINDING, replace(OLD_QT, minimum_macos=(26, 0))),
        "minimum macOS",
        "QtCore.abi3.so: needs macOS 26.0",
    ),
    Fault("library gone", remove(tiny_bundle.LIBMLX), "libraries", "@rpath/libmlx.dylib: missing"),
    Fault(
        "library of the build machine",
        put(tiny_bundle.LIBMLX, TinyMacho(libraries=("/opt/homebrew/lib/libx.dylib",))),
        "libraries",
        "wants /opt/homebrew/lib/libx.dylib: not in the bundle",
    ),
    Fault(
        "search path of the build machine",
        put(tiny_bundle.LIBMLX, replace(SEARCHING, libraries=(SYSTEM, "@rpath/libx.dylib"))),
        "libraries",
        "looks for libraries in /Users/somebody/lib",
    ),
    Fault(
        "library outside the bundle",
        put(tiny_bundle.LIBMLX, TinyMacho(libraries=("@loader_path/" + "../" * 40 + "bin/sh",))),
        "libraries",
        "bin/sh: missing",
    ),
    Fault(
        "symbol of macOS 15.4, as PySide6 6.12 has it",
        put(tiny_bundle.QT_CORE_BINDING, importing("__ZNSt3__117bad_function_callD1Ev")),
        "newer symbols",
        "QtCore.abi3.so: imports __ZNSt3__117bad_function_callD1Ev",
    ),
    Fault(
        "symbol of macOS 14.4, as Qt 6.12 has it",
        put(tiny_bundle.QT_CORE_BINDING, importing("_os_sync_wait_on_address", SYSTEM)),
        "newer symbols",
        "since macOS 14.4",
    ),
    Fault(
        "symbol in the loader's table alone",
        put(
            tiny_bundle.QT_CORE_BINDING,
            replace(OLD_QT, chained_imports=(("_strchrnul", 1, False),)),
        ),
        "newer symbols",
        "since macOS 15.4",
    ),
    Fault(
        "library of another version",
        put(tiny_bundle.LIBMLX, TinyMacho(exports=("_mlx_sub",))),
        "symbols",
        "core.cpython-313-darwin.so: imports _mlx_add, which @rpath/libmlx.dylib does not have",
    ),
    Fault(
        "library of which the exports lead in a circle",
        put(
            tiny_bundle.LIBMLX,
            with_circular_exports(TinyMacho(exports=("_mlx_add",)).build(), "_mlx_add"),
        ),
        "symbols",
        "imports _mlx_add, which @rpath/libmlx.dylib does not have",
    ),
    Fault(
        "another Python",
        put(f"{tiny_bundle.PYTHON}/bases/lib/Python", TinyMacho()),
        "symbols",
        "_PyLong_Type: not in this Python",
    ),
    Fault("wheel of mlx for macOS 26", mlx_for_26, "wheels", "macosx_26_0_arm64"),
    Fault(
        "wheel for another processor",
        change(f"{SITE}/mlx-0.32.4.dist-info/WHEEL", b"_arm64", b"_x86_64"),
        "wheels",
        "macosx_14_0_x86_64",
    ),
    Fault(
        "kernels for macOS 26",
        put(tiny_bundle.METALLIB, b"MTLB" + bytes(8) + b"\x1a\0\x02\0"),
        "Metal kernels",
        "for macOS 26.2",
    ),
    Fault("no kernels", remove(tiny_bundle.METALLIB), "Metal kernels", "missing"),
    Fault("kernels that are none", put(tiny_bundle.METALLIB, b"text"), "Metal kernels", "not a"),
    Fault("wrong version", inform(CFBundleShortVersionString="9"), "Info.plist", "is '9'"),
    Fault("wrong system", inform(LSMinimumSystemVersion="15.0"), "Info.plist", "is '15.0'"),
    Fault("no icon", remove("Contents/Resources/Slipstream.icns"), "Info.plist", "no icon"),
    Fault("always light", inform(NSRequiresAquaSystemAppearance=True), "Info.plist", "dark"),
    Fault("no engine", remove(f"{SITE}/engine"), "contents", "engine"),
    Fault("no interpreter", remove("Contents/MacOS/python3"), "contents", "MacOS/python3: missing"),
    Fault(
        "a program that may not be run",
        lambda app: (app / "Contents/MacOS/python3").chmod(0o644),
        "contents",
        "may not be run",
    ),
    Fault(
        "names that are one on a Mac",
        put(f"{SITE}/App/__main__.py", b""),
        "names",
        "app: on a Mac the same as",
    ),
    Fault(
        "not for everybody to read",
        lambda app: (app / tiny_bundle.PYC).chmod(0o600),
        "permissions",
        "__main__.cpython-313.pyc: 0600",
    ),
    Fault(
        "for everybody to change",
        lambda app: (app / tiny_bundle.PYC).chmod(0o666),
        "permissions",
        "__main__.cpython-313.pyc: 0666",
    ),
    Fault("tests", put(f"{SITE}/numpy/tests/test_a.py", b""), "strays", "numpy/tests"),
    Fault("leftover", put(f"{SITE}/.DS_Store", b""), "strays", ".DS_Store"),
    Fault("old compiled file", put(f"{CODE}/old.pyc", PYC), "strays", "app/old.pyc: compiled"),
    Fault(
        "compiled beside its source",
        put(f"{CODE}/__main__.cpython-313.pyc", PYC),
        "strays",
        "app/__main__.cpython-313.pyc: compiled, and not as",
    ),
    Fault(
        "compiled for another Python",
        put(f"{CODE}/__pycache__/__main__.cpython-312.pyc", PYC),
        "strays",
        "cpython-313.pyc",
    ),
    Fault(
        "compiled without a source",
        put(f"{CODE}/__pycache__/gone.cpython-313.pyc", PYC),
        "strays",
        "a source that is not there",
    ),
    Fault(
        "compiled by another Python",
        put(tiny_bundle.PYC, b"\xcb\r\r\n\x01\0\0\0" + bytes(8)),
        "strays",
        "compiled by another Python",
    ),
    Fault(
        "compiled by time",
        put(tiny_bundle.PYC, b"\xf3\r\r\n\0\0\0\0" + bytes(8)),
        "strays",
        "unchecked hashes",
    ),
    Fault(
        "folder of the build machine",
        put(f"{CODE}/made.json", f"{REPOSITORY}/x".encode()),
        "build paths",
        f"made.json: names {REPOSITORY}/",
    ),
    Fault(
        "installed from a folder",
        put(f"{SITE}/mlx-0.32.4.dist-info/direct_url.json", b"file:///home/somebody/mlx"),
        "build paths",
        "direct_url.json: names a folder under /home/",
    ),
    Fault(
        "too large",
        put(f"{CODE}/large.bin", bytes(2_000_000)),
        "size",
        "MB without the starter, more than 1.0",
    ),
    Fault(
        "too large with the starter",
        put(f"{SITE}/resources/starter/smollm2-135m-instruct/model", bytes(4_000_000)),
        "size",
        "MB with the starter, more than 3.0",
    ),
    Fault(
        "a module that was left out",
        put(f"{CODE}/late.py", b"def answer():\n    import left_out\n"),
        "imports",
        "late.py: imports left_out, which is not in the bundle",
    ),
    Fault("licence gone", remove(f"{LICENCES}/mlx-0.32.4"), "licences", "no licence of mlx 0.32.4"),
    Fault(
        "licence empty",
        put(f"{LICENCES}/mlx-0.32.4/LICENSE", b""),
        "licences",
        "no licence of mlx 0.32.4",
    ),
    Fault(
        "Python's licence gone", remove(f"{LICENCES}/python-3.13.15"), "licences", "no licence of p"
    ),
    Fault(
        "GPL gone", remove(f"{QT_LICENCES}/GPL-3.0-only.txt"), "licences", "GPL-3.0-only.txt: mis"
    ),
    Fault(
        "how to replace Qt gone", remove(f"{LICENCES}/replacing-qt.txt"), "licences", "how to repl"
    ),
    Fault("no bill", remove(BILL), "bill of materials", "missing"),
    Fault("unreadable bill", put(BILL, b"{}"), "bill of materials", "cannot be read"),
    Fault(
        "a bill that lacks mlx",
        change(BILL, b'"name": "mlx",', b'"name": "other",'),
        "bill of materials",
        "lacks mlx 0.32.4",
    ),
    Fault(
        "a bill that lacks Python",
        change(BILL, b'"name": "python",', b'"name": "other",'),
        "bill of materials",
        "lacks Python",
    ),
]

AFTER_SIGNING = [
    Fault(
        "flipped byte of a library",
        change(tiny_bundle.LIBMLX, b"\xc0\x03\x5f\xd6" * 1200, b"\xc0\x03\x5f\xd7" * 1200),
        "signature",
        "libmlx.dylib: the bytes from 0x0",
    ),
    Fault(
        "flipped byte of the program",
        change("Contents/MacOS/Slipstream", b"\xc0\x03\x5f\xd6" * 9, b"\xc0\x03\x5f\xd7" * 9),
        "signature",
        "MacOS/Slipstream: the bytes from",
    ),
    Fault(
        "another program in the interpreter's place",
        put("Contents/MacOS/python3", TinyMacho(file_type=EXECUTE)),
        "signature",
        "python3: it is not signed",
    ),
    Fault(
        "changed Info.plist",
        change(PLIST, b"<true/>", b"<true />"),
        "signature",
        "MacOS/Slipstream: Info.plist: changed after signing",
    ),
    Fault(
        "changed seal",
        change(f"Contents/{CODE_RESOURCES}", b"</plist>", b"</plist> "),
        "signature",
        "MacOS/Slipstream: CodeResources: changed after signing",
    ),
    Fault("changed resource", put(tiny_bundle.PYC, PYC + b"x"), "seal", "is not as it was sealed"),
    Fault("unsealed resource", put(f"{CODE}/new.py", b""), "seal", "new.py: is not in the seal"),
    Fault("sealed and gone", remove(f"{CODE}/__pycache__"), "seal", "in the seal and missing"),
    Fault("damaged seal", put(f"Contents/{CODE_RESOURCES}", b"<plist>"), "seal", "is damaged"),
    Fault("no plist in the seal", put(f"Contents/{CODE_RESOURCES}", b"text"), "seal", "is damaged"),
    Fault("damaged Info.plist", put(PLIST, b"<plist>"), "Info.plist", "cannot be read"),
    Fault("no Info.plist", remove(PLIST), "Info.plist", "cannot be read"),
    Fault("no seal", remove(f"Contents/{CODE_RESOURCES}"), "seal", "CodeResources: missing"),
    Fault(
        "unsealed in a framework",
        put(f"{tiny_bundle.QT}/Versions/A/Resources/new.txt", b""),
        "seal",
        "A/Resources/new.txt: is not in the seal",
    ),
    Fault("beside Contents", put("notes.txt", b""), "seal", "notes.txt: only Contents"),
    Fault(
        "a link that is none any more",
        remove(f"{tiny_bundle.QT}/Versions/Current"),
        "links",
        "Versions/Current: missing in a framework",
    ),
    Fault(
        "a link out of the bundle",
        lambda app: os.symlink("/bin/sh", app / CODE / "link"),
        "links",
        "link: leads out of the bundle",
    ),
    Fault(
        "a link to nowhere",
        lambda app: os.symlink("nothing", app / CODE / "link"),
        "links",
        "link: leads nowhere",
    ),
]


def test_nothing_is_found_in_a_sound_bundle(app):
    assert verify_bundle(app, config=configuration()) == []


@pytest.mark.quick(12)
@pytest.mark.parametrize("fault", BEFORE_SIGNING, ids=lambda fault: fault.name)
def test_a_fault_from_before_signing(app, fault):
    fault.make(app)
    tiny_bundle.sign(app)
    found = verify_bundle(app, config=configuration())
    assert any(one.check == fault.check and fault.line in str(one) for one in found), found
    assert not {one.check for one in found} & {"signature", "seal", "links"}


@pytest.mark.quick(6)
@pytest.mark.parametrize("fault", AFTER_SIGNING, ids=lambda fault: fault.name)
def test_a_fault_from_after_signing(app, fault):
    fault.make(app)
    found = verify_bundle(app, config=configuration())
    assert any(one.check == fault.check and fault.line in str(one) for one in found), found


def test_a_universal_library(app):
    images = {X86_64: TinyMacho(cpu=X86_64).build(), ARM64: TinyMacho().build()}
    write(app / tiny_bundle.LIBMLX, universal(images))
    found = verify_bundle(app, config=configuration())
    assert any("x86_64 and arm64, not arm64 alone" in str(one) for one in found)


def test_what_may_be_missing_is_no_fault(app):
    weak = replace(
        OLD_QT,
        weak_libraries=("@rpath/QtSomething",),
        imports=(("_os_sync_wait_on_address", 1, True),),
    )
    write(app / tiny_bundle.QT_CORE_BINDING, weak.build())
    tiny_bundle.sign(app)
    assert verify_bundle(app, config=configuration()) == []


def test_a_search_path_in_which_nothing_is_looked_for_is_no_fault(app):
    write(app / tiny_bundle.LIBMLX, SEARCHING.build())
    tiny_bundle.sign(app)
    assert verify_bundle(app, config=configuration()) == []


def test_what_a_library_passes_on_is_its_own(app):
    passing = TinyMacho(reexported=("@loader_path/libother.dylib",), exports=())
    write(app / tiny_bundle.LIBMLX, passing.build())
    other = (app / tiny_bundle.LIBMLX).with_name("libother.dylib")
    write(other, TinyMacho(exports=("_mlx_add",)).build())
    tiny_bundle.sign(app)
    assert verify_bundle(app, config=configuration()) == []
    write(other, TinyMacho().build())
    found = verify_bundle(app, config=configuration())
    assert any(one.check == "symbols" and "_mlx_add" in one.message for one in found)


@pytest.mark.parametrize(
    ("symbol", "since"),
    [
        ("_os_sync_wake_by_address_any", (14, 4)),
        ("___cxa_init_primary_exception", (15, 0)),
        ("__ZNSt3__119__is_posix_terminalEP7__sFILE", (15, 0)),
        ("__ZTINSt3__117bad_function_callE", (15, 4)),
        ("__ZTVNSt3__117bad_function_callE", (15, 4)),
        ("__ZNKSt3__117bad_function_call4whatEv", (15, 4)),
        ("__ZNSt3__113__hash_memoryEPKvm", (26, 0)),
        ("__ZNSt13exception_ptr31__from_native_exception_pointerEPv", (26, 0)),
        ("___fmaxf16", (26, 0)),
        ("_printf", None),
        ("__ZNSt3__122__libcpp_verbose_abortEPKcz", None),
        ("__ZNSt3__13pmr20get_default_resourceEv", None),
    ],
)
def test_since_when_symbols_are_there(symbol, since):
    newer = newer_than(symbol, (14, 0))
    assert (newer.macos if newer else None) == since
    assert newer_than(symbol, (26, 0)) is None
