"""Unpacks wheels into one folder: the files that pip would install, without excluded ones.

Leaves out scripts and headers. RECORD lists the files that are there, as libraries look up a
module's package in it. Universal binaries are thinned.
"""

import re
import zipfile
from collections.abc import Callable
from pathlib import Path

from bundle.resolve import LockedWheel
from macho import thin

_DATA = re.compile(r"[^/]+\.data/(\w+)/(.+)")  # files that pip puts elsewhere


def unpack(
    wheel: LockedWheel, folder: Path, *, architecture: str, is_excluded: Callable[[str], bool]
) -> Path:
    """Unpack `wheel` into `folder`; return its *.dist-info there.

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
