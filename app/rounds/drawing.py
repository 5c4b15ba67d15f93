"""How a round is laid out and painted in the draft lane, before and after its verdict.

Knows rounds, widths of texts and colours; nothing of time: how far the verdict has come in is
given as a number from 0 to 1. Lengths are in pixels from the top left of the lane's token area.
"""

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen

from app.rounds.marks import marked, runs
from app.theme.palette import Palette, line_of, tinted
from engine.rounds import Fate, Round, Token

_GAP = 4.0
_PADDING = 5.0
_RADIUS = 4.0
_WIDEST_CHARACTERS = 16  # a token with more is elided
WHY_DISCARDED = "because a token before it was rejected"
WHY_FORCED = "the grammar allows only this token"
PEN_STYLES = {
    "solid": Qt.PenStyle.SolidLine,
    "dash": Qt.PenStyle.DashLine,
    "dot": Qt.PenStyle.DotLine,
    "dash dot": Qt.PenStyle.DashDotLine,
    "strike": Qt.PenStyle.SolidLine,
    "dash strike": Qt.PenStyle.DashLine,
    "none": Qt.PenStyle.NoPen,
}


class Ruler:
    """The sizes that follow from the lane's font and from the smaller font of its labels."""

    def __init__(self, font: QFont, small: QFont) -> None:
        self.font, self.small_font = font, small
        self.text, self.small = QFontMetricsF(font), QFontMetricsF(small)
        self.row = self.text.height() + 12.0
        self.chip = self.text.height() + 4.0
        self.label = self.small.height()

    def elided(self, text: str) -> str:
        """`text`, with its middle left out where it is too long for a token."""
        most = self.text.averageCharWidth() * _WIDEST_CHARACTERS
        shown, kept = text, min(len(text), 4 * _WIDEST_CHARACTERS)
        while kept > 2 and self.text.horizontalAdvance(marked(shown)) > most:
            kept -= 1
            shown = text[: kept - kept // 3] + "…" + text[len(text) - kept // 3 :]
        return shown

    def width(self, text: str) -> float:
        """The width of a token with this text."""
        return self.text.horizontalAdvance(marked(text)) + 2 * _PADDING

    @property
    def overflow(self) -> float:
        """The width of the note that says how many tokens do not fit."""
        return self.text.horizontalAdvance("+16") + 2 * _GAP


@dataclass(frozen=True, slots=True)
class TokenBox:
    """A token and where it is drawn. `text` is the token's text, elided where it is long.

    `position` is the token's place in the draft, or among the forced ones, from 1; it is 0 for the
    target's own token.
    """

    token: Token
    position: int
    text: str
    left: float
    width: float

    @property
    def own(self) -> bool:
        """Whether the target wrote the token, so that it appears with the verdict."""
        return self.position == 0

    @property
    def committed(self) -> bool:
        """Whether the token ends in the upper row, which is what the round adds to the answer."""
        return self.own or self.token.fate in ("accepted", "forced")

    @property
    def tip(self) -> str:
        """The token's figures."""
        token = self.token
        if token.fate == "forced":
            return f"{marked(token.text)}\nforced: {WHY_FORCED}"
        p = "" if token.p is None else f"p {token.p:.3f}"
        if self.own:
            return f"{marked(token.text)}\n{token.fate}, by the target\n{p}"
        judged = f", {p}, chance {token.chance:.0%}" if p else ""
        fate = f"{token.fate}, position {self.position}"
        if token.fate == "discarded":
            fate += f"\n{WHY_DISCARDED}"
        sure = "" if token.confidence is None else f", confidence {token.confidence:.0%}"
        return f"{marked(token.text)}\n{fate}\nq {token.q:.3f}{sure}{judged}"

    def rectangle(self, ruler: Ruler, verdict: float, shift: float) -> QRectF:
        """Where the token is drawn when the verdict has come in this far, from 0 to 1."""
        height = verdict if self.committed and not self.own else float(self.own)
        top = (1.0 - height) * ruler.row + (ruler.row - ruler.chip) / 2
        return QRectF(self.left - shift, top, self.width, ruler.chip)


@dataclass(frozen=True, slots=True)
class FateLabel:
    """A fate in words, beside the tokens that had it. `row`: 0 upper, 1 lower, 2 below both."""

    text: str
    fate: Fate
    left: float
    width: float
    row: int


@dataclass(frozen=True, slots=True)
class RoundLayout:
    """A round laid out in a lane of this width.

    `shift` is how far the verdict moves everything to the left, so that the round's end is seen.
    """

    boxes: tuple[TokenBox, ...]
    labels: tuple[FateLabel, ...]
    shift: float
    width: float

    def fitting(self, ruler: Ruler, verdict: float) -> tuple[TokenBox, ...]:
        """The tokens that fit the lane, with room for a note of how many do not."""
        shift = self.shift * verdict
        cut = self.cut(ruler, verdict)
        present = [box for box in self.boxes if box not in cut and (verdict > 0.0 or not box.own)]
        ends = [box.left + box.width - shift for box in present]
        if all(end <= self.width for end in ends):
            return tuple(present)
        room = self.width - ruler.overflow
        return tuple(
            box
            for box, end in zip(present, ends, strict=True)
            if end <= room or (box.committed and box.token.fate != "forced" and verdict > 0.0)
        )

    def cut(self, ruler: Ruler, verdict: float) -> tuple[TokenBox, ...]:
        """The accepted tokens that the verdict has moved out of the lane at the left, with those in
        the place of a note of how many they are."""
        shift = self.shift * verdict
        accepted = [box for box in self.boxes if box.committed and not box.own]
        if all(box.left >= shift for box in accepted):
            return ()
        return tuple(box for box in accepted if box.left - shift < ruler.overflow)


def lay_out(round: Round, ruler: Ruler, *, width: float) -> RoundLayout:
    """Lay `round` out in a lane of this width."""
    boxes: list[TokenBox] = []
    left = 0.0
    forced = (token for token in round.tokens if token.fate == "forced")
    for position, token in enumerate((*round.drafted, *forced), start=1):
        text = ruler.elided(token.text)
        boxes.append(TokenBox(token, position, text, left, ruler.width(text)))
        left += boxes[-1].width + _GAP
    if round.own is None:
        return RoundLayout(tuple(boxes), _labels(boxes, ruler), 0.0, width)
    accepted = len(round.committed) - 1
    column = boxes[accepted].left if accepted < len(boxes) else left
    text = ruler.elided(round.own.text)
    own = TokenBox(round.own, 0, text, column, ruler.width(text))
    labels = _labels([*boxes, own], ruler)
    end = max(own.left + own.width, *(lab.left + lab.width for lab in labels if lab.row == 0))
    shift = max(0.0, min(end - width, own.left))
    return RoundLayout((*boxes, own), labels, shift, width)


def _labels(boxes: list[TokenBox], ruler: Ruler) -> tuple[FateLabel, ...]:
    """The words that say what became of the tokens."""
    labels: list[FateLabel] = []
    below = 0.0  # where the row of labels below is free
    for box in boxes:
        if box.own:
            fate = box.token.fate
            width = ruler.small.horizontalAdvance(fate)
            labels.append(FateLabel(fate, fate, box.left + box.width + _GAP, width, 0))
    fates: tuple[Fate, ...] = ("accepted", "forced", "rejected", "discarded")
    for fate in fates:
        of_fate = [box for box in boxes if box.token.fate == fate]
        if not of_fate:
            continue
        left, last = of_fate[0].left, of_fate[-1]
        text = fate if len(of_fate) == 1 else f"{len(of_fate)} {fate}"
        stays = fate in ("accepted", "forced")
        if stays:  # stands where the tokens stood, beside the first rejected one
            room = last.left + last.width - left
            alone = all(box.committed for box in boxes)
            if ruler.small.horizontalAdvance(text) > room and not alone:
                text = "✓" if len(of_fate) == 1 else f"✓{len(of_fate)}"
        else:
            left = max(left, below)
        width = ruler.small.horizontalAdvance(text)
        row = 1 if stays else 2
        below = left + width + 2 * _GAP if row == 2 else 0.0
        labels.append(FateLabel(text, fate, left, width, row))
    return tuple(labels)


class LanePainter:
    """Paints the lane's parts on one QPainter, for one frame."""

    def __init__(self, painter: QPainter, colours: Palette, ruler: Ruler) -> None:
        self._painter, self._colours, self.ruler = painter, colours, ruler

    def surface(self, whole: QRectF) -> None:
        """Paint the lane's own surface."""
        self._painter.setPen(QPen(QColor(self._colours.edge), 1.0))
        self._painter.setBrush(QColor(self._colours.card))
        self._painter.drawRoundedRect(whole.adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)

    def token(self, box: TokenBox, *, verdict: float, shift: float = 0.0) -> None:
        """Paint a token. Before the verdict all drafted tokens look alike."""
        painter = self._painter
        if box.own and verdict == 0.0:
            return
        fate = box.token.fate if verdict > 0.0 else "drafted"
        place = box.rectangle(self.ruler, verdict, shift)
        outer = painter.opacity()
        painter.setOpacity(outer * (verdict if box.own else 1.0))
        self.chip(box.text, fate, place, verdict=verdict)
        painter.setOpacity(outer)

    def chip(self, text: str, fate: Fate, place: QRectF, *, verdict: float = 1.0) -> None:
        """Paint a token's text on its surface, with the colour and the line of its fate."""
        colour, surface = QColor(self._colours.of(fate)), self._token_surface(fate)
        edge = self._colours.edge if fate != "discarded" else surface
        self._painter.setPen(QPen(QColor(edge), 1))
        self._painter.setBrush(QColor(surface))
        self._painter.drawRoundedRect(place, _RADIUS, _RADIUS)
        self._text(text, place, colour)
        self._line(fate, place, colour, verdict)

    def label(self, label: FateLabel, *, verdict: float, shift: float) -> None:
        """Paint a label, which fades in with the verdict."""
        painter, ruler = self._painter, self.ruler
        top = label.row * ruler.row + (0 if label.row == 2 else (ruler.row - ruler.label) / 2)
        painter.setFont(ruler.small_font)
        painter.setOpacity(max(0.0, 2 * verdict - 1.0))  # only when the tokens have left its place
        muted = label.fate in ("discarded", "plain")
        painter.setPen(QColor(self._colours.muted if muted else self._colours.of(label.fate)))
        left = max(label.left - shift, 0.0) if label.row == 1 else label.left - shift
        place = QRectF(left, top, label.width + 2, ruler.label)
        painter.drawText(
            place, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, label.text
        )
        painter.setOpacity(1.0)

    def overflow(self, count: int, *, left: float) -> None:
        """Say behind the last drafted token that fits how many more there are."""
        painter, ruler = self._painter, self.ruler
        painter.setFont(ruler.font)
        painter.setPen(QColor(self._colours.muted))
        place = QRectF(left, ruler.row, ruler.overflow, ruler.row)
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, f"+{count}")

    def cut(self, count: int) -> None:
        """Say before the first accepted token that fits how many came before it."""
        painter, ruler = self._painter, self.ruler
        painter.setFont(ruler.font)
        painter.setPen(QColor(self._colours.muted))
        place = QRectF(0.0, 0.0, ruler.overflow, ruler.row)
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, f"{count}+")

    def _token_surface(self, fate: Fate) -> str:
        card = self._colours.card
        if fate in ("drafted", "discarded", "plain"):
            return self._colours.paper if fate != "discarded" else card
        return tinted(card, self._colours.of(fate))

    def _text(self, text: str, place: QRectF, colour: QColor) -> None:
        """White space is drawn as fainter signs, so that a space cannot be taken for a dot."""
        painter = self._painter
        painter.setFont(self.ruler.font)
        left = place.left() + (place.width() - self.ruler.text.horizontalAdvance(marked(text))) / 2
        base = place.top() + (place.height() + self.ruler.text.capHeight()) / 2
        for run, sign in runs(text):
            faint = QColor(colour)
            faint.setAlphaF(0.75 if sign else 1.0)
            painter.setPen(faint)
            painter.drawText(QPointF(left, base), run)
            left += self.ruler.text.horizontalAdvance(run)

    def _line(self, fate: Fate, place: QRectF, colour: QColor, verdict: float) -> None:
        """Draw the line that belongs to the fate; a strike grows as the verdict comes in."""
        line = line_of(fate)
        struck = line.endswith("strike")
        pen = QPen(colour, 1.4 if struck else 1.6, PEN_STYLES[line])
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        self._painter.setPen(pen)
        start, end = place.left() + 3, place.right() - 3
        if struck:
            end = start + (end - start) * verdict
        y = place.center().y() + 0.5 if struck else place.bottom() - 2.5
        self._painter.drawLine(QPointF(start, y), QPointF(end, y))
