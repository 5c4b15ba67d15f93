"""The answers of `slipstream models --json`, a line for each: see `models.json_lines`.

Knows the records that it reports, and nothing of who asks.
"""

from dataclasses import dataclass
from typing import get_args

from models.json_lines import Language, named_by_class
from models.records import Candidate, Download, Fit, Installed, Inventory, PairOffer, SearchResult


@dataclass(frozen=True, slots=True)
class Found:
    """Results of a search."""

    found: tuple[SearchResult, ...]


@dataclass(frozen=True, slots=True)
class Offered:
    """Pairs of the catalog, the recommended one first."""

    offers: tuple[PairOffer, ...]


@dataclass(frozen=True, slots=True)
class Rated:
    """Every way to draft for the target, best first."""

    target: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan by which several Macs share a target, and the memory that each of them needs."""

    macs: tuple[str, ...]
    fits: bool
    mode: str
    layers: tuple[tuple[int, int], ...]
    ranks: tuple[Fit, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """A download as it is now."""

    download: Download


@dataclass(frozen=True, slots=True)
class Made:
    """A model that is new on this machine."""

    installed: Installed


@dataclass(frozen=True, slots=True)
class Progressed:
    """Bytes that are done, of all."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Opened:
    """The folder of a model that is ready to be loaded."""

    folder: str


@dataclass(frozen=True, slots=True)
class Freed:
    """The bytes that were deleted."""

    freed_bytes: int


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders that the user added."""

    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A `Problem`. The last line."""

    message: str
    remedy: str


Answer = (
    Inventory | Found | Offered | Rated | Fit | Planned | Changed | Made | Progressed | Opened
    | Freed | Folders | Refused
)  # fmt: skip
ANSWERS = Language[Answer]("answer", named_by_class(*get_args(Answer)), longest_bytes=1 << 24)
