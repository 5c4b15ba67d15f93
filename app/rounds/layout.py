"""Where the tokens of a round stand in the draft lane, before and after its verdict.

Knows widths of texts and rounds; nothing of colours or of time. All lengths in pixels, from the
top left of the lane's token area.
"""

from dataclasses import dataclass

from PySide6.QtCore import QRectF
from PySide6.QtGui import QFont, QFontMetricsF

from app.rounds.marks import marked
from engine.rounds import Fate, Round, Token

_GAP = 4.0
_PADDING = 5.0
_WIDEST_CHARACTERS = 16  # of a token, before it is elided


class Ruler:
    """The sizes that follow from a font, and from the smaller one of the labels."""

    def __init__(self, font: QFont, small: QFont) -> None:
        self.font, self.small_font = font, small
        self.text, self.small = QFontMetricsF(font), QFontMetricsF(small)
        self.row = self.text.height() + 12.0
        self.chip = self.text.height() + 4.0
        self.label = self.small.height()

    def elided(self, text: str) -> str:
        """`text`, its middle left out where it is too long for a token."""
        most = self.text.averageCharWidth() * _WIDEST_CHARACTERS
        shown, kept = text, min(len(text), 4 * _WIDEST_CHARACTERS)
        while kept > 2 and self.text.horizontalAdvance(marked(shown)) > most:
            kept -= 1
            shown = text[: kept - kept // 3] + "…" + text[len(text) - kept // 3 :]
        return shown

    def width(self, text: str) -> float:
        return self.text.horizontalAdvance(marked(text)) + 2 * _PADDING


@dataclass(frozen=True, slots=True)
class Cell:
    """One token. `text` is its own, perhaps elided. `look` is how it ends; before the verdict all
    drafted ones look alike.

    `up`: it ends in the upper row. `own`: the target wrote it, and it comes with the verdict.
    """

    text: str
    look: Fate
    left: float
    width: float
    up: bool
    own: bool
    tip: str

    def box(self, ruler: Ruler, verdict: float, shift: float) -> QRectF:
        """Where it stands when the verdict has come in so far, 0 to 1."""
        height = verdict if self.up and not self.own else float(self.own)
        top = (1.0 - height) * ruler.row + (ruler.row - ruler.chip) / 2
        return QRectF(self.left - shift, top, self.width, ruler.chip)


@dataclass(frozen=True, slots=True)
class Label:
    """A small word beside the tokens that it is about. `row`: 0 upper, 1 lower, 2 below."""

    text: str
    look: Fate
    left: float
    width: float
    row: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A round laid out. `shift`: how far the verdict moves all to the left to show its end."""

    cells: tuple[Cell, ...]
    labels: tuple[Label, ...]
    shift: float
    width: float

    def fitting(self, ruler: Ruler, verdict: float) -> tuple[Cell, ...]:
        """The tokens that fit the lane, with room for a note of how many do not."""
        shift = self.shift * verdict
        present = [cell for cell in self.cells if verdict > 0.0 or not cell.own]
        ends = [cell.left + cell.width - shift for cell in present]
        if all(end <= self.width for end in ends):
            return tuple(present)
        room = self.width - beyond_width(ruler)
        return tuple(
            cell
            for cell, end in zip(present, ends, strict=True)
            if end <= room or (cell.up and verdict > 0.0)
        )


def beyond_width(ruler: Ruler) -> float:
    """The width of the note of how many tokens do not fit."""
    return ruler.text.horizontalAdvance("+16") + 2 * _GAP


def plan(shown: Round, ruler: Ruler, *, width: float) -> Plan:
    """The round `shown` in a lane of this width."""
    cells: list[Cell] = []
    left = 0.0
    for position, token in enumerate(shown.drafted, start=1):
        text = ruler.elided(token.text)
        tip = f"{marked(token.text)}\n{token.fate}, position {position}\nq {token.q:.3f}"
        if token.p is not None:
            tip += f", p {token.p:.3f}, chance {token.chance:.0%}"
        up = token.fate == "accepted"
        cells.append(Cell(text, token.fate, left, ruler.width(text), up, False, tip))
        left += cells[-1].width + _GAP
    if shown.own is None:
        return Plan(tuple(cells), _labels(cells, ruler), 0.0, width)
    accepted = len(shown.committed) - 1
    column = cells[accepted].left if accepted < len(cells) else left
    own = _own_cell(shown.own, column, ruler)
    labels = _labels([*cells, own], ruler)
    end = max(own.left + own.width, *(lab.left + lab.width for lab in labels if lab.row == 0))
    shift = max(0.0, min(end - width, own.left))
    return Plan((*cells, own), labels, shift, width)


def _own_cell(token: Token, left: float, ruler: Ruler) -> Cell:
    text = ruler.elided(token.text)
    tip = f"{marked(token.text)}\n{token.fate}, by the target\np {token.p:.3f}"
    return Cell(text, token.fate, left, ruler.width(text), True, True, tip)


def _labels(cells: list[Cell], ruler: Ruler) -> tuple[Label, ...]:
    """What became of the tokens, in words."""
    labels: list[Label] = []
    below = 0.0  # where the row of labels below is free
    for cell in cells:
        if cell.own:
            width = ruler.small.horizontalAdvance(cell.look)
            labels.append(Label(cell.look, cell.look, cell.left + cell.width + _GAP, width, 0))
    for look in ("accepted", "rejected", "discarded"):
        of_look = [cell for cell in cells if cell.look == look]
        if not of_look:
            continue
        left, last = of_look[0].left, of_look[-1]
        text = look if len(of_look) == 1 else f"{len(of_look)} {look}"
        if look == "accepted":  # where they stood: the rejected one is their neighbour
            room = last.left + last.width - left
            alone = all(cell.look == look or cell.own for cell in cells)
            if ruler.small.horizontalAdvance(text) > room and not alone:
                text = "✓" if len(of_look) == 1 else f"✓{len(of_look)}"
        else:
            left = max(left, below)
        width = ruler.small.horizontalAdvance(text)
        row = 1 if look == "accepted" else 2
        below = left + width + 2 * _GAP if row == 2 else 0.0
        labels.append(Label(text, of_look[0].look, left, width, row))
    return tuple(labels)
