"""Small wheels, universal binaries and lines of a lock, for tests."""

import hashlib
import io
import struct
import zipfile
from pathlib import Path

from resolve import Wheel

ARM64, X86_64 = 0x0100000C, 0x01000007


def universal(parts: dict[int, bytes]) -> bytes:
    """A universal binary with these parts, by CPU type."""
    head = struct.pack(">II", 0xCAFEBABE, len(parts))
    offset, body = 8 + 20 * len(parts), b""
    for cpu_type, data in parts.items():
        head += struct.pack(">5I", cpu_type, 0, offset + len(body), len(data), 0)
        body += data
    return head + body


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def write_wheel(folder: Path, members: dict[str, bytes], *, name: str = "tiny") -> Wheel:
    """A wheel of version 1 in `folder`, with a *.dist-info beside `members`."""
    data = zipped(
        {**members, f"{name}-1.dist-info/METADATA": b"", f"{name}-1.dist-info/RECORD": b""}
    )
    filename = f"{name}-1-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / filename).write_bytes(data)
    return Wheel(name, "1", filename, hashlib.sha256(data).hexdigest())
