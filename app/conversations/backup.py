"""Makes backups of the conversations' file, removes old ones, and finds the newest sound one.

Keeps all backups of two days, then one a day, then one a week, as Anki does. Does not look into the
conversations.
"""

import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.conversations import schema
from app.conversations.database import check_sound, disk_problem, problems
from models.errors import Problem
from models.files import publish, replacing
from models.in_words import size

INTERVAL = timedelta(hours=1)
ALL_FOR = timedelta(days=2)
DAILY_FOR = timedelta(days=14)
WEEKLY_FOR = timedelta(weeks=12)
FEWEST = 3
LARGEST_TOTAL_BYTES = 2 << 30
_SPARE_BYTES = 16 << 20  # a backup must not be what fills the disk

_SUFFIX = ".sqlite"
_NAME = "%Y%m%dT%H%M%S.%fZ"


@dataclass(frozen=True, slots=True)
class Backup:
    """The path, time and size of a backup."""

    path: Path
    made: datetime
    size_bytes: int


def backups(folder: Path) -> tuple[Backup, ...]:
    """Return the backups in a folder, newest first. Ignores other files."""
    found = []
    for path in folder.glob(f"*{_SUFFIX}"):
        with suppress(ValueError, OSError):  # another name, or deleted just now
            made = datetime.strptime(path.stem, _NAME).replace(tzinfo=UTC)
            found.append(Backup(path=path, made=made, size_bytes=path.stat().st_size))
    return tuple(sorted(found, key=lambda backup: backup.made, reverse=True))


def is_due(folder: Path, *, now: datetime) -> bool:
    """Whether the newest backup is old, or from the future: a clock was wrong."""
    newest = next(iter(backups(folder)), None)
    return newest is None or not timedelta(0) <= now - newest.made < INTERVAL


def make_backup(connection: sqlite3.Connection, folder: Path, *, now: datetime) -> Backup:
    """Copy the whole file into `folder`, check the copy, and remove backups that are no longer
    kept.

    Raises Damaged if the copy is not sound, and Problem if the disk is too full.
    """
    final = folder / f"{now.astimezone(UTC).strftime(_NAME)}{_SUFFIX}"
    partial = final.with_suffix(".partial")
    remedy = "Check that the disk has space. The conversations themselves are safe."
    try:
        with disk_problem("No backup could be made", remedy):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for leftover in folder.glob("*.partial*"):  # of a killed process, with its log
                leftover.unlink()
            _check_room(connection, folder)
            partial.touch(mode=0o600)
            with problems(), closing(sqlite3.connect(partial, isolation_level=None)) as copy:
                connection.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log
                check_sound(copy)
            publish(partial, final)
            size_bytes = final.stat().st_size
            for backup in to_drop(backups(folder), now=now):
                backup.path.unlink()
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return Backup(path=final, made=now, size_bytes=size_bytes)


def to_drop(
    found: Iterable[Backup], *, now: datetime, largest_total_bytes: int = LARGEST_TOTAL_BYTES
) -> tuple[Backup, ...]:
    """Return the backups to remove. The newest three are always kept."""
    newest_first = sorted(found, key=lambda backup: backup.made, reverse=True)
    drop, seen, total_bytes = [], set(), 0
    for position, backup in enumerate(newest_first):
        period = _period(backup.made, now - backup.made)
        wanted = period is not None and period not in seen
        fits = total_bytes + backup.size_bytes <= largest_total_bytes
        if position < FEWEST or (wanted and fits):
            seen.add(period)
            total_bytes += backup.size_bytes
        else:
            drop.append(backup)
    return tuple(drop)


def _period(made: datetime, age: timedelta) -> tuple[object, ...] | None:
    """Return the period that keeps one backup; None for a backup that is too old to keep."""
    if age <= ALL_FOR:
        return (made,)
    if age <= DAILY_FOR:
        return (made.date(),)
    if age <= WEEKLY_FOR:
        return made.isocalendar()[:2]
    return None


def newest_good(folder: Path) -> Backup | None:
    """Return the newest backup that is sound and not of a version before the first release."""
    for backup in backups(folder):
        address = f"{backup.path.absolute().as_uri()}?mode=ro&immutable=1"
        with (
            suppress(Problem, sqlite3.Error),
            problems(),
            closing(sqlite3.connect(address, uri=True)) as connection,
        ):
            check_sound(connection)
            if schema.version(connection) >= schema.VERSION:
                return backup
    return None


def restore(backup: Backup, path: Path) -> None:
    """Put a copy of the backup at `path`, whole or not at all. Raises OSError."""
    with replacing(path) as partial:
        partial.touch(mode=0o600)
        shutil.copyfile(backup.path, partial)


def _check_room(connection: sqlite3.Connection, folder: Path) -> None:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    needed = pages * page_bytes + _SPARE_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise Problem(
            f"A backup needs {size(needed)} and the disk has {size(free)}.",
            "Free some space. The conversations themselves are safe.",
        )
