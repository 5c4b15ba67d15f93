"""Reads JSON from other programs: every value is checked, and an error names its place."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from app.conversations.records import clean

_MILLISECONDS_FROM = 100_000_000_000  # larger numbers are milliseconds, as some programs write


class Unreadable(ValueError):
    """A value is wrong. `exchange` turns it into a Problem."""


@contextmanager
def at(place: str) -> Iterator[None]:
    """Add the place in the file to errors raised in the block."""
    try:
        yield
    except Unreadable as error:
        text = str(error)
        raise Unreadable(f"In {place}: {text[0].lower()}{text[1:]}") from error


def text(value: Any) -> str:
    """Return a text of whole characters; empty for any other value."""
    return clean(value) if isinstance(value, str) else ""


def moment(value: Any) -> datetime | None:
    """Return the time of seconds since 1970 or an ISO date; None if missing or absurd."""
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            found = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
        elif type(value) in (int, float):
            seconds = value / 1000 if value > _MILLISECONDS_FROM else value
            found = datetime.fromtimestamp(seconds, UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return found if 1970 < found.year < 9999 else None


def parts(value: Any) -> str:
    """Return the text of a content: a text, or a list of parts. Parts without text are named."""
    if not isinstance(value, list):
        return text(value)
    return "\n\n".join(filter(None, map(_part, value)))


def _part(value: Any) -> str:
    if not isinstance(value, dict):
        return text(value)
    if isinstance(value.get("text"), str):
        return text(value["text"])
    kind = text(value.get("type") or value.get("content_type")) or "attachment"
    return f"[{'image' if 'image' in kind else ' '.join(kind.split())[:40]}]"
