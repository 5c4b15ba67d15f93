"""Whether a file is what the hub published: its sha256, or for small files its git sha1."""

import hashlib
from pathlib import Path

from models.stopping import Stop

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
    if len(digest) == 64:
        hashed = hashlib.sha256()
    else:
        hashed = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            stop.check()
            hashed.update(block)
    return hashed.hexdigest() == digest
