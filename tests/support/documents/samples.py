"""Small files of nine kinds, each with something of its own, and what stands where.

They are kept in `tests/data/documents`: samples.zip, and a line for each in samples.jsonl.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from engine.documents import Format

DATA = Path(__file__).parents[2] / "data" / "documents"


@dataclass(frozen=True, slots=True)
class Sample:
    """`said`: some of its text, and the place where it stands."""

    format: Format
    name: str
    data: bytes
    said: tuple[tuple[str, str], ...]


def rows(name):
    """What is said of each file of a set, and its content."""
    with ZipFile(DATA / f"{name}.zip") as files:
        lines = (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        return [(row, files.read(row["name"])) for row in map(json.loads, lines)]


SAMPLES = tuple(
    Sample(row["format"], row["name"], data, tuple((text, place) for text, place in row["said"]))
    for row, data in rows("samples")
)
