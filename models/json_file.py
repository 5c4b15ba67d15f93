"""JSON files: anybody's are read with care, our own are written whole or not at all.

Knows files; nothing of what is in them. Whoever writes holds a lock, where two may write.
"""

import json
import os
from pathlib import Path
from typing import Any

from models.errors import Problem

MAXIMUM_CONFIG_BYTES = 16_000_000


def read_json_object(path: Path, *, maximum_bytes: int = MAXIMUM_CONFIG_BYTES) -> dict[str, Any]:
    """The JSON object in the file at `path`. Raises Problem if there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(maximum_bytes + 1)
        value = json.loads(data.decode()) if len(data) <= maximum_bytes else None
    except (ValueError, RecursionError):
        value = None
    except OSError as error:
        raise Problem(
            f"{path} cannot be read: {error.strerror or error}.",
            "Check that the disk is there and that you may read the file.",
        ) from error
    if not isinstance(value, dict):
        raise Problem(f"{path} is not a JSON object.", "Download or import the model again.")
    return value


def write_json(path: Path, value: object) -> None:
    """Put `value` into the file at `path`, on the disk before this returns.

    The file has its old content or the new one, whenever the process or the machine dies. Raises
    Problem where it cannot be written; the old content stays.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise Problem(
            f"{path.name} cannot be written in {path.parent}: {error.strerror or error}.",
            "Make room on the disk, and check that you may write there.",
        ) from error
