"""Reads JSON from other programs: every value is checked, and an error names its place."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from app.conversations.records import Entry, clean

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


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; none for another value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def fields(value: Any) -> dict[str, Any]:
    """Return the fields of an object; none for another value."""
    return value if isinstance(value, dict) else {}


def attached(name: Any) -> str:
    """Return the words for a file that was attached; empty without a name."""
    return f"[file: {' '.join(text(name).split())}]" if text(name).strip() else ""


def chained(names: Iterable[str]) -> dict[str, str]:
    """Return the parents of messages that follow each other."""
    found, before = {}, ""
    for name in names:
        found[name], before = before, name
    return found


def tree_of(
    parents: Mapping[str, str], entry: Callable[[str, int | None], Entry | None], *, leaf: str
) -> tuple[tuple[Entry, ...], int | None]:
    """Return the entries of messages that name their parents, parents first, and the index of the
    leaf: of the message `leaf`, or else of the last one.

    `entry` returns the entry of a message below the entry with that index, or None if it has
    nothing to show: the messages after it follow those before it. Raises Unreadable.
    """
    entries: list[Entry] = []
    index_of: dict[str, int | None] = {}  # of a message's entry, or of the nearest above it
    for name in parents:
        for node in _down_to(name, parents, index_of):
            above = index_of.get(parents[node])
            made = entry(node, above)
            index_of[node] = above if made is None else len(entries)
            if made is not None:
                entries.append(made)
    last = index_of.get(leaf)
    return tuple(entries), last if last is not None or not entries else len(entries) - 1


def _down_to(name: str, parents: Mapping[str, str], done: Mapping[str, int | None]) -> list[str]:
    """Return the messages from the first that is not done down to `name`. A loop, as trees are
    deep."""
    way: list[str] = []
    seen: set[str] = set()
    node = name
    while node in parents and node not in done:
        if node in seen:
            raise Unreadable("The messages run in a circle")
        seen.add(node)
        way.append(node)
        node = parents[node]
    return way[::-1]


def _part(value: Any) -> str:
    if not isinstance(value, dict):
        return text(value)
    if isinstance(value.get("text"), str):
        return text(value["text"])
    kind = text(value.get("type") or value.get("content_type")) or "attachment"
    return f"[{'image' if 'image' in kind else ' '.join(kind.split())[:40]}]"
