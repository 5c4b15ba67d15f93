"""The text of an attached file, and the place in the file of each part of it.

A document's text is its sections' texts, in order. A part of it (a passage, a copied span) is a
pair of offsets in that text. Knows no format, no model, and no window.
"""

import json
import re
from bisect import bisect_right
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal

from models.typed_json import decode

Format = Literal[
    "pdf", "docx", "xlsx", "pptx", "epub", "html", "webarchive", "eml", "markdown", "csv",
    "notebook", "text", "folder", "picture",
    "mhtml", "msg",  # stored by earlier versions
]  # fmt: skip
SectionKind = Literal["page", "sheet", "slide", "chapter", "part", "cell", "lines"]

LABELS_APART = " > "
"""Separates a heading from the headings in it, and a file of a folder from its parts."""

PRINTED = "printed "
"""Comes before the number that is printed on a page, if that is not its number in the file."""

BETWEEN = "\n\n"
"""Separates two sections of a text."""

_BLANK = re.compile(r"\A|\n(?:[\t,;|]*\n)+")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document with a place of its own.

    `number`: of the page, slide, chapter, cell or part, or of the first line or row, from 1; 0
    without one. `label`: the name of the sheet, the heading, the path of the file in a folder,
    "printed 12" of a page; or empty.
    """

    kind: SectionKind
    number: int
    text: str
    label: str = ""

    @property
    def place(self) -> str:
        """The section's place for people: "page 3", "sheet Prices", "app/start.py, line 1"."""
        match self.kind:
            case "sheet":
                row = f", row {self.number}" if self.number > 1 else ""
                return f"sheet {self.label}{row}"
            case "lines":
                return f"{self.label}, line {self.number}" if self.label else f"line {self.number}"
            case "part" | "chapter":
                return self.label or f"{self.kind} {self.number}"
            case _:
                named = f"{self.kind} {self.number}"
                return f"{named}, {self.label}" if self.label else named


@dataclass(frozen=True)
class Document:
    """An attached file: its `name` without the folder, its sha256 as a hex `digest`, its text.

    `without_text`: the numbers of pages that show something but have no text. `hidden`: the number
    of invisible characters that were dropped. `faint`: the number of characters that are tiny; they
    are part of the text. `left_out`: a line for each kind of content
    that was not read, with the reason, and for each guess. `pixels`: the width and height of a
    picture, which has no text.
    """

    name: str
    format: Format
    digest: str
    sections: tuple[Section, ...]
    without_text: tuple[int, ...] = ()
    hidden: int = 0
    faint: int = 0
    left_out: tuple[str, ...] = ()
    pixels: tuple[int, int] | None = None

    @cached_property
    def text(self) -> str:
        return BETWEEN.join(section.text for section in self.sections)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The offset in the text at which each section begins."""
        lengths = (len(section.text) + len(BETWEEN) for section in self.sections)
        return tuple(accumulate(lengths, initial=0))[:-1]

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """The offsets at which lines begin after a blank one, or one of separators alone."""
        found, following = list[int](), None
        for start, section in zip(self.starts, self.sections, strict=True):
            is_cut = following == (section.kind, section.label, section.number)
            ends = (each.end() for each in _BLANK.finditer(section.text))
            found += [start + end for end in ends if end or not is_cut]
            lines = section.text.count("\n") + 1
            following = section.kind, section.label, section.number + lines
        return tuple(found)

    def section_at(self, offset: int) -> int:
        """The index, from 0, of the section at this offset in the text."""
        return max(bisect_right(self.starts, offset) - 1, 0)

    def continues(self, number: int) -> bool:
        """Whether the section with this index continues the lines of the section before it: the two
        were cut apart only to have places."""
        before, section = self.sections[max(number - 1, 0)], self.sections[number]
        alike = before.kind == section.kind == "lines" and before.label == section.label
        return number > 0 and alike

    def place(self, offset: int) -> str:
        """The place of the character at this offset, for people: of source code its line, in a
        sheet its row."""
        number = self.section_at(offset)
        section, start = self.sections[number], self.starts[number]
        if section.kind in ("lines", "sheet"):
            line = max(section.number, 1) + section.text.count("\n", 0, offset - start)
            section = replace(section, number=line)
        return section.place

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


def document_from_json(text: str) -> Document:
    """Read the JSON of `Document.to_json`. Raises ValueError."""
    value: Any = json.loads(text)
    return decode(Document, value, place="the document", ignore_unknown=True)
