"""Copies a document's text as it was written: a selection, or a code block.

Leaves out labels, rejected tokens and control characters. Lines that were divided for display are
joined, and a formula becomes its source.
"""

from collections.abc import Iterator

from PySide6.QtGui import QTextBlock, QTextCursor, QTextDocument, QTextFragment

from app.markdown.formats import JOINED, ROLE, SHAPE
from app.markdown.formulas import FORMULA

_WRITTEN = {"text", "marker"}


def fragments(block: QTextBlock) -> Iterator[QTextFragment]:
    """Iterate over the stretches of one format in a block."""
    place = block.begin()
    while not place.atEnd():
        yield place.fragment()
        place += 1


def written_text(document: QTextDocument, start: int, end: int) -> str:
    """Return the text from `start` to `end` in the document, with tabs between the cells of a
    table."""
    text = ""
    block, row = document.findBlock(start), -1
    first = True
    while block.isValid() and block.position() < end:
        if not _is_written(block):
            block = block.next()
            continue
        cell = _cell(block)
        part = _written(block, start, end)
        if not first:
            same_row = cell is not None and cell == row
            made = block.blockFormat()
            joined = " " if made.property(SHAPE) == "text" else ""  # the space after a sentence
            text += "\t" if same_row else joined if made.property(JOINED) else "\n"
        text += part
        first, row = False, -1 if cell is None else cell
        block = block.next()
    return text


def block_text(block: QTextBlock) -> str:
    """Return the written text of one block."""
    return _written(block, block.position(), block.position() + block.length())


def _written(block: QTextBlock, start: int, end: int) -> str:
    text = ""
    for fragment in fragments(block):
        role = fragment.charFormat().property(ROLE)
        if role not in _WRITTEN:
            continue
        begin = fragment.position()
        stretch = fragment.text()
        if begin < start or begin + fragment.length() > end:
            units = stretch.encode("utf-16-le")
            stretch = units[2 * max(0, start - begin) : 2 * max(0, end - begin)].decode(
                "utf-16-le", "ignore"
            )
        formula = fragment.charFormat().property(FORMULA)
        if formula:
            stretch = formula * len(stretch)
        text += stretch.replace("\t", " ") if role == "marker" else stretch
    return text.replace("\u2028", "\n")


def _cell(block: QTextBlock) -> int | None:
    """Return the table row of the block; None outside of a table."""
    cursor = QTextCursor(block)
    table = cursor.currentTable()
    return table.cellAt(cursor).row() if table else None


def _is_written(block: QTextBlock) -> bool:
    """Whether the block is a written line; it may be empty."""
    if block.length() > 1:
        return any(part.charFormat().property(ROLE) in _WRITTEN for part in fragments(block))
    return block.blockFormat().hasProperty(SHAPE)
