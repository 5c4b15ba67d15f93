"""Collapsible lines inside an answer, such as tool calls, that are not part of its text.

Each unfolds to the beginnings of texts, shown as they are: no Markdown, links or pictures.

Knows the lines of a page; not what they are about.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.markdown.lines import LONGEST_LINE, After, parts_of_line, space_above
from app.markdown.page import Bar, BlockStyle, Item, Style, TextLine, TextRun, shown
from models.in_words import one_line

ASIDE_ADDRESS = "aside:"  # of a link that asks for all of an aside, before its index
_FIRST = -2  # the number by which it is folded; the next one has -3
_PANELS = 8  # code blocks of an aside, at most
_LEFT, _APART = 16, 2  # pixels: as of reasoning; between two asides
_MOST_LINES, _MOST_CHARACTERS = 20, 2_000  # shown of a text


@dataclass(frozen=True, slots=True)
class Aside:
    """A collapsible line before the character `place` of the given text. It unfolds to `texts`,
    each with a title."""

    place: int
    title: str
    texts: tuple[tuple[str, str], ...] = ()


def number_of(index: int) -> int:
    """Return the number by which an aside is folded."""
    return _FIRST - index


def index_of(number: int) -> int:
    """Return the index of the aside with this number; negative if it is of something else."""
    return _FIRST - number


def text_of(asides: Sequence[Aside], panel: int) -> str:
    """Return the whole text of an aside whose beginning is the code block with this number."""
    number, place = divmod(panel + _PANELS - 1, _PANELS)
    return asides[index_of(number)].texts[_PANELS - 1 - place][1]


def items_of(aside: Aside, index: int, *, source: int, after: After | None) -> tuple[Item, ...]:
    """Return the lines of an aside at `source`."""
    number = number_of(index)
    above = _APART if after == "summary" else space_above("text", after)
    block = BlockStyle("summary", above=above, folds=(number,))
    items: list[Item] = [TextLine(block, (_label(one_line(aside.title), source),))]
    inside = BlockStyle("plain", left=_LEFT, bars=(Bar(0),), folds=(number,))
    for place, (title, text) in enumerate(aside.texts[:_PANELS]):
        panel = number * _PANELS - place
        label = replace(inside, shape="label", above=12, panel=panel)
        items.append(TextLine(label, (_label(title, source),)))
        items += _lines(text, replace(inside, panel=panel), index=index, source=source)
    return tuple(items)


def _lines(text: str, block: BlockStyle, *, index: int, source: int) -> Iterator[TextLine]:
    """Yield the beginning of a text, and a link to all of it if there is more."""
    block, left = replace(block, above=6), _MOST_CHARACTERS
    rows = re.split("\r\n?|\n", text.rstrip("\r\n"))
    for number, row in enumerate(rows):
        for _, part in parts_of_line(row, LONGEST_LINE):
            if number >= _MOST_LINES or len(part) > left:
                more = f"{len(rows) - number:,} more lines" if number < len(rows) - 1 else "more"
                label = _label(f"… {more}. Show all", source)
                style = replace(label.style, href=f"{ASIDE_ADDRESS}{index}", underlined=True)
                yield TextLine(replace(block, above=6), (replace(label, style=style),))
                return
            left -= len(part)
            runs = shown(part, Style(code=True), 0, len(part)) if part else ()
            yield TextLine(block, tuple(replace(run, source=source, length=0) for run in runs))
            block = replace(block, above=0)


def _label(text: str, source: int) -> TextRun:
    return TextRun(text, Style(role="label"), source, 0)
