"""What was read of a file that a person attached, and where in the file each part of it stands.

A document's text is that of its sections, in order. Whatever speaks of a part of it (a passage, a
copied span) says where it begins and ends in that text. Knows no format, no model, and no window.
"""

import json
from bisect import bisect_right
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal

from models.typed_json import decode

Format = Literal[
    "pdf",
    "docx",
    "xlsx",
    "pptx",
    "epub",
    "html",
    "markdown",
    "csv",
    "notebook",
    "text",
    "folder",
]
SectionKind = Literal["page", "sheet", "slide", "chapter", "part", "cell", "lines"]

BETWEEN = "\n\n"
"""Stands between two sections of a text."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document that has a place of its own.

    `number`: of the page, slide, chapter, cell or part, or the first line or row, from 1; 0 where
    there is none. `label`: the name of the sheet, the heading, the path of the file in a folder; or
    empty.
    """

    kind: SectionKind
    number: int
    text: str
    label: str = ""

    @property
    def place(self) -> str:
        """Where it stands, in words: "page 3", "sheet Prices", "app/start.py, line 1"."""
        match self.kind:
            case "sheet":
                row = f", row {self.number}" if self.number > 1 else ""
                return f"sheet {self.label}{row}"
            case "lines":
                return f"{self.label}, line {self.number}" if self.label else f"line {self.number}"
            case "part":
                return self.label or f"part {self.number}"
            case _:
                named = f"{self.kind} {self.number}"
                return f"{named}, {self.label}" if self.label else named


@dataclass(frozen=True)
class Document:
    """`name` of the file, without its folder; `digest`, the file's sha256 in hexadecimal digits.

    `without_text`: the numbers of pages that show something and have no text. `hidden`: how many
    characters that nobody sees were dropped. `faint`: how many there are that are white, tiny or
    beside the page, and are part of the text all the same. `left_out`: what was not read, each with
    the reason, and what was guessed.
    """

    name: str
    format: Format
    digest: str
    sections: tuple[Section, ...]
    without_text: tuple[int, ...] = ()
    hidden: int = 0
    faint: int = 0
    left_out: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str:
        return BETWEEN.join(section.text for section in self.sections)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where in the text each section begins."""
        lengths = (len(section.text) + len(BETWEEN) for section in self.sections)
        return tuple(accumulate(lengths, initial=0))[:-1]

    def section_at(self, offset: int) -> int:
        """The number, from 0, of the section at this offset in the text."""
        return max(bisect_right(self.starts, offset) - 1, 0)

    def continues(self, number: int) -> bool:
        """Whether a section, by its number from 0, goes on in the text of the one before it, and
        was cut from it only to have a place."""
        before, section = self.sections[max(number - 1, 0)], self.sections[number]
        alike = before.kind == section.kind == "lines" and before.label == section.label
        return number > 0 and alike

    def place(self, offset: int) -> str:
        """Where the character at this offset stands, in words; of source the line."""
        number = self.section_at(offset)
        section, start = self.sections[number], self.starts[number]
        if section.kind == "lines":
            line = section.number + section.text.count("\n", 0, offset - start)
            section = replace(section, number=line)
        return section.place

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


def document_from_json(text: str) -> Document:
    """Reads what `Document.to_json` wrote. Raises ValueError."""
    value: Any = json.loads(text)
    return decode(Document, value, place="the document", ignore_unknown=True)
