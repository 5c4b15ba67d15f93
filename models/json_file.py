"""Small JSON files of our own that are written whole or not at all.

Knows files; nothing of what is in them. Whoever writes holds a lock, where two may write.
"""

import json
import os
from pathlib import Path

from models.errors import Problem


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
