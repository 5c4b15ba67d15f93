"""Installs Python in the bundle: libpython, extension modules, and the standard library.

For the Mac it comes from a wheel and a source archive, both pinned; for the twin from a Python 3.13
of this machine. Both have the same layout:

    python/lib/python3.13/              the library in Python, where Python looks for it
    python/lib/python3.13/lib-dynload/  extension modules
    python/lib/python3.13/bases/lib/    libpython (`Python`) and OpenSSL, where those look for it
"""

import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bundle.build_python import BuildPython
from bundle.resolve import LockedWheel, fetch, macos
from configuration import CACHE, Configuration, Prune, Runtime
from macho import thin
from models.errors import Problem
from models.files import file_sha256
from models.hub.transfer import fetch_file

SOURCE_VARIABLE = "SLIPSTREAM_PYTHON_SOURCE"
LIBRARY = Path("lib") / "python3.13"  # within the folder that is sys.prefix
_BINARIES = ("Python", "libssl.3.dylib", "libcrypto.3.dylib")
_POOL = "pool/main/p/python3.13"  # on whichever mirror of Debian this machine uses
_MOST_BYTES = 100_000_000

# The variables that sysconfig reads on a Mac. Nothing is compiled there, so few matter.
_SYSCONFIG_DATA = """\
build_time_vars = {
    "EXT_SUFFIX": ".cpython-313-darwin.so",
    "SOABI": "cpython-313-darwin",
    "SHLIB_SUFFIX": ".so",
    "MACOSX_DEPLOYMENT_TARGET": "11.0",
    "PYTHONFRAMEWORK": "",
    "Py_ENABLE_SHARED": 1,
    "Py_GIL_DISABLED": 0,
    "VERSION": "3.13",
    "prefix": "",
    "exec_prefix": "",
}
"""


def runtime_wheel(runtime: Runtime) -> LockedWheel:
    """The wheel with libpython and the extension modules."""
    name, version, *_ = runtime.wheel.split("-")
    return LockedWheel(name.replace("_", "-"), version, runtime.wheel, runtime.wheel_sha256)


def install_for_mac(folder: Path, configuration: Configuration) -> None:
    """Make `folder`. Raises `Problem` if the wheel or the archive is unavailable."""
    application, runtime = configuration.application, configuration.runtime
    wheel = runtime_wheel(runtime)
    fetch([wheel], macos(application.minimum_macos))
    library = folder / LIBRARY
    binaries, extensions = library / "bases" / "lib", library / "lib-dynload"
    binaries.mkdir(parents=True)
    extensions.mkdir()
    is_excluded = configuration.prune.excluded("extensions")
    with zipfile.ZipFile(wheel.path) as archive:
        for name in archive.namelist():
            place, _, file = name.rpartition("/")
            if place == "freeze_core/bases/lib" and file in _BINARIES:
                path = binaries / file
            elif place == "freeze_core/lib" and file.endswith(".so") and not is_excluded(file):
                path = extensions / file
            else:
                continue
            path.write_bytes(thin(archive.read(name), application.architecture))
    _extract_stdlib(source_archive(runtime), library, configuration.prune.excluded("stdlib"))
    data = library / "_sysconfigdata__darwin_darwin.py"
    data.write_text(_SYSCONFIG_DATA, encoding="utf-8")


def openssl_version(folder: Path) -> str:
    """The version of the OpenSSL in `folder`. Raises `Problem` if it names none."""
    data = (folder / LIBRARY / "bases" / "lib" / "libcrypto.3.dylib").read_bytes()
    found = re.search(rb"OpenSSL (\d+\.\d+\.\d+) ", data)
    if found is None:
        raise Problem(
            "The OpenSSL that comes with Python does not name its version.",
            "Look its version up, and write it into packaging/bundle/runtime.py.",
        )
    return found[1].decode()


def install_for_twin(folder: Path, python: BuildPython, prune: Prune) -> None:
    """Make `folder` from `python`. Raises `Problem` if that has no shared libpython."""
    if not (python.library.suffix != ".a" and python.library.is_file()):
        raise Problem(
            f"{python.executable} has no libpython of its own to load.",
            "Use a Python that was built with --enable-shared.",
        )
    library = folder / LIBRARY
    (library / "bases" / "lib").mkdir(parents=True)
    shutil.copyfile(python.library, library / "bases" / "lib" / "Python")
    copy_tree(python.extensions, library / "lib-dynload", prune.excluded("extensions"))
    copy_tree(python.stdlib, library, prune.excluded("stdlib"))


def source_archive(runtime: Runtime) -> Path:
    """The source archive: given, or fetched once from this machine's Debian mirror.

    Raises `Problem` if it is unavailable or has another sha256.
    """
    given = os.environ.get(SOURCE_VARIABLE)
    path = Path(given) if given else CACHE / runtime.source
    if not given and not path.is_file():
        _fetch_from_debian(path, runtime.source_sha256)
    if path.is_file() and file_sha256(path) == runtime.source_sha256:
        return path
    raise Problem(
        f"The source archive of Python {runtime.version} was not found.",
        f"Get {runtime.source} (Debian's package python3.13; sha256 {runtime.source_sha256}), "
        f"and set {SOURCE_VARIABLE} to its path.",
    )


def _fetch_from_debian(path: Path, sha256: str) -> None:
    """Fetch the archive from a mirror that apt uses, if there is one."""
    try:
        printed = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(SITE)"], capture_output=True, text=True
        )
    except OSError:
        return
    for site in sorted(set(re.findall(r"https?://\S+", printed.stdout))):
        url = f"{site}/{_POOL}/{path.name}"
        with suppress(Problem):
            fetch_file(url, path, sha256=sha256, most_bytes=_MOST_BYTES, wait_seconds=0.0)
            return


def _extract_stdlib(source: Path, folder: Path, is_excluded: Callable[[str], bool]) -> None:
    with tarfile.open(source) as archive:
        for member in archive:
            _, _, name = member.name.partition("/Lib/")
            if member.name.count("/") == 1 and member.name.endswith("/LICENSE"):
                name = "LICENSE.txt"  # where an installed Python has it
            if member.isfile() and name and not is_excluded(name):
                data = archive.extractfile(member)
                assert data is not None
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data.read())


def copy_tree(
    source: Path,
    folder: Path,
    is_excluded: Callable[[str], bool] = lambda name: False,
    *,
    under: str = "",
) -> None:
    """Copy the files below `source`, or `under` a part of it, that are not excluded by their place
    in `source`."""
    for path in sorted((source / under).rglob("*")):
        name = path.relative_to(source).as_posix()
        if path.is_file() and not is_excluded(name):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
