"""Puts the lines of a PDF's page into the order in which they are read.

It is PDFium's, but values come next to their labels, as do the values of a form,
columns of prose one after the other, and dashes into empty cells of numbers.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise

from engine.documents.page_line import (
    MADE,
    SPACE_MADE,
    Box,
    Boxes,
    Char,
    Line,
    Tick,
    stripped,
    text_of,
)

_LEVEL = 0.4  # of the higher line: how far the middles of two lines that are one are apart
_FIELDS_APART = 2.0  # of a character's height: between the values of two fields
_CELLS_APART = 1.0  # of a character's height: between the cells of a row
_GAPS = re.compile(r"(?<=\S)\s+(?=\S)|(?<=[^\W_])(?=[_.…]{3})")
_RULE = re.compile(r"([_.…])\1\1")  # a row that is to be written on
_LOOKED_AT = 8  # lines of a page, for cells
_FEW_ROWS = 3  # of a table, and of its columns
_ALIGNED = 3.0  # points: edges of a column
_PROSE = 20  # characters of a line in a column, on average
_SHORT = 60  # characters: of a label or its value
_OF_A_UNIT = 3  # letters around a number


def as_read(lines: list[Line], boxes: Boxes) -> list[Line]:
    """The lines in the order in which they are read."""
    lines = _level(lines, boxes)
    heights = [round(boxes.baseline(line)) for line in lines]
    if any(above < below for above, below in pairwise(heights)):
        lines = _with_values(lines, boxes)
    step = max(len(lines) // _LOOKED_AT, 1)
    if not any(len(_cells(line, boxes)) > 1 for line in lines[::step]):
        return lines
    cells = [_cells(line, boxes) for line in lines]
    read: list[Line] = []
    place = 0
    while place < len(lines):
        end = next((i for i in range(place, len(lines)) if len(cells[i]) == 1), len(lines))
        rows = cells[place:end]
        if _are_columns(rows, boxes):
            columns = [[*column] for column in zip(*rows, strict=True)]
            while end < len(lines) and (own := _column_of(lines[end], columns, boxes)):
                own.append(lines[end])
                end += 1
            read += chain(*columns)
        else:
            read += _with_dashes(lines[place:end], rows, boxes)
            read += lines[end : end + 1]
            end += 1
        place = end
    return read


def _level(lines: Sequence[Line], boxes: Boxes) -> list[Line]:
    """The lines, with those joined that PDFium cut at a gap."""
    level = list[Line]()
    for line in lines:
        if level and round(boxes.baseline(level[-1])) == round(boxes.baseline(line)):
            before, after = boxes.of(level[-1][-1].number), boxes.of(line[0].number)
            if before and after and before.right < after.left:
                level[-1] = _spaced([level[-1], line])
                continue
        level.append(line)
    return level


def _cells(line: Line, boxes: Boxes) -> list[Line]:
    """The parts of a line between wide gaps."""
    cells, start, letters = list[Line](), 0, text_of(line)
    for gap in _GAPS.finditer(letters):
        before, after = (boxes.of(line[i].number) for i in (gap.start() - 1, gap.end()))
        is_wide = before and after and after.left - before.right > before.height * _CELLS_APART
        if is_wide or _RULE.match(letters, gap.end()):
            cells.append(line[start : gap.start()])
            start = gap.end()
    return [*cells, line[start:]]


def _with_values(lines: list[Line], boxes: Boxes) -> list[Line]:
    """The lines, with values that PDFium has after all their labels next to these."""
    start, place = 0, 1
    while place < len(lines):
        turns = boxes.baseline(lines[place]) > boxes.baseline(lines[place - 1])
        if turns and (end := _end_of_values(lines, start, place, boxes)) > place:
            lines = _merged(lines[:place] + lines[end:], lines[place:end], boxes)
            continue
        start = place if turns else start
        place += 1
    return lines


def _end_of_values(lines: list[Line], start: int, place: int, boxes: Boxes) -> int:
    """The end of the values that begin at `place` and have labels since `start`, 0 if none do."""
    at = {round(boxes.baseline(line)): line for line in lines[start:place]}
    labels, values = list[str](), list[str]()
    for line in lines[place:]:
        label = at.pop(round(boxes.baseline(line)), [])
        left, right = boxes.around(label), boxes.around(line)
        if not (left and right and left.right < right.left):
            break
        labels.append(text_of(_cells(label, boxes)[0]))
        values.append(text_of(line))
    are_short = max(map(len, labels + values), default=_SHORT) < _SHORT
    named = sum(text.endswith(":") for text in labels) * 2 >= len(labels)
    numbers = sum(any(map(str.isdigit, text)) for text in values) * 2 >= len(values)
    counted = sum(any(map(str.isdigit, text)) for text in labels) * 5 > len(labels)
    of_labels = are_short and len(labels) > 1 and (named or (numbers and not counted))
    return place + len(values) if of_labels else 0


def _are_columns(rows: Sequence[Sequence[Line]], boxes: Boxes) -> bool:
    """Whether the cells of rows are lines of prose, which goes on below and not to the right."""
    if len(rows) < _FEW_ROWS or {*map(len, rows)} != {len(rows[0])}:
        return False
    for column in zip(*rows, strict=True):
        texts = [*map(text_of, column)]
        goes_on = sum(text[:1].islower() for text in texts[1:])
        if goes_on * 5 < len(texts) * 2 or sum(map(len, texts)) < _PROSE * len(texts):
            return False
        edges = [box.left for cell in column if (box := boxes.around(cell[:1]))]
        if max(edges) - min(edges) > _ALIGNED:
            return False
    return True


def _column_of(line: Line, columns: Sequence[list[Line]], boxes: Boxes) -> list[Line] | None:
    """The longer column that a line continues; None if it is below all columns."""
    box = boxes.around(line)
    for index, column in enumerate(columns):
        above, *after = [boxes.around(each[-1]) for each in columns[index : index + 2]]
        if not (box and above and abs(box.left - above.left) < _ALIGNED):
            continue
        fits = not after or after[0] is None or box.right < after[0].left
        return column if fits and above.bottom - box.top < above.height / 2 else None
    return None


def _with_dashes(
    lines: Sequence[Line], rows: Sequence[Sequence[Line]], boxes: Boxes
) -> Sequence[Line]:
    """The lines of a table, with a dash for each empty cell in columns of numbers."""
    if len(rows) < _FEW_ROWS or len({*map(len, rows)}) == 1:
        return lines
    heads = [boxes.around([cell[0], cell[-1]]) for cell in max(rows, key=len)]
    if len(heads) < _FEW_ROWS:
        return lines
    placed = [
        {_nearest(boxes.around([cell[0], cell[-1]]), heads): cell for cell in row} for row in rows
    ]
    counts = Counter(i for row in placed for i, cell in row.items() if _is_number(cell))
    numbers = {i for i, count in counts.items() if i and count > 1}
    made = list[Line]()
    for line, row, cells in zip(lines, rows, placed, strict=True):
        empty = numbers - cells.keys()
        counted = any(_is_number(cells[i]) for i in numbers & cells.keys())
        if empty and counted and len(cells) == len(row) and [*cells] == sorted(cells):
            cells |= {i: [Char("\u2013", MADE)] for i in empty}
            line = _spaced([cells[i] for i in sorted(cells)])
        made.append(line)
    return made


def _nearest(box: Box | None, heads: Sequence[Box | None]) -> int:
    """The number of the column with which a cell shares most of its width."""

    def shared(index: int) -> float:
        head = heads[index]
        return min(box.right, head.right) - max(box.left, head.left) if box and head else -math.inf

    return max(range(len(heads)), key=shared)


def _spaced(cells: Iterable[Line]) -> Line:
    """A line of cells with a space between two."""
    return [each for cell in cells for each in (*cell, SPACE_MADE)][:-1]


def _is_number(cell: Line) -> bool:
    digits = sum(each.letter.isdigit() for each in cell)
    return digits > 0 and sum(each.letter.isalpha() for each in cell) <= digits + _OF_A_UNIT


def with_filled_in(
    lines: Sequence[Line], boxes: Boxes, *, own: int | None, ticks: Sequence[Tick]
) -> list[Line]:
    """Move the values of a form next to their labels, and add ticks."""
    mine: list[Line] = []
    filled: list[Line] = []
    for line in lines:
        end = next(
            (i for i, each in enumerate(line) if own is not None and each.number >= own), len(line)
        )
        mine.append(line[:end])
        filled += _pieces(line[end:], boxes)
    filled = [
        [each for each in line if not _ticks(ticks, boxes.of(each.number))] for line in filled
    ]
    filled += [
        [Char("☒" if tick.ticked else "☐", MADE - 1 - index)] for index, tick in enumerate(ticks)
    ]
    return _merged([line for line in mine if line], filled, boxes)


def _merged(mine: list[Line], filled: Sequence[Line], boxes: Boxes) -> list[Line]:
    """The lines with others at their places: in the lines at their height, or between them."""
    places = [boxes.around(line) for line in mine]
    added = [(box, line) for line in map(stripped, filled) if (box := boxes.around(line))]
    for box, line in sorted(added, key=lambda each: (-each[0].middle[1], each[0].left)):
        number, in_line = _place(places, box)
        if in_line:
            cells = _cells(mine[number], boxes)
            middles = [around.middle[0] for cell in cells if (around := boxes.around(cell))]
            at = sum(middle < box.middle[0] for middle in middles)
            mine[number] = _spaced([*cells[:at], line, *cells[at:]])
            places[number] = boxes.around(mine[number])
        else:
            mine.insert(number, line)
            places.insert(number, box)
    return mine


def _ticks(ticks: Sequence[Tick], box: Box | None) -> bool:
    """Whether a character in this box is the tick of a box that can be ticked."""
    return box is not None and any(tick.box.contains(box) for tick in ticks)


def _pieces(line: Line, boxes: Boxes) -> Iterator[Line]:
    """Yield the parts of a line that are filled into different fields."""
    piece: Line = []
    before: Box | None = None
    for each in line:
        box = None if each.letter.isspace() else boxes.of(each.number)
        if before and box:
            height = max(before.height, box.height)
            up = box.middle[1] - before.middle[1]
            if abs(up) > height * _LEVEL or box.left - before.right > height * _FIELDS_APART:
                yield piece
                piece = []
        piece.append(each)
        before = box or before
    yield piece


def _place(places: Sequence[Box | None], box: Box) -> tuple[int, bool]:
    """The number of the nearest line at the height of `box`, and True; else the number of a new
    line, below the nearest one above it, and False. `places`: the boxes of the lines."""
    level, above = list[tuple[float, int]](), [(math.inf, 1)]
    for index, other in enumerate(places):
        if other is not None:
            up = other.middle[1] - box.middle[1]
            across = max(other.left - box.right, box.left - other.right, 0)
            if abs(up) <= _LEVEL * max(box.height, other.height):
                level.append((across, index))
            elif up > 0:
                above.append((up + across, -index))
    return (min(level)[1], True) if level else (1 - min(above)[1], False)
