"""Small files of all kinds, each with something of its own, and what is read of them.

They are kept in `tests/data/documents`: samples.zip, office.zip, and a line for each in the .jsonl.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from engine.documents import Format, Section
from engine.documents.read import Read

DATA = Path(__file__).parents[2] / "data" / "documents"


@dataclass(frozen=True, slots=True)
class Sample:
    """`said`: some of its text, and the place where it stands."""

    format: Format
    name: str
    data: bytes
    said: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class OfficeSample:
    """Of an office program, a book or a page; all that is `read` of it. `hidden`: characters that
    no one sees, which are dropped whatever the kind."""

    name: str
    data: bytes
    read: Read
    hidden: int


def _rows(name):
    """What is said of each file of a set, and its content."""
    with ZipFile(DATA / f"{name}.zip") as files:
        lines = (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        return [(row, files.read(row["name"])) for row in map(json.loads, lines)]


def _read(row):
    sections = tuple(Section(*section) for section in row["sections"])
    without_text, left_out = (tuple(row.get(name, ())) for name in ("without_text", "left_out"))
    return Read(sections, without_text, left_out=left_out)


def seen(read):
    """The texts of what was read, and what is told of the rest."""
    return [section.text for section in read.sections], read.left_out


SAMPLES = tuple(
    Sample(row["format"], row["name"], data, tuple((text, place) for text, place in row["said"]))
    for row, data in _rows("samples")
)
OFFICE_SAMPLES = {
    row["name"]: OfficeSample(row["name"], data, _read(row), row.get("hidden", 0))
    for row, data in _rows("office")
}
