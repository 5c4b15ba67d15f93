"""Checks the files of a bundle other than programs: Info.plist, missing files, unwanted files.

Knows assemble's layout and the settings in slipstream.toml.
"""

import plistlib
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from xml.parsers.expat import ExpatError

import macho
from bundle.assemble import size_bytes, starter_bytes
from bundle.info_plist import info_plist as make_info_plist
from bundle.runtime import LIBRARY
from configuration import Configuration
from verify import Finding, walk

# Without these the window or the engine could not start, or rows on a GPU not be exact. Patterns,
# relative to Python's library.
ESSENTIAL = (
    "bases/lib/Python",
    "encodings/__init__.py",
    "lib-dynload/*.so",
    "site-packages/mlx/include/mlx/backend/metal/kernels/quantized.h",
    "site-packages/mlx/lib/mlx.metallib",
    "site-packages/PySide6/Qt/plugins/platforms/libqcocoa.dylib",
    "site-packages/app/__main__.py",
    "site-packages/engine/__main__.py",
    "site-packages/engine/metal/few_rows.metal",
    "site-packages/models/__init__.py",
)

_STRAY_FOLDERS = re.compile(r"^(tests?|idle_test|\.git|\.hypothesis|.*\.dSYM)$")
_STRAY_FILES = re.compile(r"^(\._.*|\.DS_Store|\.git.*|.*\.(pyo|o|a|orig|rej|swp|whl))$")
# Signs of the machine that built it, in files that tools read paths from.
_PATH_FILES = re.compile(
    r"^(.*\.(pth|egg-link|la|pc)|direct_url\.json|pyvenv\.cfg|_sysconfig.*\.py)$"
)
_MACHINE = re.compile(rb"/(Users|home|root|private|build|opt|usr/local)/")
_MAGIC = (3571).to_bytes(2, "little") + b"\r\n"  # of every Python 3.13
_UNCHECKED_HASH = 0b01  # PEP 552: made from a hash of the source, and never compared with it


def info_plist(app: Path, *, config: Configuration) -> Iterator[Finding]:
    """Find entries of Info.plist that are missing or differ from the configuration."""
    path = "Contents/Info.plist"
    try:
        content = plistlib.loads((app / path).read_bytes())
    except (OSError, ValueError, ExpatError) as error:
        yield Finding("Info.plist", path, f"cannot be read: {error}")
        return
    for key, value in plistlib.loads(make_info_plist(config)).items():
        if content.get(key) != value:
            yield Finding("Info.plist", path, f"{key} is {content.get(key)!r}, not {value!r}")
    icon = app / "Contents" / "Resources" / str(content.get("CFBundleIconFile", ""))
    if not icon.is_file() and not icon.with_suffix(".icns").is_file():
        yield Finding("Info.plist", path, "names no icon that is there")


def essentials(app: Path, *, config: Configuration) -> Iterator[Finding]:
    """Find files that are missing in the bundle, and programs that are not executable."""
    library = f"Contents/Resources/python/{LIBRARY.as_posix()}"
    programs = [f"Contents/MacOS/{name}" for name in (config.application.name, "python3")]
    for pattern in (*programs, *(f"{library}/{name}" for name in ESSENTIAL)):
        if not any(app.glob(pattern)):
            yield Finding("contents", pattern, "missing")
    for file in sorted((app / "Contents" / "MacOS").glob("*")):
        path = file.relative_to(app).as_posix()
        if not macho.is_macho(file):
            yield Finding("contents", path, "not a program")
        elif file.stat().st_mode & 0o111 != 0o111:
            yield Finding("contents", path, "may not be run by everyone")


def files(app: Path, *, python: str, machine_paths: tuple[Path, ...]) -> Iterator[Finding]:
    """Find names that are the same on a Mac's usual volume, which ignores case; files that not
    everyone can read, or that others than the owner can change; tests, leftovers of tools, and
    compiled files that `python` ("3.13") cannot use; and folders of the machine that built the
    bundle.

    `machine_paths` are looked for in every file; usual home folders only in files that tools read
    paths from, as examples in documentation look the same.
    """
    tag = f"cpython-{python.replace('.', '')}"
    seen: dict[str, str] = {}
    for path, file in walk(app):
        other = seen.setdefault(unicodedata.normalize("NFD", path).casefold(), path)
        if other != path:
            yield Finding("names", path, f"on a Mac the same as {other}")
        if file.is_symlink():
            continue
        mode = file.stat().st_mode
        wanted = 0o555 if file.is_dir() else 0o444
        if mode & wanted != wanted or mode & 0o6022:
            yield Finding("permissions", path, f"{mode & 0o7777:04o}")
        if (_STRAY_FOLDERS if file.is_dir() else _STRAY_FILES).match(file.name):
            yield Finding("strays", path, "does not belong in a bundle")
        elif file.suffix == ".pyc" and (fault := _compiled_fault(file, tag)) is not None:
            yield Finding("strays", path, fault)
        for name in _build_paths(file, machine_paths) if file.is_file() else ():
            yield Finding("build paths", path, f"names {name}")


def _compiled_fault(file: Path, tag: str) -> str | None:
    name, _, found_tag = file.stem.rpartition(".")
    if file.parent.name != "__pycache__" or found_tag != tag:
        return f"compiled, and not as __pycache__/NAME.{tag}.pyc"
    if not (file.parent.parent / f"{name}.py").is_file():
        return "compiled from a source that is not there"
    with file.open("rb") as opened:
        header = opened.read(8)
    if header[:4] != _MAGIC:
        return "compiled by another Python"
    if header[4:8] != _UNCHECKED_HASH.to_bytes(4, "little"):
        return "compiled to be compared with its source; the bundle wants unchecked hashes"
    return None


def _build_paths(file: Path, machine_paths: tuple[Path, ...]) -> Iterator[str]:
    data = file.read_bytes()
    yield from (f"{path}/" for path in machine_paths if f"{path}/".encode() in data)
    if _PATH_FILES.match(file.name) and (found := _MACHINE.search(data)) is not None:
        yield f"a folder under {found[0].decode()}"


def size(app: Path, *, config: Configuration) -> Iterator[Finding]:
    """Find sizes above the budget: without the starter, or with it."""
    whole, of_starter = size_bytes(app), starter_bytes(app, config.prune)
    budget = config.budget
    sizes = {"without the starter": (whole - of_starter, budget.app_bytes)}
    if of_starter:
        sizes["with the starter"] = (whole, budget.app_with_starter_bytes)
    for what, (found, most) in sizes.items():
        if found > most:
            message = f"{found / 1e6:.1f} MB {what}, more than {most / 1e6:.1f}"
            yield Finding("size", "", message)
