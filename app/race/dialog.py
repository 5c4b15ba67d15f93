"""The race on the screen: two answers side by side, two clocks, and the result."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QCloseEvent, QColor, QFont, QPalette, QTextCursor
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.race.race import RACERS, Race, Racer, RaceResult
from app.rounds import figures
from app.rounds.lane import DraftLane
from app.rounds.marks import marked
from app.status_line import StatusLine
from app.theme.style import colours_of, figures_font
from engine.events import Prefill, Stats, Text
from engine.request import ChatMessage, Request
from engine.rounds import EventOrRound, Round, Token
from engine.stats import update
from models.errors import Problem
from models.in_words import clean


class RaceDialog(QDialog):
    """Starts a race as soon as it is opened, and again on request."""

    def __init__(
        self,
        race: Race,
        messages: Sequence[ChatMessage],
        request: Request,
        *,
        names: tuple[str, str],
        parent: QWidget | None = None,
    ) -> None:
        """`names` are the target's and the drafter's."""
        super().__init__(parent)
        target, drafter = names
        self._race, self._messages, self._request = race, tuple(messages), request
        self.tracks = {
            "plain": RaceTrack(f"{target}, plain decoding", lane=False),
            "speculative": RaceTrack(f"{target}, drafter {drafter}", lane=True),
        }
        self.result_line = StatusLine(wraps=True)
        larger = self.result_line.font()
        larger.setPointSizeF(larger.pointSizeF() * 1.15)
        self.result_line.setFont(larger)
        self._question = QLabel(clean(_shortened(messages[-1].content)))
        self._again = QPushButton("Race again")
        self._stop = QPushButton("Stop")
        self._close = QPushButton("Close")
        self.setWindowTitle("Race")
        self._arrange()
        self._again.clicked.connect(self.start)
        self._stop.clicked.connect(race.stop)
        self._close.clicked.connect(self.reject)
        race.happened.connect(self._on_happening)
        race.finished.connect(self._on_finished)
        race.failed.connect(self._on_failed)
        self.start()

    def _arrange(self) -> None:
        self._question.setTextFormat(Qt.TextFormat.PlainText)
        self._question.setWordWrap(True)
        tracks = QHBoxLayout()
        tracks.setSpacing(20)
        for racer in RACERS:
            tracks.addWidget(self.tracks[racer], 1)
        below = QHBoxLayout()
        below.addWidget(self.result_line, 1)
        for button in (self._again, self._stop, self._close):
            button.setAutoDefault(False)
            below.addWidget(button, 0, Qt.AlignmentFlag.AlignBottom)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 16, 20, 14)
        column.setSpacing(12)
        column.addWidget(self._question)
        column.addLayout(tracks, 1)
        column.addLayout(below)
        self.resize(980, 620)

    def start(self) -> None:
        """Start the race, unless it is running."""
        if self._race.running:
            return
        for track in self.tracks.values():
            track.clear()
        self.result_line.say(
            "Plain decoding runs first, then speculative decoding. Both are greedy."
        )
        self._race.start(self._messages, self._request)
        self._enable()

    def _enable(self) -> None:
        self._again.setEnabled(not self._race.running)
        self._stop.setEnabled(self._race.running)

    def _on_happening(self, racer: Racer, happening: EventOrRound) -> None:
        self.tracks[racer].push(happening)

    def _on_finished(self, result: RaceResult) -> None:
        self._enable()
        self.result_line.say(result_text(result), "warning" if result.difference else "good")

    def _on_failed(self, problem: Problem) -> None:
        self._enable()
        self.result_line.say(str(problem), "warning")

    def done(self, result: int) -> None:
        """Stop the race, however the dialog is closed."""
        self._race.stop()
        super().done(result)

    def closeEvent(self, event: QCloseEvent) -> None:
        self._race.stop()
        super().closeEvent(event)


class RaceTrack(QWidget):
    """One racer: its clock, its figures, its text, and the draft lane where it drafts."""

    def __init__(self, title: str, *, lane: bool) -> None:
        super().__init__()
        self._title, self.clock, self.figures = _label(clean(title)), _label("\u2013"), _label("")
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setFrameShape(QFrame.Shape.NoFrame)
        self.text.setTabChangesFocus(True)
        self.text.setAccessibleName(f"{title}: the answer")
        self.clock.setAccessibleName(f"{title}: the clock")
        self._lane = DraftLane() if lane else None
        self._stats = Stats()
        large = figures_font(self.font())
        large.setPointSizeF(large.pointSizeF() * 2.2)
        large.setWeight(QFont.Weight.DemiBold)
        self.clock.setFont(large)
        self.figures.setFont(figures_font(self.font()))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        for label in (self._title, self.clock, self.figures):
            column.addWidget(label)
        column.addSpacing(6)
        column.addWidget(self.text, 1)
        if self._lane is not None:
            column.addWidget(self._lane)
        self._recolour()
        self.clear()

    def clear(self) -> None:
        """Show that it has not started."""
        self._stats = Stats()
        self.text.clear()
        self.clock.setText("\u2013")
        self.figures.setText("waiting")
        if self._lane is not None:
            self._lane.clear()

    def push(self, happening: EventOrRound) -> None:
        """One more step of this racer."""
        match happening:
            case Prefill():
                self._stats = update(self._stats, happening)
            case Text(delta=delta):
                cursor = QTextCursor(self.text.document())
                cursor.movePosition(QTextCursor.MoveOperation.End)
                cursor.insertText(clean(delta))
                bar = self.text.verticalScrollBar()
                bar.setValue(bar.maximum())
            case Round():
                self._show_round(happening)

    def _show_round(self, round: Round) -> None:
        if self._lane is not None:
            self._lane.push(round)
        if round.verdict is not None:
            self._stats = stats = update(self._stats, round.verdict)
            self.clock.setText(figures.seconds(stats.decode_seconds))
            speed = stats.tokens_per_second or 0.0
            tokens = figures.count(stats.committed, "token")
            passes = figures.count(stats.rounds, "pass")
            self.figures.setText(f"{speed:.1f} tokens/s\n{tokens} in {passes}")

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._recolour()

    def _recolour(self) -> None:
        colours = colours_of(self)
        for label in (self._title, self.figures):
            palette = label.palette()
            palette.setColor(QPalette.ColorRole.WindowText, QColor(colours.muted))
            label.setPalette(palette)


def result_text(result: RaceResult) -> str:
    """Whether both answers are identical, and how much faster one was, in words."""
    difference = result.difference
    if difference is None:
        same = f"Identical: all {figures.count(result.tokens, 'token')} are the same."
    else:
        differing = (
            f"plain decoding {_outcome(difference.plain)}, "
            f"speculative decoding {_outcome(difference.speculative)}"
        )
        margin = difference.margin
        apart = "" if margin is None else f" Their probabilities are {margin:.3g} apart."
        same = f"The answers differ from token {difference.place:,} on: {differing}.{apart}"
    if result.ratio is None:
        return same
    if not result.speculative.proposed:
        return f"{same} Nothing was drafted, so there is no speed to compare."
    seconds = [figures.seconds(s.decode_seconds) for s in (result.plain, result.speculative)]
    return (
        f"{same} Speculative decoding was {result.ratio:.2f} times as fast "
        f"({seconds[1]} against {seconds[0]}, without reading the prompt)."
    )


def _outcome(token: Token | None) -> str:
    return (
        "ended" if token is None else f"wrote \u201c{marked(token.text)}\u201d (p = {token.p:.3g})"
    )


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else line[:159] + "\u2026"


def _label(text: str) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label
