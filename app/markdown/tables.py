"""How wide a table and its columns are, for the room that a page has.

A table breaks its lines, but not its words. If it does not fit then, it is wider than the page, and
scrolls sideways. Knows tables and their formats; not their text.
"""

import math
import re

from PySide6.QtGui import (
    QFont,
    QFontMetricsF,
    QTextFormat,
    QTextLength,
    QTextTable,
    QTextTableFormat,
)

from app.markdown.cuts import column_widths
from app.markdown.page import Table, TextLine

_LEFT = int(QTextFormat.Property.UserProperty) + 20  # of a table: its left margin, not scrolled
_NATURAL, _WIDE = _LEFT + 1, _LEFT + 2  # widths of its columns: without line breaks, if it is wide
_LEAST, _NARROW = _LEFT + 3, _LEFT + 4  # its least width; below this width, it is narrow
_PART = _LEFT + 5  # whether it is a part of a table that was cut
_WORD = re.compile(r"[^\s/\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]+")
_LONGEST_WORD = 30  # characters; a longer one is an address or the like, and may be broken
_TOWER, _EASY = 12, 24  # characters: a narrower column is hard to read; an easy one
_STEP = 4  # characters by which columns grow, as each change lays out the whole table
_BESIDE_TEXT = 18  # pixels of a column around its text
_BORDERS = 2  # pixels of both together
_NEEDS_ROOM = 300  # pixels; a narrower table stays within the prose
_FEW = 60  # characters of a table that does not need the whole width
_FIXED, _PERCENT = QTextLength.Type.FixedLength, QTextLength.Type.PercentageLength


def describe_widths(made: QTextTableFormat, table: Table, font: QFont, letter: float) -> None:
    """Store in the format what `fit_widths` needs. `letter` is the width of one, in pixels."""
    bold = QFont(font)
    bold.setBold(True)
    metrics = QFontMetricsF(bold)
    step = _STEP * letter
    natural = [
        math.ceil(width / _STEP) * step + 2 * letter
        for width in table.columns or column_widths(table)
    ]
    least = [min(one, (_TOWER + 2) * letter) for one in natural]
    if not table.columns:  # the parts of a table that was cut have the same widths
        words = [_longest_word(cells) for cells in zip(*table.rows, strict=True)]
        least = [
            max(one, math.ceil((metrics.horizontalAdvance(word) + _BESIDE_TEXT) / step) * step)
            for one, word in zip(least, words, strict=True)
        ]
    wide = [max(one, min(usual, _EASY * letter)) for one, usual in zip(least, natural, strict=True)]
    made.setProperty(_LEFT, made.leftMargin())
    made.setProperty(_NATURAL, natural)
    made.setProperty(_WIDE, wide)
    made.setProperty(_LEAST, sum(least))
    made.setProperty(_PART, bool(table.columns))
    made.setProperty(_NARROW, _FEW * letter)


def same_widths(one: QTextTableFormat, other: QTextTableFormat) -> bool:
    """Return whether two formats describe the same widths."""
    return all(one.property(name) == other.property(name) for name in (_NATURAL, _WIDE, _LEAST))


def wide_width(table: QTextTable) -> float:
    """Return the width of a table in pixels if it is wider than the page, and otherwise 0."""
    made = table.format()
    columns = made.columnWidthConstraints()
    wide = bool(columns) and columns[0].type() == _FIXED
    return made.width().rawValue() + _BORDERS if wide else 0.0


def usual_left(table: QTextTable) -> float:
    """Return the left margin of a table that is not scrolled, in pixels."""
    return float(table.format().property(_LEFT))


def slide(table: QTextTable, pixels: int) -> None:
    """Move a table to the left of its usual place."""
    made = table.format()
    left = usual_left(table) - pixels
    if made.leftMargin() != left:
        made.setLeftMargin(left)
        table.setFormat(made)


def fit_widths(made: QTextTableFormat, *, width: float, beside: int) -> None:
    """Set the widths for a page of this `width`; prose leaves its last `beside` pixels free. The
    width is 0 before the page is shown."""
    natural, wide = made.property(_NATURAL), made.property(_WIDE)
    made.clearColumnWidthConstraints()
    made.setWidth(QTextLength())
    # Qt takes a table for empty whose width is less than its margin.
    used = min(beside, sum(natural) / 2) if sum(natural) > _NEEDS_ROOM else 0.0
    room = width - beside + used - float(made.property(_LEFT))
    if 0 < room < float(made.property(_LEAST)):
        made.setColumnWidthConstraints([QTextLength(_FIXED, one) for one in wide])
        made.setWidth(QTextLength(_FIXED, sum(wide)))
        made.setRightMargin(-beside)
        return
    made.setRightMargin(-used)
    if made.property(_PART):
        shares = [QTextLength(_PERCENT, 100 * one / sum(natural)) for one in natural]
        made.setColumnWidthConstraints(shares)
        narrow = sum(natural) <= float(made.property(_NARROW))
        made.setWidth(
            QTextLength(_FIXED, sum(natural) * 1.1) if narrow else QTextLength(_PERCENT, 100)
        )


def _longest_word(cells: tuple[TextLine, ...]) -> str:
    words = _WORD.findall(" ".join("".join(run.text for run in cell.runs) for cell in cells))
    return max(words, key=len, default="")[:_LONGEST_WORD]
