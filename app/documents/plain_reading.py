"""Reads plain text, until there are readers of all formats."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from engine.documents import Document, Section
from models.errors import Problem


def read_plain(path: Path, cancelled: Callable[[], bool]) -> Document:
    """The text of a file. Raises Problem."""
    try:
        data = path.read_bytes()
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{path.name} cannot be read as text.", "Attach a text file.") from error
    section = Section("lines", 1, text)
    return Document(path.name, "text", hashlib.sha256(data).hexdigest(), (section,))
