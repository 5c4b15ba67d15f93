"""Opening the file whatever state it is in: damaged, missing, old, new, or somebody else's.

A damaged file is kept aside, never repaired in place and never deleted, and the newest good
backup takes its place. Killed at any point, the next start goes on from there: a file that is
missing while there are backups is restored too.
"""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from app.conversations import backup, schema
from app.conversations.database import (
    Damaged,
    check_sound,
    connect,
    damaged,
    make_writable,
    problems,
)
from models.errors import Problem


def open_sound(path: Path, *, backups: Path) -> tuple[sqlite3.Connection, str | None]:
    """A connection to a sound file of the newest version, and what a person must be told.

    Raises Problem where the file is newer than this version, another program's, in use, or
    cannot be written. It is then left as it is.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        notice = None
        if _is_lost(path) and backup.backups(backups):
            notice = _replace(path, backups, what="was missing")
        try:
            return _open(path, backups=backups), notice
        except Damaged:
            notice = _replace(path, backups, what="was damaged")
            return _open(path, backups=backups), notice
    except OSError as error:
        raise Problem(
            f"The conversations cannot be opened ({error.strerror or error}).",
            f"Check that {path.parent} is there, writable and has space, then try again.",
        ) from error


def _open(path: Path, *, backups: Path) -> sqlite3.Connection:
    connection = connect(path)
    try:
        with problems():
            schema.check(connection)
            check_sound(connection)
            if lacking := schema.lacking(connection):
                raise damaged(f"it lacks {min(lacking)}")
            make_writable(connection)
            schema.migrate(
                connection,
                back_up=lambda: backup.make_backup(connection, backups, now=datetime.now(UTC)),
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _is_lost(path: Path) -> bool:
    """Missing, or empty as some file systems leave a file after a power failure."""
    return not path.exists() or path.stat().st_size == 0


def _replace(path: Path, folder: Path, *, what: str) -> str:
    """Keep what is there aside, restore the newest good backup, and say so."""
    kept = _keep_aside(path)
    good = backup.newest_good(folder)
    if good is None:
        outcome = "There is no good backup, so the list starts empty."
    else:
        backup.restore(good, path)
        made = good.made.astimezone()
        outcome = f"The backup of {made:%Y-%m-%d} at {made:%H:%M} was restored."
    aside = f" The old file is kept as {kept}." if kept is not None else ""
    return f"The file that holds the conversations {what}. {outcome}{aside}"


def _keep_aside(path: Path) -> Path | None:
    """Rename the file and its log, so that no other file meets that log. The new name, if any."""
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    aside = path.with_name(f"{path.stem}-damaged-{stamp}{path.suffix}")
    kept = None
    if path.exists() and path.stat().st_size:
        path.rename(aside)
        kept = aside
    log = path.with_name(f"{path.name}-wal")
    if log.exists():
        log.rename(aside.with_name(f"{aside.name}-wal"))
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
    return kept
