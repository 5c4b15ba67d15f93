"""Reads and writes the locks, a shipped wheel and its sha256 on each line; fetches and unpacks the
wheels.

`make locks` writes the locks again: uv picks versions for the platform, pip finds the wheel of each
that fits the oldest supported system. Locks name no index: a build uses the index of its pip, and
the sha256 decides.
"""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bundle.licences import normalized
from configuration import CACHE, PACKAGING, REPOSITORY
from macho import thin
from models.errors import Problem
from models.files import file_sha256

PYTHON = "3.13"
_LINE = re.compile(r"# (\S+\.whl)\n(\S+)==(\S+) --hash=sha256:([0-9a-f]{64})\n")
_DATA = re.compile(r"[^/]+\.data/(\w+)/(.+)")  # files that pip puts elsewhere
_PIP = (sys.executable, "-m", "pip")
_PIP_OPTIONS = ("--no-deps", "--only-binary=:all:", "--no-input", "--quiet")


@dataclass(frozen=True)
class LockedWheel:
    """A wheel of a lock; `path` is its place once it is fetched."""

    name: str
    version: str
    filename: str
    sha256: str

    @property
    def path(self) -> Path:
        return CACHE / "wheels" / self.filename


@dataclass(frozen=True)
class Platform:
    """A system that wheels are chosen for: uv's name of it, and the wheel tags, best first.

    `minimum_macos` is for uv too, which otherwise chooses for an older system.
    """

    name: str
    uv_name: str
    tags: tuple[str, ...]
    minimum_macos: str = ""

    @property
    def lock(self) -> Path:
        return PACKAGING / "locks" / f"{self.name}.txt"


def macos(minimum: str) -> Platform:
    """Apple silicon, from this system on: pip accepts wheels for older systems, never newer."""
    tag = f"macosx_{minimum.replace('.', '_')}_arm64"
    return Platform("macos-arm64", "aarch64-apple-darwin", (tag,), minimum)


def linux() -> Platform:
    """Linux, for the twin. Older pips know no order among manylinux tags: all are named."""
    tags = [f"manylinux_2_{minor}_x86_64" for minor in range(36, 4, -1)]
    old = ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    return Platform("linux-x86_64", "x86_64-manylinux_2_36", (*tags, *old))


def read_lock(path: Path) -> list[LockedWheel]:
    """Read the wheels of a lock. Raises ValueError for a line that cannot be read."""
    text = path.read_text(encoding="utf-8")
    body = text[text.index("\n\n") + 2 :]
    if _LINE.sub("", body):
        raise ValueError(f"{path} has a line that cannot be read: {_LINE.sub('', body)[:80]!r}")
    return [
        LockedWheel(name, version, filename, sha256)
        for filename, name, version, sha256 in _LINE.findall(body)
    ]


def write_lock(path: Path, wheels: Sequence[LockedWheel]) -> None:
    """Write the wheels, sorted by name; pip can read the file (-r, with --require-hashes)."""
    lines = [f"# Which wheels {path.stem} gets: make locks makes this.\n\n"]
    for wheel in sorted(wheels, key=lambda wheel: wheel.name):
        lines.append(f"# {wheel.filename}\n")
        lines.append(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    path.write_text("".join(lines), encoding="utf-8")


def resolve(platform: Platform, *, leave_out: Sequence[str]) -> list[LockedWheel]:
    """Resolve the wheels for the window, and all that it needs, on `platform` again.

    `leave_out`: names of packages that are not shipped even if others need them.
    """
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "compile", "--quiet"]
    options = [f"--python-platform={platform.uv_name}", f"--python-version={PYTHON}"]
    options += ["--no-python-downloads", "--only-binary=:all:", "--no-header", "--no-annotate"]
    options += [f"--no-emit-package={name}" for name in leave_out]
    environment = dict(os.environ)
    if platform.minimum_macos:
        environment["MACOSX_DEPLOYMENT_TARGET"] = platform.minimum_macos
    pins = _run([*uv, *options, "--extra=window", "pyproject.toml"], environment)
    with TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_bytes(pins)
        command = [*_PIP, "install", *_PIP_OPTIONS, *_tags(platform), "--ignore-installed"]
        command += ["--dry-run", "--target", folder, "--report", "-", "-r", str(requirements)]
        report = json.loads(_run(command))
    return [_reported(item) for item in report["install"]]


def fetch(wheels: Sequence[LockedWheel], platform: Platform) -> None:
    """Fetch all wheels into the cache and check them. Raises `Problem` if one is unavailable."""
    missing = [
        wheel
        for wheel in wheels
        if not wheel.path.is_file() or file_sha256(wheel.path) != wheel.sha256
    ]
    if not missing:
        return
    (CACHE / "wheels").mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=CACHE) as folder:
        lock = Path(folder) / "lock.txt"
        write_lock(lock, missing)
        command = [*_PIP, "download", *_PIP_OPTIONS, *_tags(platform)]
        _run([*command, "--require-hashes", "--dest", folder, "-r", str(lock)])
        for wheel in missing:
            found = Path(folder) / wheel.filename
            if not found.is_file():
                raise Problem(
                    f"The package index has no {wheel.filename}.",
                    "Choose the wheels again: make locks",
                )
            found.replace(wheel.path)


def unpack(
    wheel: LockedWheel, folder: Path, *, architecture: str, is_excluded: Callable[[str], bool]
) -> Path:
    """Unpack `wheel` into `folder`; return its *.dist-info there.

    These are the files that pip would install, without excluded ones, scripts and headers; with
    universal binaries thinned. RECORD lists the files that are there, as libraries look up a
    module's package in it.

    Raises ValueError if it has no part for `architecture`, or files for other folders.
    """
    names: list[str] = []
    with zipfile.ZipFile(wheel.path) as archive:
        for member in archive.infolist():
            name = _place(member.filename)
            if member.is_dir() or name is None or is_excluded(name):
                continue
            if name.startswith("/") or ".." in name.split("/"):
                raise ValueError(f"{wheel.filename} wants to write to {name!r}.")
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(thin(archive.read(member), architecture))
            names.append(name)
    (record,) = [name for name in names if re.fullmatch(r"[^/]+\.dist-info/RECORD", name)]
    (folder / record).write_text("".join(f"{name},,\n" for name in sorted(names)), "utf-8")
    return (folder / record).parent


def _place(name: str) -> str | None:
    """The place of a member; None if it cannot be imported."""
    if found := _DATA.fullmatch(name):
        kind, rest = found.groups()
        return rest if kind in ("purelib", "platlib") else None
    return name


def _tags(platform: Platform) -> list[str]:
    version = f"--python-version={PYTHON}"
    return [version, *(f"--platform={tag}" for tag in platform.tags)]


def _reported(item: dict[str, dict[str, str]]) -> LockedWheel:
    """Read a package of pip's report."""
    download: dict[str, object] = dict(item["download_info"])
    archive = download["archive_info"]
    assert isinstance(archive, dict)
    metadata = item["metadata"]
    filename = str(download["url"]).rsplit("/", 1)[-1].replace("%2B", "+")
    name = normalized(metadata["name"])
    return LockedWheel(name, metadata["version"], filename, archive["hashes"]["sha256"])


def _run(command: Sequence[str], environment: dict[str, str] | None = None) -> bytes:
    tool = "pip" if tuple(command[: len(_PIP)]) == _PIP else Path(command[0]).name
    try:
        done = subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, check=True
        )
    except FileNotFoundError as error:
        raise Problem(
            f"{tool} is not installed with this Python.",
            "Install what packaging needs: pip install -e '.[packaging]'",
        ) from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        wrong = [line for line in lines if "error" in line.lower()] or lines or ["no reason given"]
        raise Problem(
            f"{tool} could not get the packages: {wrong[0].strip().rstrip('.')}.",
            "Check the network connection and the package index that pip is set to.",
        ) from error
    return done.stdout
