"""A folder that appears complete or not at all, whatever ends the work.

Knows files; nothing of what is put into them.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from models.errors import Problem


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Somewhere to write; it becomes `folder` when the block ends well, else nothing is left.

    What a killed attempt left is removed by the next one. Raises `Problem` where `folder` is
    there already, is being made, or cannot be written.
    """
    # The store knows it by its name for a leftover.
    partial = folder.with_name(f".{folder.name}.building")
    try:
        if os.path.lexists(folder):
            raise Problem(f"{folder} exists already.", "Delete it, or choose another folder.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(partial.with_name(f"{partial.name}.lock"), timeout=0) as lock:
            shutil.rmtree(partial, ignore_errors=True)
            try:
                partial.mkdir()
                yield partial
                _sync(partial)
                partial.rename(folder)
                _sync_one(folder.parent)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
                Path(lock.lock_file).unlink(missing_ok=True)
    except Timeout as error:
        raise Problem(f"{folder} is being made already.", "Wait until that is done.") from error
    except OSError as error:
        raise Problem(
            f"{folder} cannot be written: {error.strerror or error}.",
            "Make room on the disk, or choose another folder.",
        ) from error


def _sync(folder: Path) -> None:
    """To the disk itself: the name must not get there before what it names."""
    for path in folder.iterdir():
        _sync_one(path)
    _sync_one(folder)


def _sync_one(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
