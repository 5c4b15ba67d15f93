"""Small wheels and lines of a lock, for tests."""

import hashlib
import io
import zipfile

from bundle.resolve import LockedWheel


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def write_wheel(folder, members, *, name="tiny"):
    """A wheel of version 1 in `folder`, with a *.dist-info beside `members`."""
    data = zipped(
        {**members, f"{name}-1.dist-info/METADATA": b"", f"{name}-1.dist-info/RECORD": b""}
    )
    filename = f"{name}-1-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / filename).write_bytes(data)
    return LockedWheel(name, "1", filename, hashlib.sha256(data).hexdigest())
