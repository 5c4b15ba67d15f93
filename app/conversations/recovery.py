"""Opens the file in any state: damaged, missing, of another version, or another program's.

A damaged file is moved aside, never repaired in place and never deleted; the newest sound backup
takes its place. If the process is killed at any point, the next start continues: a missing file is
restored too, if there are backups.
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
    disk_problem,
    make_writable,
    problems,
)


def open_sound(path: Path, *, backups: Path) -> tuple[sqlite3.Connection, str | None]:
    """Return a connection to a sound file of this version, and a notice for the user, if any.

    Raises Problem if the file is of another version, another program's, in use, or cannot be made.
    The file is then unchanged.
    """
    remedy = f"Check that {path.parent} is there, writable and has space, then try again."
    with disk_problem("The conversations cannot be opened", remedy):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        notice = None
        if _is_lost(path) and backup.backups(backups):
            notice = _replace(path, backups, what="was missing")
        try:
            return _open(path), notice
        except Damaged:
            notice = _replace(path, backups, what="was damaged")
            return _open(path), notice


def _open(path: Path) -> sqlite3.Connection:
    connection = connect(path)
    try:
        with problems(path.parent):
            schema.check(connection)
            check_sound(connection)
            if lacking := schema.lacking(connection):
                raise damaged(f"it lacks {min(lacking)}")
            if make_writable(connection):
                schema.make(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_lost(path: Path) -> bool:
    """Whether the file is missing, or empty, as a power failure leaves it on some file systems."""
    return not path.exists() or path.stat().st_size == 0


def _replace(path: Path, folder: Path, *, what: str) -> str:
    """Move the file aside and restore the newest sound backup. Returns a notice about that."""
    kept = _keep_aside(path)
    good = backup.newest_good(folder)
    if good is None:
        outcome = "No usable backup was found, so the list is empty."
    else:
        backup.restore(good, path)
        made = good.made.astimezone()
        outcome = f"The backup of {made:%Y-%m-%d} at {made:%H:%M} was restored."
    aside = f" The old file is kept as {kept}." if kept is not None else ""
    return f"The conversations file {what}. {outcome}{aside}"


def _keep_aside(path: Path) -> Path | None:
    """Rename the file and its log, so that another file never meets that log. Returns the new name,
    if any."""
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
