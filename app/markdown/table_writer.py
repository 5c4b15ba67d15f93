"""Writes tables into a Qt document, adds rows as they grow, and fits them to the page.

Knows tables and formats; the document's owner writes the cells.
"""

from collections.abc import Callable

from PySide6.QtGui import (
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextTable,
    QTextTableCell,
    QTextTableFormat,
)

from app.markdown.formats import Formats
from app.markdown.page import Table, TextLine
from app.markdown.tables import fit_widths, same_widths

WriteLine = Callable[[QTextCursor, TextLine], None]
"""Writes a line at a cursor."""
NoteLine = Callable[[TextLine, int], None]
"""Notes that a line is at this place already."""


class TableWriter:
    """Attributes: `width` of the page, and the part of it at the right of the prose, `beside`."""

    def __init__(self, document: QTextDocument, *, write: WriteLine, note: NoteLine) -> None:
        self.width = self.beside = 0
        self._document, self._write, self._note = document, write, note

    @property
    def tables(self) -> list[QTextTable]:
        """The tables, from the first to the last."""
        frames = self._document.rootFrame().childFrames()
        return [frame for frame in frames if isinstance(frame, QTextTable)]

    def fit(self, *, width: int, beside: int) -> None:
        """Fit all tables to a page of this width, and those to come."""
        self.width, self.beside = width, beside
        for table in self.tables:
            made = table.format()
            fit_widths(made, width=width, beside=beside)
            if made != table.format():
                table.setFormat(made)

    def append(self, table: Table, formats: Formats, *, fresh: bool) -> None:
        """Write a table after the last block, or in its place if that is `fresh`. A fresh block
        follows it."""
        cursor = QTextCursor(self._document)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if fresh:
            _make_gap(cursor, formats)
        made = cursor.insertTable(len(table.rows), len(table.rows[0]), self._format(table, formats))
        for number, row in enumerate(table.rows):
            for column, line in enumerate(row):
                cell = made.cellAt(number, column)
                if number == 0 and not table.block.joined:
                    cell_format = cell.format()
                    cell_format.setBackground(formats.header())
                    cell.setFormat(cell_format)
                self._fill(cell, line, formats)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        _make_gap(cursor, formats)

    def extend(self, old: Table, new: Table, position: int, formats: Formats) -> None:
        """Add rows to the table at this place, and rewrite its last row: see `only_grew`."""
        cursor = QTextCursor(self._document)
        cursor.setPosition(position)
        made = cursor.currentTable()
        table_format = self._format(new, formats)
        if not same_widths(table_format, made.format()):
            made.setFormat(table_format)
        if more := len(new.rows) - len(old.rows):
            made.appendRows(more)  # they look like the gap after the table
        for number, row in enumerate(new.rows):
            for column, line in enumerate(row):
                cell = made.cellAt(number, column)
                if number >= len(old.rows):
                    cell.setFormat(QTextCharFormat())
                if number >= len(old.rows) or line != old.rows[number][column]:
                    self._fill(cell, line, formats)
                else:
                    self._note(line, cell.firstPosition())

    def _format(self, table: Table, formats: Formats) -> QTextTableFormat:
        return formats.table(table, width=self.width, beside=self.beside)

    def _fill(self, cell: QTextTableCell, line: TextLine, formats: Formats) -> None:
        """Replace the contents of a cell by one line."""
        inside = cell.firstCursorPosition()
        inside.setPosition(cell.lastPosition(), QTextCursor.MoveMode.KeepAnchor)
        inside.removeSelectedText()
        inside.setBlockFormat(formats.block(line.block))
        self._write(inside, line)


def only_grew(old: Table, new: Table) -> bool:
    """Return whether a table only got more rows and another last row; its header does not count."""
    kept = max(1, len(old.rows) - 1)
    return (
        (old.block, old.columns) == (new.block, new.columns)
        and len(old.rows[0]) == len(new.rows[0])
        and len(old.rows) <= len(new.rows)
        and old.rows[:kept] == new.rows[:kept]
    )


def _make_gap(cursor: QTextCursor, formats: Formats) -> None:
    block, characters = formats.gap()
    cursor.setBlockFormat(block)
    cursor.setBlockCharFormat(characters)
