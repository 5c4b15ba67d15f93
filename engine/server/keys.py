"""The file of the API key: one line, which only its owner can read."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from models.errors import Problem
from models.files import data_folder

_SHORTEST = 16


def default_key_file() -> Path:
    """Return the default key file, in the app's data folder."""
    return data_folder() / "server-key"


def read_key(path: Path) -> str:
    """Read the key from a file, which is created with a new key if it does not exist.

    Raises `Problem` if other users can read the file, or if it has no key.
    """
    if not os.path.lexists(path):
        _make(path)
    try:
        with path.open(encoding="ascii") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(
            f"The key file {path} cannot be read: {error}.", "Name another file."
        ) from None
    if mode & 0o077:
        raise Problem(f"Other users can read the key file {path}.", f"Run: chmod 600 {path}")
    if len(key) < _SHORTEST or not key.isprintable() or " " in key:
        raise Problem(
            f"The key file {path} has no key of {_SHORTEST} or more characters.",
            "Delete the file to create a new key.",
        )
    return key


def _make(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent) as file:  # which only its owner can read
            file.write(f"sk-slipstream-{secrets.token_urlsafe(24)}\n".encode())
            file.flush()
            with suppress(FileExistsError):  # another process was quicker
                os.link(file.name, path)
    except OSError as error:
        raise Problem(
            f"The key file {path} cannot be created: {error.strerror}.", "Name another file."
        ) from None
