"""Connects to the SQLite file so that commits are durable, and describes SQLite's errors.

Knows SQLite; nothing of conversations.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.conversations.records import clean
from models.errors import Problem

_WAIT_SECONDS = 1.0  # another Slipstream may be closing

_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "foreign_keys = ON",
    "fullfsync = 1",  # reach the disk itself on a Mac; no effect elsewhere
    "checkpoint_fullfsync = 1",
)


class Damaged(Problem):
    """The file is not what SQLite wrote."""


def connect(path: Path) -> sqlite3.Connection:
    """Return an exclusive connection that has written nothing, and writes nothing when closed.

    `make_writable` lets it write, unless the file can only be read. Creates the file if needed,
    readable by its owner only. Raises Problem.
    """
    with problems(path.parent):
        try:
            path.touch(mode=0o600)
            writable = all(os.access(place, os.W_OK) for place in (path, path.parent))
        except OSError as error:
            writable = False
            if not path.is_file():
                raise _not_writable(error.strerror or str(error), path.parent) from error
        return _connect(path, "mode=rw") if writable else _only_read(path)


def _only_read(path: Path) -> sqlite3.Connection:
    """Return a connection that only reads the file and its log. SQLite reads a log only where it
    may write it, so it reads a copy, which lasts as long as the connection."""
    log = path.with_name(f"{path.name}-wal")
    if not log.exists():
        return _connect(path, "mode=ro&immutable=1")
    with TemporaryDirectory() as folder:
        for source in (path, log):
            shutil.copyfile(source, Path(folder) / source.name)
        connection = _connect(Path(folder) / path.name, "mode=rw")
        connection.execute("PRAGMA query_only = ON")
        return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(address, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
    # A flipped bit in a text costs one character, not the chat.
    connection.text_factory = lambda data: str(data, "utf-8", "replace")
    try:
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)
        # The only connection there is: SQLite itself refuses a second Slipstream.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        connection.execute(f"PRAGMA query_only = {'immutable' in mode}")
    except BaseException:
        connection.close()
        raise
    return connection


def make_writable(connection: sqlite3.Connection) -> bool:
    """Let the connection write, and have SQLite write safely. Returns False if it can only read."""
    if connection.execute("PRAGMA query_only").fetchone() == (1,):
        return False
    connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, False)
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    return True


def check_sound(connection: sqlite3.Connection) -> None:
    """Read every table and compare its indexes. Raises Damaged.

    This includes the tables of a full-text index, but not the index itself: it can be rebuilt from
    the texts, and newer versions of SQLite would read all texts to check it.
    """
    with problems():
        tables = connection.execute(
            "SELECT name FROM sqlite_schema "
            "WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite%'"
        ).fetchall()
        for name in ("sqlite_schema", *(name for (name,) in tables)):
            quoted = name.replace('"', '""')
            check = connection.execute(f'PRAGMA integrity_check("{quoted}")')
            (verdict,) = check.fetchone()
            if verdict != "ok":
                raise damaged(str(verdict))


def insert(connection: sqlite3.Connection, table: str, **values: Any) -> int:
    """Add a row with these values, whose texts are cleaned. Returns its id."""
    row = [clean(value) if isinstance(value, str) else value for value in values.values()]
    marks = ", ".join("?" * len(row))
    cursor = connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", row)
    return cursor.lastrowid or 0


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block as one transaction, which is on the disk when the block ends."""
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk may have ended it already
            connection.execute("ROLLBACK")
        raise


@contextmanager
def disk_problem(failure: str, remedy: str) -> Iterator[None]:
    """Raise an OSError of the block as a Problem: the failure with its reason, and the remedy."""
    try:
        yield
    except OSError as error:
        raise Problem(f"{failure}: {error.strerror or error}.", remedy) from error


@contextmanager
def problems(folder: Path | str = "the folder") -> Iterator[None]:
    """Raise SQLite's errors on a file in `folder` as Problems, where the user can do something."""
    try:
        yield
    except sqlite3.Error as error:
        problem = _problem(error, folder)
        if problem is None:
            raise
        raise problem from error
    except UnicodeDecodeError as error:  # Python cannot decode SQLite's message, or a name in it
        raise damaged("the names of its tables are garbled") from error


def _problem(error: sqlite3.Error, folder: Path | str) -> Problem | None:
    code = getattr(error, "sqlite_errorcode", 0)
    match code & 0xFF:  # the rest describes the place more precisely
        case sqlite3.SQLITE_FULL:
            return Problem(
                "The disk is full, so this could not be saved.",
                "Free some space and try again. Earlier messages are safe.",
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return damaged(str(error))
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Problem(
                "The conversations are open in another Slipstream.",
                "Use that window, or close it first.",
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return _not_writable(str(error), folder)
        case sqlite3.SQLITE_IOERR:
            return Problem(
                f"The disk failed to read or write the conversations ({error}).",
                "Check that the disk is there and has space, then try again.",
            )
        case sqlite3.SQLITE_TOOBIG:
            return Problem("This text is too large to be saved.", "Send a part of it.")
    return None


def damaged(detail: str) -> Damaged:
    """Return the error for a damaged file."""
    return Damaged(
        f"The conversations file is damaged ({' '.join(detail.split())[:120]}).",
        "Reopen Slipstream to restore the newest backup. The damaged file is kept.",
    )


def _not_writable(detail: str, folder: Path | str) -> Problem:
    return Problem(
        f"The conversations cannot be written ({detail}).",
        f"Check that {folder} is there and writable, then reopen Slipstream.",
    )
