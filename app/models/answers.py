"""What `slipstream models ... --json` answers, as the records of `models.records`.

Knows which keys an answer has. What is not known is left out, so that a newer command still
answers; what is missing is a Problem.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from models.errors import Problem
from models.records import Candidate, Download, Found, Incomplete, Installed, Offer

Plain = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shelf:
    """What is on this machine, and on its way here. `free_bytes` is the room on the disk."""

    installed: tuple[Installed, ...] = ()
    incomplete: tuple[Incomplete, ...] = ()
    downloads: tuple[Download, ...] = ()
    folders: tuple[str, ...] = ()
    free_bytes: int = 0

    def find(self, name: str) -> Installed | None:
        """The installed model of that name, or in that folder. Case tells no names apart."""
        wanted = name.lower()
        return next(
            (one for one in self.installed if one.path == name or one.name.lower() == wanted), None
        )


def read_shelf(answer: Plain) -> Shelf:
    """Of `list`. Raises Problem."""
    return Shelf(
        _records(Installed, answer, "installed"),
        _records(Incomplete, answer, "incomplete"),
        _records(Download, answer, "downloads"),
        tuple(str(folder) for folder in _items(answer, "folders")),
        int(answer.get("free_bytes") or 0),
    )


def read_found(answer: Plain) -> tuple[Found, ...]:
    """Of `search`. Raises Problem."""
    return _records(Found, answer, "found")


def read_offers(answer: Plain) -> tuple[Offer, ...]:
    """Of `pair`. Raises Problem."""
    return _records(Offer, answer, "offers")


def read_candidates(answer: Plain) -> tuple[Candidate, ...]:
    """Of `pair --target`. Raises Problem."""
    return _records(Candidate, answer, "candidates")


def read_download(answer: Plain) -> Download | None:
    """Of a line of `pull`; None where the line is about something else. Raises Problem."""
    return _record(Download, answer["download"]) if "download" in answer else None


def _records[R](kind: type[R], answer: Plain, key: str) -> tuple[R, ...]:
    return tuple(_record(kind, plain) for plain in _items(answer, key))


def _items(answer: Plain, key: str) -> Iterable[Any]:
    items = answer.get(key)
    if not isinstance(items, list):
        raise _misunderstood()
    return items


def _record[R](kind: type[R], plain: object) -> R:
    if not isinstance(plain, dict):
        raise _misunderstood()
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    given = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in plain.items()
        if key in known
    }
    try:
        return kind(**given)
    except TypeError as error:
        raise _misunderstood() from error


def _misunderstood() -> Problem:
    return Problem(
        "The answer of a command on models is not as it should be.",
        "Install Slipstream again, so that all its parts are of one version.",
    )
