"""Where a long block may be cut, so that its beginning can be shown at once, and what its next part
is given.

Knows markdown-it's tokens and tables; nothing of growing texts (`app.markdown.streaming`).
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from markdown_it.token import Token

from app.markdown.lines import After
from app.markdown.page import Item, Shape, Table, TextLine, Tone, with_block

NESTING = 24  # levels; a list has two
_MOST_CELLS = 600  # the cost of laying out a table grows with these
_MOST_MARKS = 800  # and of inline Markdown with these
_COLUMN = (4, 40)  # characters of the narrowest and the widest column of a table that is cut
_MARKS = re.compile(r"[*_~`\[\]!<&\\]")


@dataclass(frozen=True, slots=True)
class Cut:
    """A line before which a block may be cut, and the line above the next part then."""

    line: int
    after: After


@dataclass(frozen=True, slots=True)
class Continued:
    """What a block that was cut hands on to its next part: the colour of a quote's bar, the first
    two lines of a table and the widths of its columns. `joined`: it was cut within a line."""

    tone: Tone = ""
    header: str = ""
    columns: tuple[int, ...] = ()
    joined: bool = False


def without_header(item: Item) -> Item:
    """Return a table as the next part of a table that was cut."""
    if not isinstance(item, Table):
        return item
    return with_block(replace(item, rows=item.rows[1:]), joined=True, above=0)


def column_widths(table: Table) -> tuple[int, ...]:
    """Return the widths of a table's columns in characters; a Chinese one counts as two."""

    def width(cell: TextLine) -> int:
        text = "".join(run.text for run in cell.runs)
        return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)

    least, most = _COLUMN
    return tuple(
        min(most, max(least, *map(width, column))) for column in zip(*table.rows, strict=True)
    )


def too_much(tokens: Sequence[Token], text: str, cuts: Sequence[Cut]) -> bool:
    """Return whether a block would take long to show, or is nested too deep for markdown-it."""
    if tokens[0].type in ("fence", "code_block", "formula_block"):
        return False
    cells = sum(token.type in ("th_open", "td_open") for token in tokens)
    if not cuts and (cells > _MOST_CELLS or _marks_in(text) > _MOST_MARKS):
        return True
    return any(
        token.type in ("list_item_open", "blockquote_open") and token.level + 1 >= NESTING
        for token in tokens
    )


def _marks_in(text: str) -> int:
    return len(_MARKS.findall(text))


def find_cuts(
    tokens: Sequence[Token], text: str, starts: Sequence[int]
) -> tuple[tuple[Cut, ...], bool]:
    """Return where a block may be cut so that its beginning can be shown at once, and whether
    the block has more than that: before an item of a list, a row of a table, a part of a quote."""
    kind, first = tokens[0].type, (tokens[0].map or [0])[0]
    found: list[Cut] = []
    for token, before in zip(tokens[1:], tokens, strict=False):
        line = token.map[0] if token.map else first
        is_item = token.type == "list_item_open"
        if line <= first or token.nesting < 0 or (found and line <= found[-1].line):
            continue
        if kind == "blockquote_open" and (token.level == 1 or (token.level == 2 and is_item)):
            goes_on = is_item and before.type == "list_item_close"
            found.append(Cut(line, "item" if goes_on else _above(before)))
        elif kind.endswith("list_open") and token.level == 1 and is_item:
            found.append(Cut(line, "item"))
        elif kind == "table_open" and token.type == "tr_open" and line > first + 2:
            found.append(Cut(line, "text"))
    columns = sum(token.type == "th_open" for token in tokens)
    rows = text[starts[first] :].split("\n")
    marks = list(accumulate(map(_marks_in, rows), initial=0))
    kept = tuple(
        cut
        for cut in found
        if (cut.line - first - 1) * columns <= _MOST_CELLS
        and marks[cut.line - first] <= _MOST_MARKS
    )
    return kept, len(kept) < len(found)


def _above(closing: Token) -> After:
    """Return the shape of the line that ends with this token."""
    name = closing.type.removesuffix("_close")
    shapes: dict[str, Shape] = {
        "heading": "heading",
        "fence": "code",
        "code_block": "code",
        "hr": "rule",
    }
    return shapes.get(name, "text")
