"""The draft lane: the current round, under the line that is being written.

Before the first round it shows a line about the activity.

Two rows share their columns. The drafted tokens are in the lower row. With the verdict the accepted
tokens move to the upper row, which the round adds to the text; the rejected token is struck out in
place, with the target's own token above it; the discarded tokens fade. A tree has a lower row for
each of its branches.

Knows rounds and a font; not the answer's text, which never waits for the lane.
"""

import time
from collections.abc import Callable, Iterable
from html import escape

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, QSizeF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QHelpEvent,
    QHideEvent,
    QPainter,
    QPaintEvent,
    QShowEvent,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.rounds.drawing import LanePainter, RoundLayout, Ruler, lay_out, row_count
from app.rounds.marks import marked
from app.rounds.pace import LanePace, RoundOnShow
from app.theme.palette import Palette
from app.theme.style import colours_of, small_font
from engine.conversation.rounds import Round

_FRAME_MS = 16
_SLIDE_SECONDS = 0.14
_CALM_ROUND_SECONDS = 0.6  # for a round while motion is reduced
_MARGIN = 8
_SMALL_SCALE = 0.8  # the labels' font
_SIDE_WIDTH_CHARACTERS = 21
_WHY_NOT_SHOWN = "rounds come faster than an eye can follow. The text of the answer has them all."
_BAR_HEIGHT, _BAR_GAP = 4.0, 6.0  # pixels
_MOST_ROWS = 4
_NARROWEST_LANE = 420  # pixels; in a narrower lane the tokens take the whole width


class DraftLane(QWidget):
    """Shows the newest round at a rate that can be followed.

    Attributes: `reduce_motion`: nothing slides, and rounds change less often; `not_shown`, the
    number of rounds that came too fast to be shown; `line`, the text before the first round;
    `most_rows`, the number of branches of a tree that are shown.

    Signals: `rested`: nothing is left to move.
    """

    rested = Signal()

    def __init__(
        self, parent: QWidget | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(parent)
        self._clock = clock
        self._pace = LanePace()
        self._quick_seconds = self._pace.round_seconds
        self._reduce_motion = False
        self.most_rows = _MOST_ROWS
        self._room = self._rows = 1
        self.line = ""
        self._share: float | None = None
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
    def not_shown(self) -> int:
        return self._pace.not_shown

    @property
    def shown(self) -> RoundOnShow | None:
        """The round that is in the lane, or None."""
        return self._pace.shown

    def push(self, incoming: Round) -> None:
        """Show the next drafted round of the answer, or the verdict of the last."""
        before = self._pace.shown, self._pace.not_shown
        self._grow(incoming)
        self._pace.push(incoming, self._clock())
        if before != (self._pace.shown, self._pace.not_shown):
            self._describe()
        self._wake()

    def say(self, line: str, *, share: float | None = None) -> None:
        """Show a line until there is a round; with a `share` of the work, also a bar."""
        if (line, share) != (self.line, self._share):
            self.line, self._share = line, share
            self._describe()
            self.update()

    def clear(self) -> None:
        """Empty the lane for the next answer."""
        self.line, self._share = "", None
        self._set_rows(self._room)
        self._pace.clear()
        self._timer.stop()
        self._describe()
        self.update()

    def show_round(self, judged: Round, *, animated: bool = False) -> None:
        """Show an earlier round: at once with its verdict, or animated from its draft on."""
        self._grow(judged)
        self._pace.show(judged, self._clock(), animated=animated)
        self._describe()
        self._wake()

    def make_room(self, rounds: Iterable[Round]) -> None:
        """Take a height in which each of these rounds can be shown."""
        self._room = max((row_count(r, most=self.most_rows) for r in rounds), default=1)
        self._set_rows(self._room)

    def _grow(self, round: Round) -> None:
        """Grow for a tree, and keep that height, so that what is below does not jump."""
        self._set_rows(max(self._rows, row_count(round, most=self.most_rows)))

    def _set_rows(self, rows: int) -> None:
        if rows != self._rows:
            self._rows = rows
            self.updateGeometry()

    # Motion

    def _tick(self) -> None:
        if self._pace.advance(self._clock()):
            self._describe()
        self.update()
        self._wake()

    def _wake(self) -> None:
        """Run the timer only while something moves or waits.

        It runs once a frame while something moves; otherwise once, when the next round is due.
        """
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
        moments = [shown.drafted_at, *([] if shown.judged_at is None else [shown.judged_at])]
        seconds = 0.0 if self._reduce_motion else _SLIDE_SECONDS
        return any(now <= moment + seconds for moment in moments)

    def _progress(self, since: float | None) -> float:
        """Return the progress of a movement that began at `since`, from 0 to 1; fast at first."""
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
            if self._pace.shown is None:
                self._paint_line(painter, colours)
                return
            side = self._side_width()
            if side:
                self._paint_side(painter, colours, side)
            painter.setClipRect(self._token_area().adjusted(-2, -_MARGIN, 2, _MARGIN))
            painter.translate(self._token_area().topLeft())
            if self._pace.previous is not None and self._pace.shown is not None:
                self._paint_leaving(painter, lane_painter, self._pace.previous)
            if (layout := self._layout()) is not None:
                self._paint_round(lane_painter, layout)

    def _paint_leaving(
        self, painter: QPainter, lane_painter: LanePainter, previous: RoundOnShow
    ) -> None:
        """Paint the tokens that the previous round committed, which move up into the text."""
        shown = self._pace.shown
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
        shown = self._pace.shown
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

    def _paint_line(self, painter: QPainter, colours: Palette) -> None:
        box = QRectF(self.rect()).adjusted(_MARGIN + 4, _MARGIN, -_MARGIN - 4, -_MARGIN)
        metrics = QFontMetricsF(self.font())
        line = metrics.elidedText(self.line, Qt.TextElideMode.ElideRight, box.width())
        painter.setPen(QColor(colours.text))
        painter.setFont(self.font())
        if self._share is None:
            painter.drawText(box, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, line)
            return
        top = box.center().y() - (metrics.height() + _BAR_GAP + _BAR_HEIGHT) / 2
        painter.drawText(QPointF(box.left(), top + metrics.ascent()), line)
        bar = QRectF(box.left(), top + metrics.height() + _BAR_GAP, box.width(), _BAR_HEIGHT)
        painter.setPen(Qt.PenStyle.NoPen)
        for width, colour in ((1.0, colours.edge), (self._share, colours.link)):
            painter.setBrush(QColor(colour))
            done = QRectF(bar.topLeft(), QSizeF(width * bar.width(), bar.height()))
            painter.drawRoundedRect(done, _BAR_HEIGHT / 2, _BAR_HEIGHT / 2)

    def _paint_side(self, painter: QPainter, colours: Palette, width: float) -> None:
        """Paint the number of this round, and the number of rounds not shown."""
        small = small_font(self.font(), scale=_SMALL_SCALE)
        painter.setFont(small)
        painter.setPen(colours.muted)
        box = QRectF(self.width() - _MARGIN - width, _MARGIN, width, self.height() - 2 * _MARGIN)
        flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop
        painter.drawText(box, flags, "\n".join(self._side_lines()))

    def _side_lines(self) -> list[str]:
        shown = self._pace.shown
        if shown is None:
            return []
        metrics = self._ruler().small
        by = shown.round.drafter or ("grammar" if forced_in(shown.round) else "no draft")
        lines = [f"round {shown.round.number:,}", by]
        # Below the number of the round, so that it needs few words.
        lines += [f"{self.not_shown:,} not shown"] if self.not_shown else []
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
        if self._pace.shown is None:
            return None
        return self._laid_out(self._pace.shown.round, self._ruler())

    def _laid_out(self, round: Round, ruler: Ruler) -> RoundLayout:
        width = self._token_area().width()
        return lay_out(round, ruler, width=width, most_rows=self.most_rows)

    # Words

    def _describe(self) -> None:
        """Describe the round to screen readers, without an announcement: it changes too fast."""
        shown = self._pace.shown
        words = describe(shown.round) if shown else self.line or "No round yet."
        if self.not_shown:
            words += f" {format_not_shown(self.not_shown)}: {_WHY_NOT_SHOWN}"
        self.setAccessibleDescription(words)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            # A tooltip shows text like HTML as HTML, and a token may look like HTML.
            lines = escape(self.tip_at(QPointF(event.pos()))).replace("\n", "<br>")
            tip = f"<p style='white-space: pre'>{lines}</p>" if lines else ""
            QToolTip.showText(event.globalPos(), tip, self)
            return True
        return super().event(event)

    def tip_at(self, point: QPointF) -> str:
        """Return the tooltip of this place: a token's figures, or why rounds are not shown."""
        layout, shown = self._layout(), self._pace.shown
        if layout is None or shown is None:
            return ""
        area = self._token_area()
        if self.not_shown and self._side_width() and point.x() > area.right():
            return f"{format_not_shown(self.not_shown)}: {_WHY_NOT_SHOWN}"
        ruler, verdict = self._ruler(), self._progress(shown.judged_at)
        for box in reversed(layout.fitting(ruler, verdict)):
            place = box.rectangle(ruler, verdict, layout.shift * verdict)
            if place.contains(point - area.topLeft()):
                return box.tip
        return ""


def format_not_shown(rounds: int) -> str:
    """Format the number of rounds that the lane did not show."""
    return f"{rounds:,} {'round' if rounds == 1 else 'rounds'} not shown"


def forced_in(round: Round) -> str:
    """Return the tokens that a grammar forced; empty in any other round."""
    return " ".join(marked(token.text) for token in round.tokens if token.fate == "forced")


def describe(round: Round) -> str:
    """Describe a round in a sentence or two."""
    if forced := forced_in(round):
        return f"Round {round.number}: the grammar forces {forced}."
    drafted = " ".join(marked(token.text) for token in round.best_path)
    if more := len(round.drafted) - len(round.best_path):
        drafted += f" and {more} more in other branches"
    if round.verdict is None:
        return f"Round {round.number}: {round.drafter} drafts {drafted}."
    counts = f"{round.verdict.accepted} of {len(round.drafted)} accepted"
    draft = f"{drafted}: {counts}" if drafted else "nothing drafted"
    own = f"; {round.own.fate}: {marked(round.own.text)}" if round.own else ""
    return f"Round {round.number}: {draft}{own}."
