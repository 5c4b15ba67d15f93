"""Small wheels and lines of a lock, for tests."""

import hashlib
import io
import zipfile
from pathlib import Path

from bundle.resolve import LockedWheel


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def write_wheel(folder: Path, members: dict[str, bytes], *, name: str = "tiny") -> LockedWheel:
    """A wheel of version 1 in `folder`, with a *.dist-info beside `members`."""
    data = zipped(
        {**members, f"{name}-1.dist-info/METADATA": b"", f"{name}-1.dist-info/RECORD": b""}
    )
    filename = f"{name}-1-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / filename).write_bytes(data)
    return LockedWheel(name, "1", filename, hashlib.sha256(data).hexdigest())
