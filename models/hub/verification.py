"""Whether a file is what the hub published: its sha256, or for small files its git sha1."""

import hashlib
from pathlib import Path

from models.hub.stopping import Stop

_BLOCK_BYTES = 4 << 20


def has_digest(path: Path, digest: str, *, size_bytes: int | None = None, stop: Stop) -> bool:
    """Whether the file is of that size and hashes to `digest`: a sha256, or a git blob's sha1.

    Raises Stopped between blocks, and OSError where it cannot be read.
    """
    if not path.is_file():
        return False
    size = path.stat().st_size
    if size_bytes is not None and size != size_bytes:
        return False
    hashed = _begin(digest, size)
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            stop.check()
            hashed.update(block)
    return hashed.hexdigest() == digest


def is_content(data: bytes, digest: str) -> bool:
    """Whether the bytes hash to `digest`, as above."""
    hashed = _begin(digest, len(data))
    hashed.update(data)
    return hashed.hexdigest() == digest


def _begin(digest: str, size_bytes: int) -> "hashlib._Hash":
    if len(digest) == 64:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % size_bytes, usedforsecurity=False)
