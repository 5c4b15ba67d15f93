"""The draft lane: a round of a replay, or of an explanation.

Two rows share their columns. The drafted tokens are in the lower row. With the verdict the accepted
tokens move to the upper row, which the round adds to the text; the rejected token is struck out in
place, with the target's own token above it; the discarded tokens fade. A tree has a lower row for
each of its branches.

Knows rounds and a font; not the answer's text.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QHelpEvent, QHideEvent, QPainter, QPaintEvent, QShowEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.rounds.drawing import LanePainter, RoundLayout, Ruler, lay_out, row_count
from app.rounds.marks import marked
from app.theme.motion import motion_is_reduced
from app.theme.palette import Palette
from app.theme.style import colours_of, small_font
from engine.conversation.rounds import Round

_FRAME_MS = 16
_DRAFT_SECONDS = 0.21  # of a round that is played, before its verdict
_SLIDE_SECONDS = 0.14
_MARGIN = 8
_SMALL_SCALE = 0.8  # the labels' font
_SIDE_WIDTH_CHARACTERS = 21
_MOST_ROWS = 4
_NARROWEST_LANE = 420  # pixels; in a narrower lane the tokens take the whole width


@dataclass(frozen=True, slots=True)
class RoundOnShow:
    """A round in the lane. Its draft appears at `drafted_at`, and its verdict at `judged_at`."""

    round: Round
    drafted_at: float
    judged_at: float


class DraftLane(QWidget):
    """Shows one round, at once with its verdict or from its draft on.

    Attributes: `shown`, the round that is in the lane, or None; `reduce_motion`: nothing slides;
    `most_rows`, the number of branches of a tree that are shown.

    Signals: `judged()`: the verdict of the round appears.
    """

    judged = Signal()

    def __init__(
        self, parent: QWidget | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(parent)
        self._clock = clock
        self.shown: RoundOnShow | None = None
        self._previous: RoundOnShow | None = None
        self.reduce_motion = motion_is_reduced()
        self.most_rows = _MOST_ROWS
        self._room = self._rows = 1
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)
        self._verdict = QTimer(self, singleShot=True, interval=round(1000 * _DRAFT_SECONDS))
        self._verdict.timeout.connect(self.judged)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Draft lane")

    def clear(self) -> None:
        """Empty the lane."""
        self.shown = self._previous = None
        self._set_rows(self._room)
        self._timer.stop()
        self._verdict.stop()
        self._describe()
        self.update()

    def show_round(self, shown: Round, *, animated: bool = False) -> None:
        """Show a round: at once with its verdict if it has one, or animated from its draft on."""
        self._set_rows(max(self._rows, row_count(shown, most=self._most)))
        self._previous = self.shown if animated else None
        begin = self._clock() if animated else float("-inf")
        waits = animated and bool(shown.drafted)
        judged_at = begin + _DRAFT_SECONDS if waits else begin
        if shown.verdict is None:
            judged_at = float("inf")
        self.shown = RoundOnShow(shown, begin, judged_at)
        self._describe()
        self._wake()
        self._verdict.start() if waits else self.judged.emit()

    def make_room(self, rounds: Iterable[Round]) -> None:
        """Take a height in which nine in ten of these rounds can be shown whole: a single large
        tree would leave the lane empty for all others."""
        needed = sorted(row_count(r, most=self.most_rows) for r in rounds) or [1]
        self._room = needed[round(0.9 * (len(needed) - 1))]
        self._set_rows(self._room)

    @property
    def _most(self) -> int:
        """The number of branches of a tree that are shown in the room that was made."""
        return min(self.most_rows, max(_MOST_ROWS, self._room))

    def _set_rows(self, rows: int) -> None:
        if rows != self._rows:
            self._rows = rows
            self.updateGeometry()

    # Motion

    def _tick(self) -> None:
        self.update()
        self._wake()

    def _wake(self) -> None:
        """Run the timer only while something moves: once a frame, or once when the verdict is
        due."""
        self.update()
        now, rest = self._clock(), None
        if (shown := self.shown) is not None:
            seconds = 0.0 if self.reduce_motion else _SLIDE_SECONDS
            if any(0.0 <= now - at <= seconds for at in (shown.drafted_at, shown.judged_at)):
                rest = _FRAME_MS
            elif now < shown.judged_at < float("inf"):
                rest = max(1, round((shown.judged_at - now) * 1000))
        if rest is None or not self.isVisible():
            self._timer.stop()
        elif not self._timer.isActive() or self._timer.interval() != rest:
            self._timer.start(rest)

    def _progress(self, since: float | None) -> float:
        """Return the progress of a movement that began at `since`, from 0 to 1; fast at first."""
        if since is None or (elapsed := self._clock() - since) < 0:
            return 0.0
        if self.reduce_motion or elapsed >= _SLIDE_SECONDS:
            return 1.0
        left: float = 1.0 - elapsed / _SLIDE_SECONDS
        return 1.0 - left * left * left

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._wake()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._timer.stop()

    # Size and painting

    def sizeHint(self) -> QSize:
        ruler = self._ruler()
        return QSize(480, round(ruler.below(self._rows) + ruler.label + 2 * _MARGIN))

    def minimumSizeHint(self) -> QSize:
        return QSize(160, self.sizeHint().height())

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.updateGeometry()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        ruler = self._ruler()
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            lane_painter = LanePainter(painter, colours, ruler)
            lane_painter.surface(QRectF(self.rect()))
            if self.shown is None:
                return
            side = self._side_width()
            if side:
                self._paint_side(painter, colours, side)
            painter.setClipRect(self._token_area().adjusted(-2, -_MARGIN, 2, _MARGIN))
            painter.translate(self._token_area().topLeft())
            if self._previous is not None:
                self._paint_leaving(painter, lane_painter, self._previous)
            if (layout := self._layout()) is not None:
                self._paint_round(lane_painter, layout)

    def _paint_leaving(
        self, painter: QPainter, lane_painter: LanePainter, previous: RoundOnShow
    ) -> None:
        """Paint the tokens that the previous round committed, which move up into the text."""
        shown = self.shown
        gone = self._progress(shown.drafted_at if shown else None)
        if gone >= 1.0:
            return
        ruler = lane_painter.ruler
        layout = self._laid_out(previous.round, ruler)
        painter.save()
        painter.setOpacity(1.0 - gone)
        painter.translate(0, -gone * ruler.row)
        for box in layout.boxes:
            if box.committed:
                lane_painter.token(box, verdict=1.0)
        painter.restore()

    def _paint_round(self, lane_painter: LanePainter, layout: RoundLayout) -> None:
        shown = self.shown
        verdict = self._progress(shown.judged_at if shown else None)
        shift = layout.shift * verdict
        fitting = layout.fitting(lane_painter.ruler, verdict)
        lane_painter.lines(layout, fitting, verdict=verdict)
        for box in fitting:
            lane_painter.token(box, verdict=verdict, shift=shift)
        stay = int(verdict > 0.0)  # the others fade
        drafted = [box for box in fitting if not box.own and box.rows[stay] is not None]
        cut = layout.cut(lane_painter.ruler, verdict)
        if cut:
            lane_painter.cut(len(cut))
        overflow = layout.tokens - len(drafted) - len(cut)
        if overflow and layout.lines:
            lane_painter.more(overflow, layout, verdict=verdict)
        elif overflow:
            last = max((box.left + box.width for box in drafted), default=0.0)
            lane_painter.overflow(overflow, left=last - shift)
        for label in layout.labels:
            if verdict > 0.0 and label.left + label.width - layout.shift <= layout.width:
                lane_painter.label(label, verdict=verdict, shift=layout.shift)

    def _paint_side(self, painter: QPainter, colours: Palette, width: float) -> None:
        """Paint the number of this round, and who drafted it."""
        small = small_font(self.font(), scale=_SMALL_SCALE)
        painter.setFont(small)
        painter.setPen(colours.muted)
        box = QRectF(self.width() - _MARGIN - width, _MARGIN, width, self.height() - 2 * _MARGIN)
        flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop
        painter.drawText(box, flags, "\n".join(self._side_lines()))

    def _side_lines(self) -> list[str]:
        shown = self.shown
        if shown is None:
            return []
        metrics = self._ruler().small
        by = shown.round.drafter or ("forced" if forced_in(shown.round) else "no draft")
        lines = [f"round {shown.round.number:,}", by]
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
        return Ruler(self.font(), small_font(self.font(), scale=_SMALL_SCALE))

    def _layout(self) -> RoundLayout | None:
        if self.shown is None:
            return None
        return self._laid_out(self.shown.round, self._ruler())

    def _laid_out(self, round: Round, ruler: Ruler) -> RoundLayout:
        width = self._token_area().width()
        return lay_out(round, ruler, width=width, most_rows=self._most)

    # Words

    def _describe(self) -> None:
        """Describe the round to screen readers, without an announcement: it changes too fast."""
        shown = self.shown
        self.setAccessibleDescription(describe(shown.round) if shown else "No round yet.")

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            # A tooltip shows text like HTML as HTML, and a token may look like HTML.
            lines = escape(self.tip_at(QPointF(event.pos()))).replace("\n", "<br>")
            tip = f"<p style='white-space: pre'>{lines}</p>" if lines else ""
            QToolTip.showText(event.globalPos(), tip, self)
            return True
        return super().event(event)

    def tip_at(self, point: QPointF) -> str:
        """Return the tooltip of this place: a token's figures."""
        layout, shown = self._layout(), self.shown
        if layout is None or shown is None:
            return ""
        area = self._token_area()
        ruler, verdict = self._ruler(), self._progress(shown.judged_at)
        for box in reversed(layout.fitting(ruler, verdict)):
            place = box.rectangle(ruler, verdict, layout.shift * verdict)
            if place.contains(point - area.topLeft()):
                return box.tip
        return ""


def forced_in(round: Round) -> str:
    """Return the forced tokens; empty in a round without any."""
    return " ".join(marked(token.text) for token in round.tokens if token.fate == "forced")


def describe(round: Round) -> str:
    """Describe a round in a sentence or two."""
    if forced := forced_in(round):
        return f"Round {round.number}: forced {forced}."
    drafted = " ".join(marked(token.text) for token in round.best_path)
    if more := len(round.drafted) - len(round.best_path):
        drafted += f" and {more} more in other branches"
    if round.verdict is None:
        return f"Round {round.number}: {round.drafter} drafts {drafted}."
    counts = f"{round.verdict.accepted} of {len(round.drafted)} accepted"
    draft = f"{drafted}: {counts}" if drafted else "nothing drafted"
    own = f"; {round.own.fate}: {marked(round.own.text)}" if round.own else ""
    return f"Round {round.number}: {draft}{own}."
