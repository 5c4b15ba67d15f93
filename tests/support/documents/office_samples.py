"""Twenty files of five kinds with what such files have in them, and what is read of each.

They are kept in `tests/data/documents`: office.zip, and a line for each in office.jsonl.
"""

from dataclasses import dataclass

from engine.documents import Section
from engine.documents.read import Read
from tests.support.documents.samples import rows


@dataclass(frozen=True, slots=True)
class Sample:
    """`hidden`: characters that nobody sees, which are dropped whatever the kind."""

    name: str
    data: bytes
    read: Read
    hidden: int = 0


def office_samples():
    """By the names of the files."""
    return {
        row["name"]: Sample(
            row["name"],
            data,
            Read(
                tuple(Section(*section) for section in row["sections"]),
                tuple(row.get("without_text", ())),
                left_out=tuple(row.get("left_out", ())),
            ),
            row.get("hidden", 0),
        )
        for row, data in rows("office")
    }
