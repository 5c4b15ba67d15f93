"""What `slipstream models ... --json` answers, as the records of `models.records`.

Knows which keys an answer has. What is not known is left out, so that a newer command still
answers; what is missing is a Problem.
"""

from dataclasses import dataclass
from typing import Any

from models.errors import Problem
from models.records import Candidate, Download, Found, Incomplete, Installed, Offer
from models.typed_json import decode

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
        _read(tuple[Installed, ...], answer, "installed"),
        _read(tuple[Incomplete, ...], answer, "incomplete"),
        _read(tuple[Download, ...], answer, "downloads"),
        _read(tuple[str, ...], answer, "folders"),
        _read(int, {"free_bytes": 0} | answer, "free_bytes"),
    )


def read_found(answer: Plain) -> tuple[Found, ...]:
    """Of `search`. Raises Problem."""
    return _read(tuple[Found, ...], answer, "found")


def read_offers(answer: Plain) -> tuple[Offer, ...]:
    """Of `pair`. Raises Problem."""
    return _read(tuple[Offer, ...], answer, "offers")


def read_candidates(answer: Plain) -> tuple[Candidate, ...]:
    """Of `pair --target`. Raises Problem."""
    return _read(tuple[Candidate, ...], answer, "candidates")


def read_download(answer: Plain) -> Download | None:
    """Of a line of `pull`; None where the line is about something else. Raises Problem."""
    return _read(Download, answer, "download") if "download" in answer else None


def _read[T](kind: type[T], answer: Plain, key: str) -> T:
    try:
        return decode(kind, answer.get(key), place=key, ignore_unknown=True)
    except ValueError as error:
        raise Problem(
            "The answer of a command on models is not as it should be.",
            "Install Slipstream again, so that all its parts are of one version.",
        ) from error
