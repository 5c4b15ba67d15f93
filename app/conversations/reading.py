"""Taking JSON from anywhere apart: every value is checked, and an error says where it stands."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from app.conversations.records import clean

_MILLISECONDS_FROM = 100_000_000_000  # larger numbers are milliseconds, as some programs write


class Unreadable(ValueError):
    """What is wrong with a value; `exchange` makes it a Problem."""


@contextmanager
def at(place: str) -> Iterator[None]:
    """Say in what part of the file the value is."""
    try:
        yield
    except Unreadable as error:
        text = str(error)
        raise Unreadable(f"In {place}: {text[0].lower()}{text[1:]}") from error


def text(value: Any) -> str:
    """A text, whole characters only; empty for anything else."""
    return clean(value) if isinstance(value, str) else ""


def moment(value: Any) -> datetime | None:
    """A moment from seconds since 1970 or an ISO date; None where it is not given or absurd."""
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
    """The text of a content: a text, or a list of parts of which those that are none are named."""
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
