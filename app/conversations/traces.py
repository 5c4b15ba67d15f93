"""The trace of an answer, in SQL: its events as compressed JSON lines.

A flush appends a part with the new events, so its cost does not grow with the answer. The end joins
the parts, which compresses better. Runs inside its caller's transaction.
"""

import sqlite3
import zlib
from collections.abc import Sequence
from contextlib import suppress

from engine.events import Event, from_json, to_json
from models.errors import Problem


def extend(connection: sqlite3.Connection, message: int, events: Sequence[Event]) -> None:
    """Store the new events. `events` are all of the answer so far."""
    part, stored = _extent(connection, message)
    _append(connection, message, part, [to_json(event) for event in events[stored:]])


def join(connection: sqlite3.Connection, message: int) -> None:
    """Join the parts. If one cannot be read, they stay as they are."""
    part, _ = _extent(connection, message)
    if part > 1:
        with suppress(zlib.error):
            lines = _lines(connection, message)
            connection.execute("DELETE FROM traces WHERE message = ?", (message,))
            _append(connection, message, 0, lines)


def read(connection: sqlite3.Connection, message: int) -> tuple[Event, ...]:
    """Return all stored events; none for a message that was not generated here.

    Raises Problem if they are damaged, or of a version with other events.
    """
    try:
        return tuple(map(from_json, _lines(connection, message)))
    except (zlib.error, ValueError) as error:
        raise Problem(
            f"The rounds of this answer cannot be shown ({str(error)[:80]}).",
            "The answer is complete. Regenerate it to see rounds.",
        ) from error


def _append(connection: sqlite3.Connection, message: int, part: int, lines: list[str]) -> None:
    if lines:
        packed = zlib.compress("".join(f"{line}\n" for line in lines).encode())
        connection.execute(
            "INSERT INTO traces (message, part, events, lines) VALUES (?, ?, ?, ?)",
            (message, part, len(lines), packed),
        )


def _extent(connection: sqlite3.Connection, message: int) -> tuple[int, int]:
    """Return the number of the next part, and the number of events in the parts."""
    next_part, events = connection.execute(
        "SELECT coalesce(max(part) + 1, 0), coalesce(sum(events), 0) FROM traces WHERE message = ?",
        (message,),
    ).fetchone()
    return int(next_part), int(events)


def _lines(connection: sqlite3.Connection, message: int) -> list[str]:
    rows = connection.execute(
        "SELECT lines FROM traces WHERE message = ? ORDER BY part", (message,)
    )
    text = b"".join(zlib.decompress(lines) for (lines,) in rows).decode()
    return text.split("\n")[:-1]
