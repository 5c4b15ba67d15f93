"""What a reader finds in the bytes of a file, before it becomes a `Document`.

A reader is a function `read_x(data: bytes) -> Read`, one per format, in a file of its own beside
this one. It raises `Problem` for what cannot be read. It need not drop hidden characters, nor cut
long texts, nor know the file's name: `child` does that for all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.documents import Section

_NAMED = 10


@dataclass(frozen=True, slots=True)
class Read:
    """The fields are those of `Document`."""

    sections: tuple[Section, ...]
    without_text: tuple[int, ...] = ()
    faint: int = 0
    left_out: tuple[str, ...] = ()


def told(what: str, names: Sequence[str]) -> tuple[str, ...]:
    """What was left out, in a line, or none: "Hidden sheets: Old, Older."."""
    if not names:
        return ()
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return (f"{what}: {', '.join(names[:_NAMED])}{more}.",)
