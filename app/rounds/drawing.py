"""Lays out and paints a round in the draft lane, before and after its verdict.

The upper row, number 0, is what the round adds to the answer. A chain is drafted in the row below
it. A tree has a lower row for each branch, a column for each depth, and lines between tokens.

Knows rounds, widths of texts and colours; no time: the progress of the verdict is a number from 0
to 1. Lengths are in pixels from the top left of the lane's token area.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPainterPath, QPen

from app.rounds.marks import marked, runs
from app.theme.palette import Palette, line_of, tinted
from engine.conversation.rounds import Fate, Round, Token, branches
from engine.tree import COMMITTED, Tree

_GAP = 4.0
_TREE_GAP = 16.0  # between columns, with room for the turns of lines
_BETWEEN_BRANCHES = 4.0
_PADDING = 5.0
_RADIUS = 4.0
_WIDEST_CHARACTERS = 16  # a wider token is shortened
WHY_DISCARDED = "because a token before it was rejected"
WHY_FORCED = "by a grammar, or to end the thinking"
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
    """The sizes that follow from the lane's font and the smaller font of its labels."""

    def __init__(self, font: QFont, small: QFont) -> None:
        self.font, self.small_font = font, small
        self.text, self.small = QFontMetricsF(font), QFontMetricsF(small)
        self.row = self.text.height() + 12.0
        self.chip = self.text.height() + 4.0
        self.label = self.small.height()
        self.branch = self.chip + _BETWEEN_BRANCHES

    def top(self, row: int) -> float:
        """Return the top of the tokens in this row."""
        below = (row - 1) * self.branch + self.row if row else 0.0
        return below + (self.row - self.chip) / 2

    def below(self, rows: int) -> float:
        """Return the bottom of this many lower rows."""
        return 2 * self.row + (rows - 1) * self.branch

    def elided(self, text: str) -> str:
        """Return `text`, shortened in the middle if it is too long for a token."""
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
        """The width of the note that counts the tokens without room."""
        return self.text.horizontalAdvance("+16") + 2 * _GAP


@dataclass(frozen=True, slots=True)
class TokenBox:
    """A token and where it is drawn. `text` may be shortened.

    `position` is the token's place in the draft, or among the forced tokens, from 1; 0 for the
    target's own token. `rows` are its rows before and after the verdict; None if it is not shown.
    In a tree, `number` is the token's, and `alternative` its place among the alternatives, and
    their number.
    """

    token: Token
    position: int
    text: str
    left: float
    width: float
    rows: tuple[int | None, int | None]
    number: int = 0
    alternative: tuple[int, int] = (1, 1)

    @property
    def own(self) -> bool:
        """Whether it is the target's own token, which appears with the verdict."""
        return self.position == 0

    @property
    def committed(self) -> bool:
        """Whether the token ends in the upper row, which the round adds to the answer."""
        return self.own or self.token.fate in ("accepted", "forced")

    @property
    def tip(self) -> str:
        """The token's figures, for a tooltip."""
        token = self.token
        if token.fate == "forced":
            return f"{marked(token.text)}\nforced: {WHY_FORCED}"
        p = "" if token.p is None else f"p {token.p:.3f}"
        if self.own:
            return f"{marked(token.text)}\n{token.fate}, by the target\n{p}"
        judged = f", {p}, chance {token.chance:.0%}" if p else ""
        fate = f"{token.fate}, position {self.position}"
        place, alternatives = self.alternative
        if alternatives > 1:
            fate += f", alternative {place} of {alternatives}"
        if token.fate == "discarded":
            fate += f"\n{WHY_DISCARDED}"
        sure = "" if token.confidence is None else f", confidence {token.confidence:.0%}"
        return f"{marked(token.text)}\n{fate}\nq {token.q:.3f}{sure}{judged}"

    def rectangle(self, ruler: Ruler, verdict: float, shift: float) -> QRectF:
        """Return the token's rectangle at this progress of the verdict, from 0 to 1."""
        before, after = self.rows
        tops = [ruler.top(row) for row in (before, after) if row is not None]
        top = (1.0 - verdict) * tops[0] + verdict * tops[-1]
        return QRectF(self.left - shift, top, self.width, ruler.chip)

    def opacity(self, verdict: float) -> float:
        """Return the token's opacity at this progress."""
        before, after = self.rows
        if before is None:
            return verdict
        return 1.0 if after is not None else 1.0 - verdict


@dataclass(frozen=True, slots=True)
class FateLabel:
    """A fate in words, next to the tokens that had it, or below all tokens."""

    text: str
    fate: Fate
    left: float
    width: float
    top: float
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class RoundLayout:
    """A round laid out in a lane of a certain width.

    `shift` is how far the verdict moves everything to the left, so that the end of the round is
    seen. `tokens` counts the round's tokens without the target's own, also those without a box.
    `rows` is the number of lower rows before and after the verdict. `lines` are the lines of a
    tree: a box, and the number of the token before it.
    """

    boxes: tuple[TokenBox, ...]
    labels: tuple[FateLabel, ...]
    shift: float
    width: float
    tokens: int
    lines: tuple[tuple[int, TokenBox], ...] = ()
    rows: tuple[int, int] = (1, 1)

    def fitting(self, ruler: Ruler, verdict: float) -> tuple[TokenBox, ...]:
        """Return the tokens that fit the lane, with room for a note that counts the others."""
        shift = self.shift * verdict
        cut = self.cut(ruler, verdict)
        present = [
            box
            for box in self.boxes
            if box.opacity(verdict) > 0.0 and box.left >= shift and box not in cut
        ]
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
        """Return the accepted tokens that the verdict moved out of the lane at the left, and those
        whose place the note with their number takes."""
        shift = self.shift * verdict
        accepted = [box for box in self.boxes if box.committed and not box.own]
        if all(box.left >= shift for box in accepted):
            return ()
        return tuple(box for box in accepted if box.left - shift < ruler.overflow)


def row_count(round: Round, *, most: int) -> int:
    """Return the number of lower rows that the round needs, at most `most`."""
    return max(1, min(len(branches(round.drafted)), most))


def lay_out(round: Round, ruler: Ruler, *, width: float, most_rows: int = 1) -> RoundLayout:
    """Lay `round` out in a lane of this width, with at most `most_rows` lower rows."""
    forced = (token for token in round.tokens if token.fate == "forced")
    tokens = round.drafted or tuple(replace(t, parent=n - 1) for n, t in enumerate(forced))
    tree = Tree(tuple(token.parent for token in tokens))
    texts = [ruler.elided(token.text) for token in tokens]
    undecided = [replace(token, fate="drafted") for token in tokens]
    before = _rows(tree, undecided, most_rows)
    after = _rows(tree, tokens, most_rows)
    shown = [number for number in range(len(tokens)) if number in before or number in after]
    gap, edge = (_GAP, 0.0) if tree.is_chain else (_TREE_GAP, _TREE_GAP)
    columns = [edge]
    for depth in range(tree.height):
        widths = [ruler.width(texts[n]) for n in shown if tree.depths[n] == depth]
        columns.append(columns[-1] + max(widths, default=0.0) + gap)
    boxes = {
        number: TokenBox(
            tokens[number],
            tree.depths[number] + 1,
            texts[number],
            columns[tree.depths[number]],
            ruler.width(texts[number]),
            (before.get(number), after.get(number)),
            number,
            (tree.ranks[number] + 1, tree.parents.count(tree.parents[number])),
        )
        for number in shown
    }
    lines = [(tree.parents[number], box) for number, box in boxes.items()]
    rows = max((1, *before.values())), max((1, *after.values()))
    end = columns[-1] - gap
    shift, labels = 0.0, list[FateLabel]()
    if round.own is not None:
        path = [number for number, token in enumerate(tokens) if token.fate == "accepted"]
        text = ruler.elided(round.own.text)
        left, own_width = columns[len(path)], ruler.width(text)
        own = TokenBox(round.own, 0, text, left, own_width, (None, 0), len(tokens))
        labels.append(_own_label(own, ruler))
        shift = max(0.0, min(labels[0].left + labels[0].width - width, own.left))
        lines.append((path[-1] if path else COMMITTED, own))
        boxes[own.number] = own
    if tree.is_chain:
        lines = []
        labels += _labels(tuple(boxes.values()), ruler)
    else:
        noted = end > width or shift or min(len(before), len(after)) < len(tokens)
        start = QPointF(shift + ruler.overflow if noted else shift, ruler.below(rows[1]))
        labels += _labels_of_tree(tokens, ruler, start)
    return RoundLayout(
        tuple(boxes.values()), tuple(labels), shift, width, len(tokens), tuple(lines), rows
    )


def _rows(tree: Tree, tokens: Sequence[Token], most: int) -> dict[int, int]:
    """Return the row of each shown token, by its number. Accepted tokens are in the upper row; of
    the branches, the most promising are shown. A branch is below the one that it starts from, and
    branches that start later are above those that start earlier, so that no two lines cross."""
    accepted = [n for n, token in enumerate(tokens) if token.fate in ("accepted", "forced")]
    found = [[n for n in branch if n not in accepted] for branch in branches(tokens)]
    shown = [branch for branch in found if branch][:most]
    rows, free = dict.fromkeys(accepted, 0), count(1)

    def place_behind(numbers: Sequence[int]) -> None:
        for number in numbers:
            for branch in shown:
                if tree.parents[branch[0]] == number:
                    rows.update(dict.fromkeys(branch, next(free)))
                    place_behind(branch[::-1])

    place_behind([*accepted[::-1], COMMITTED])
    return rows


def _labels(boxes: Sequence[TokenBox], ruler: Ruler) -> Iterator[FateLabel]:
    """Iterate over the fates of a chain's tokens in words, each next to its tokens."""
    free = 0.0  # the left edge of the room below both rows
    fates: tuple[Fate, ...] = ("accepted", "forced", "rejected", "discarded")
    for fate in fates:
        of_fate = [box for box in boxes if box.token.fate == fate]
        if not of_fate:
            continue
        left, last = of_fate[0].left, of_fate[-1]
        text = fate if len(of_fate) == 1 else f"{len(of_fate)} {fate}"
        stays = fate in ("accepted", "forced")
        if stays:  # below the place of the tokens, next to the first rejected one
            room = last.left + last.width - left
            alone = all(box.committed for box in boxes)
            if ruler.small.horizontalAdvance(text) > room and not alone:
                text = "✓" if len(of_fate) == 1 else f"✓{len(of_fate)}"
        else:
            left = max(left, free)
        width = ruler.small.horizontalAdvance(text)
        top = ruler.row + (ruler.row - ruler.label) / 2 if stays else ruler.below(1)
        free = 0.0 if stays else left + width + 2 * _GAP
        yield FateLabel(text, fate, left, width, top, pinned=stays)


def _labels_of_tree(tokens: Sequence[Token], ruler: Ruler, start: QPointF) -> Iterator[FateLabel]:
    """Iterate over the number of a tree's tokens with each fate, in a line below the tree."""
    left = start.x()
    fates: tuple[Fate, ...] = ("accepted", "rejected", "discarded")
    for fate in fates:
        if number := sum(token.fate == fate for token in tokens):
            text = f"{number} {fate}"
            width = ruler.small.horizontalAdvance(text)
            yield FateLabel(text, fate, left, width, start.y())
            left += width + 2 * _GAP


def _own_label(own: TokenBox, ruler: Ruler) -> FateLabel:
    fate = own.token.fate
    width = ruler.small.horizontalAdvance(fate)
    left, top = own.left + own.width + _GAP, (ruler.row - ruler.label) / 2
    return FateLabel(fate, fate, left, width, top)


def _line(start: QRectF, end: QRectF) -> QPainterPath:
    """Return a line from the right edge of a token to the left edge of a later token, with round
    corners."""
    y, turn = round(start.center().y()) + 0.5, round(end.left() - _TREE_GAP / 2) + 0.5
    path = QPainterPath(QPointF(start.right(), y))
    below = round(end.center().y()) + 0.5
    if below != y:
        bend = min(_RADIUS, abs(below - y) / 2) * (1 if below > y else -1)
        path.lineTo(turn - abs(bend), y)
        path.quadTo(turn, y, turn, y + bend)
        path.lineTo(turn, below - bend)
        path.quadTo(turn, below, turn + abs(bend), below)
    path.lineTo(end.left(), below)
    return path


class LanePainter:
    """Paints the lane's parts on one QPainter, for one frame."""

    def __init__(self, painter: QPainter, colours: Palette, ruler: Ruler) -> None:
        self._painter, self._colours, self.ruler = painter, colours, ruler

    def surface(self, whole: QRectF) -> None:
        """Paint the lane's background."""
        self._painter.setPen(QPen(QColor(self._colours.edge), 1.0))
        self._painter.setBrush(QColor(self._colours.card))
        self._painter.drawRoundedRect(whole.adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)

    def token(self, box: TokenBox, *, verdict: float, shift: float = 0.0) -> None:
        """Paint a token. Before the verdict, all drafted tokens look alike."""
        painter = self._painter
        if box.own and verdict == 0.0:
            return
        fate = box.token.fate if verdict > 0.0 else "drafted"
        place = box.rectangle(self.ruler, verdict, shift)
        outer = painter.opacity()
        painter.setOpacity(outer * box.opacity(verdict))
        self.chip(box.text, fate, place, verdict=verdict)
        painter.setOpacity(outer)

    def chip(self, text: str, fate: Fate, place: QRectF, *, verdict: float = 1.0) -> None:
        """Paint a token's text on its background, with the colour and line of its fate."""
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
        painter.setFont(ruler.small_font)
        painter.setOpacity(max(0.0, 2 * verdict - 1.0))  # after the tokens have left its place
        muted = label.fate in ("discarded", "plain")
        painter.setPen(QColor(self._colours.muted if muted else self._colours.of(label.fate)))
        left = max(label.left - shift, 0.0) if label.pinned else label.left - shift
        place = QRectF(left, label.top, label.width + 2, ruler.label)
        painter.drawText(
            place, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, label.text
        )
        painter.setOpacity(1.0)

    def lines(self, layout: RoundLayout, fitting: Sequence[TokenBox], *, verdict: float) -> None:
        """Draw the lines of a tree to the tokens that fit; those of the answer are highlighted."""
        painter, shift = self._painter, layout.shift * verdict
        places = {box.number: box.rectangle(self.ruler, verdict, shift) for box in layout.boxes}
        top = (1.0 - verdict) * self.ruler.top(1) + verdict * self.ruler.top(0)
        places[COMMITTED] = QRectF(-shift, top, 0.0, self.ruler.chip)
        shown = {box.number for box in fitting}
        cut = {box.number for box in layout.cut(self.ruler, verdict)}
        lines = [
            (before, box)
            for before, box in layout.lines
            if box.number in shown
            # A note takes the place of those that are cut.
            and (before not in cut or places[box.number].left() > self.ruler.overflow + _TREE_GAP)
        ]
        for number in cut:
            places[number].setRight(max(places[number].right(), self.ruler.overflow))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for before, box in sorted(lines, key=lambda line: line[1].committed):
            fate = box.token.fate if verdict > 0.0 else "drafted"
            lit = box.committed and verdict > 0.0
            faint = self._colours.edge if fate == "discarded" else self._colours.bar
            colour = self._colours.of(fate) if lit else faint
            painter.setPen(QPen(QColor(colour), 1.6 if lit else 1.0))
            painter.setOpacity(box.opacity(verdict))
            painter.drawPath(_line(places[before], places[box.number]))
        painter.setOpacity(1.0)

    def overflow(self, count: int, *, left: float) -> None:
        """Write the number of further tokens after the last drafted token that fits."""
        painter, ruler = self._painter, self.ruler
        painter.setFont(ruler.font)
        painter.setPen(QColor(self._colours.muted))
        place = QRectF(left, ruler.row, ruler.overflow, ruler.row)
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, f"+{count}")

    def more(self, count: int, layout: RoundLayout, *, verdict: float) -> None:
        """Write the number of further tokens below a tree."""
        painter, ruler = self._painter, self.ruler
        painter.setFont(ruler.small_font)
        painter.setPen(QColor(self._colours.muted))
        before, after = map(ruler.below, layout.rows)
        top = (1.0 - verdict) * before + verdict * after
        place = QRectF(0.0, top, ruler.overflow, ruler.label)
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(place, flags, f"+{count}")

    def cut(self, count: int) -> None:
        """Write the number of earlier tokens before the first accepted token that fits."""
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
        """Draw white space as fainter signs, so that a space cannot be taken for a dot."""
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
        """Draw the line of the fate; a strike grows with the verdict."""
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
