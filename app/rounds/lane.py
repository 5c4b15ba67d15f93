"""The draft lane: the round being made, under the line being written.

Knows rounds and a font. Knows nothing of the answer's text, which never waits for the lane.

Two rows share their columns. A round's drafted tokens stand in the lower one. On the verdict the
accepted ones slide up into the upper row, which is what the round adds to the text; the first
rejected is struck where it stood, with the target's own token above it, and the rest fade.
"""

import time
from collections.abc import Callable
from html import escape

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QFont, QHelpEvent, QHideEvent, QPainter, QPaintEvent, QShowEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.rounds.layout import Plan, Ruler, plan
from app.rounds.marks import marked
from app.rounds.pace import Pace, Shown
from app.rounds.strokes import Strokes
from app.theme.palette import Palette, palette_for
from engine.rounds import Round

_FRAME_MS = 16
_SLIDE_SECONDS = 0.14
_CALM_ROUND_SECONDS = 0.6  # how long a round shows where motion is reduced
_MARGIN = 8
_SIDE_WIDTH_CHARACTERS = 19
_NARROWEST_LANE = 420  # in pixels: below it the tokens have the width to themselves


class DraftLane(QWidget):
    """Shows the newest round, at a rate that can be followed.

    Attributes: `reduce_motion`: nothing slides, and rounds change less often. `skipped`: how many
    rounds of this answer were passed over. Signals: `rested`, when there is nothing left to move.
    """

    rested = Signal()

    def __init__(
        self, parent: QWidget | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(parent)
        self._clock = clock
        self._pace = Pace()
        self._quick_seconds = self._pace.round_seconds
        self._reduce_motion = False
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Draft lane")

    @property
    def reduce_motion(self) -> bool:
        return self._reduce_motion

    @reduce_motion.setter
    def reduce_motion(self, reduce: bool) -> None:
        self._reduce_motion = reduce
        self._pace.round_seconds = _CALM_ROUND_SECONDS if reduce else self._quick_seconds
        self._wake()

    @property
    def skipped(self) -> int:
        return self._pace.skipped

    @property
    def shown(self) -> Shown | None:
        """The round that is in the lane."""
        return self._pace.shown

    @property
    def animating(self) -> bool:
        """Whether the lane's timer runs."""
        return self._timer.isActive()

    def push(self, coming: Round) -> None:
        """Take one more round of the answer, or the verdict on the last."""
        before = self._pace.shown
        self._pace.push(coming, self._clock())
        if self._pace.shown is not before:
            self._describe()
        self._wake()

    def clear(self) -> None:
        """Empty the lane, for the next answer."""
        self._pace.clear()
        self._timer.stop()
        self._describe()
        self.update()

    def show_round(self, judged: Round, *, animated: bool = False) -> None:
        """Show a round of the past: at once as it ended, or from its draft on."""
        now = self._clock()
        before = self._pace.shown if animated else None
        wait = self._pace.guess_seconds * 3 if animated and judged.drafted else 0.0
        self._pace.clear()
        self._pace.before = before
        began, verdict = (now, now + wait) if animated else (now - 1.0, now - 1.0)
        self._pace.shown = Shown(judged, began, verdict)
        self._describe()
        self._wake()

    # What moves

    def _tick(self) -> None:
        if self._pace.advance(self._clock()):
            self._describe()
        self.update()
        self._wake()

    def _wake(self) -> None:
        """Run the timer as long as there is something to move or to show, and no longer."""
        self.update()
        now, rest = self._clock(), None
        if self._moving(now):
            rest = _FRAME_MS
        elif (due := self._pace.due()) is not None:
            rest = max(1, round((due - now) * 1000))
        if rest is None or not self.isVisible():
            was_active = self._timer.isActive()
            self._timer.stop()
            if was_active and rest is None:
                self.rested.emit()
        elif not self._timer.isActive() or self._timer.interval() != rest:
            self._timer.start(rest)

    def _moving(self, now: float) -> bool:
        shown = self._pace.shown
        if shown is None:
            return False
        moments = [shown.appeared, *([] if shown.judged is None else [shown.judged])]
        seconds = 0.0 if self._reduce_motion else _SLIDE_SECONDS
        return any(now <= moment + seconds for moment in moments)

    def _progress(self, since: float | None) -> float:
        """0 to 1 from the moment `since` on, fast at first."""
        if since is None or (elapsed := self._clock() - since) < 0:
            return 0.0
        if self._reduce_motion or elapsed >= _SLIDE_SECONDS:
            return 1.0
        left: float = 1.0 - elapsed / _SLIDE_SECONDS
        return 1.0 - left * left * left

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._wake()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._timer.stop()

    # What is seen

    def sizeHint(self) -> QSize:
        ruler = self._ruler()
        return QSize(480, round(2 * ruler.row + ruler.label + 2 * _MARGIN))

    def minimumSizeHint(self) -> QSize:
        return QSize(160, self.sizeHint().height())

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.updateGeometry()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = palette_for(self.palette().window().color().name())
        ruler = self._ruler()
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            strokes = Strokes(painter, colours, ruler)
            strokes.card(QRectF(self.rect()))
            side = self._side_width()
            if side:
                self._paint_side(painter, colours, side)
            painter.setClipRect(self._token_area().adjusted(-2, -_MARGIN, 2, _MARGIN))
            painter.translate(self._token_area().topLeft())
            if self._pace.before is not None and self._pace.shown is not None:
                self._paint_leaving(painter, strokes, self._pace.before)
            if (found := self._plan()) is not None:
                self._paint_round(strokes, found)

    def _paint_leaving(self, painter: QPainter, strokes: Strokes, before: Shown) -> None:
        """The round before goes on up, into the text."""
        shown = self._pace.shown
        gone = self._progress(shown.appeared if shown else None)
        if gone >= 1.0:
            return
        last = plan(before.round, strokes.ruler, width=self._token_area().width())
        painter.save()
        painter.setOpacity(1.0 - gone)
        painter.translate(0, -gone * strokes.ruler.row)
        for cell in last.cells:
            if cell.up:
                strokes.token(cell, verdict=1.0)
        painter.restore()

    def _paint_round(self, strokes: Strokes, found: Plan) -> None:
        shown = self._pace.shown
        verdict = self._progress(shown.judged if shown else None)
        shift = found.shift * verdict
        fitting = found.fitting(strokes.ruler, verdict)
        for cell in fitting:
            strokes.token(cell, verdict=verdict, shift=shift)
        drafted = [cell for cell in fitting if not cell.own]
        beyond = sum(not cell.own for cell in found.cells) - len(drafted)
        if beyond:
            last = max((cell.left + cell.width for cell in drafted), default=0.0)
            strokes.beyond(beyond, left=last - shift)
        for label in found.labels:
            if verdict > 0.0 and label.left + label.width - found.shift <= found.width:
                strokes.label(label, verdict=verdict, shift=found.shift)

    def _paint_side(self, painter: QPainter, colours: Palette, width: float) -> None:
        """Which round this is, and how many were passed over."""
        small = _small(self.font())
        painter.setFont(small)
        painter.setPen(colours.muted)
        box = QRectF(self.width() - _MARGIN - width, _MARGIN, width, self.height() - 2 * _MARGIN)
        flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop
        painter.drawText(box, flags, "\n".join(self._side_lines()))

    def _side_lines(self) -> list[str]:
        shown = self._pace.shown
        if shown is None:
            return []
        drafter = shown.round.drafter or "no draft"
        skipped = self._pace.skipped
        metrics = self._ruler().small
        lines = [f"round {shown.round.number:,}", drafter]
        lines += [f"{skipped:,} skipped"] if skipped else []
        wide = self._side_width()
        return [metrics.elidedText(line, Qt.TextElideMode.ElideMiddle, int(wide)) for line in lines]

    def _side_width(self) -> float:
        if self.width() < _NARROWEST_LANE:
            return 0.0
        return self._ruler().small.averageCharWidth() * _SIDE_WIDTH_CHARACTERS

    def _token_area(self) -> QRectF:
        side = self._side_width()
        side = side + 2 * _MARGIN if side else 0.0
        whole = QRectF(self.rect()).adjusted(_MARGIN, _MARGIN, -_MARGIN - side, -_MARGIN)
        return whole

    def _ruler(self) -> Ruler:
        return Ruler(self.font(), _small(self.font()))

    def _plan(self) -> Plan | None:
        if self._pace.shown is None:
            return None
        return plan(self._pace.shown.round, self._ruler(), width=self._token_area().width())

    # What is said

    def _describe(self) -> None:
        """The round in words, for screen readers; nothing is announced, it changes too fast."""
        shown = self._pace.shown
        self.setAccessibleDescription(describe(shown.round if shown else None))

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            # A tool tip takes text that looks like HTML for HTML, and tokens may look like that.
            lines = escape(self.tip_at(QPointF(event.pos()))).replace("\n", "<br>")
            tip = f"<p style='white-space: pre'>{lines}</p>" if lines else ""
            QToolTip.showText(event.globalPos(), tip, self)
            return True
        return super().event(event)

    def tip_at(self, point: QPointF) -> str:
        """The figures of the token at this place of the lane; empty where there is none."""
        found, shown = self._plan(), self._pace.shown
        if found is None or shown is None:
            return ""
        ruler, verdict = self._ruler(), self._progress(shown.judged)
        at = point - self._token_area().topLeft()
        for cell in reversed(found.fitting(ruler, verdict)):
            if cell.box(ruler, verdict, found.shift * verdict).contains(at):
                return cell.tip
        return ""


def describe(shown: Round | None) -> str:
    """A round in a sentence or two."""
    if shown is None:
        return "No round yet."
    drafted = " ".join(marked(token.text) for token in shown.drafted)
    if shown.verdict is None:
        return f"Round {shown.number}: {shown.drafter} drafts {drafted}."
    said = f"{shown.verdict.accepted} of {len(shown.drafted)} accepted"
    own = f"; {shown.own.fate}: {marked(shown.own.text)}" if shown.own else ""
    told = f"{drafted}: {said}" if drafted else "nothing drafted"
    return f"Round {shown.number}: {told}{own}."


def _small(font: QFont) -> QFont:
    small = QFont(font)
    small.setPointSizeF(max(7.0, font.pointSizeF() * 0.8))
    return small
