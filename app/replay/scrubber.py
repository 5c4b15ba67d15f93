"""Replays any answer round by round, from its trace.

Knows traces; not where they come from or where an export is saved.

Keys: Left and Right step, Home and End go to the ends, Space plays and pauses.
"""

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QComboBox,
    QPushButton,
    QSizePolicy,
    QSlider,
    QToolButton,
    QWidget,
)

from app.layout import FREE, column_of, row_of, scrolled
from app.markdown.asides import Aside
from app.replay.player import AnswerPlayer, as_drafted
from app.rounds import figures
from app.rounds.panel import RoundsPanel
from app.rounds.trace import Replay, to_document
from app.steps import timer
from app.theme.dialog import Dialog
from app.theme.icons import Sign, sign_icon
from app.theme.labels import closing, plain_label
from app.theme.style import colours_of, figures_font, scaled_font, sign_button
from engine.conversation.rounds import Round

_PLAY_MS = 700  # for a round, at a speed of 1
_DRAFT_MS = 210  # of that, until its verdict
_SPEEDS = (1, 2, 4, 8)
_FASTEST_SHOWN = 2  # at higher speeds a draft cannot wait for its verdict
_PANEL_WIDTH = 340
_BUTTONS: tuple[tuple[Sign, str], ...] = (
    ("first", "To the beginning"),
    ("back", "Previous round"),
    ("play", "Play"),
    ("forward", "Next round"),
    ("last", "To the end"),
)


class Scrubber(QWidget):
    """Shows an answer after `place` rounds; `playing` while it goes on automatically.

    Attributes: `replay`, on show; `speed`, a factor.

    Signals: `moved(int)`: the new place; `export_wanted(str)`: save this trace, as JSON;
    `page_wanted()`: save it as a page that plays in a browser.
    """

    moved = Signal(int)
    export_wanted = Signal(str)

    def __init__(self, *, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.replay = Replay(())
        self._slider = QSlider(Qt.Orientation.Horizontal)
        self._slider.setAccessibleName("Round")
        self._slider.setPageStep(10)
        self._slider.valueChanged.connect(self._show_place)
        self._counter = plain_label()
        self.speeds = QComboBox()
        for speed in _SPEEDS:
            self.speeds.addItem(f"{speed}×", speed)
        self.speeds.setToolTip("Speed of the replay")
        self.speeds.setAccessibleName("Speed of the replay")
        self.speeds.currentIndexChanged.connect(self._pace)
        self._page = QPushButton("Share…")
        self._page.setToolTip("Save a page that plays in any browser")
        self.page_wanted = self._page.clicked
        self._export = QPushButton("Export data…")
        self._export.setToolTip("Save all rounds of this answer as JSON")
        self._export.clicked.connect(self.export)
        self._answer = AnswerPlayer()
        self._answer.name("The answer up to this round")
        self._answer.setFont(scaled_font(self.font(), 1.25))
        self._answer.provenance.set_hidden(frozenset())
        self._answer.provenance.set_shown(True)
        self._buttons = {shape: self._button(shape, name) for shape, name in _BUTTONS}
        self._timer = QTimer(self, interval=_PLAY_MS)
        self._timer.timeout.connect(self._play_on)
        self._verdict = timer(self, _DRAFT_MS, lambda: self._show_until(self.place))
        self._arrange()
        self._draw_icons()
        self.setFocusProxy(self._slider)
        self.setAccessibleName("Replay")
        self.show_replay(Replay(()))

    def _arrange(self) -> None:
        way = row_of((self._slider, 1), self._counter, gap=10)
        buttons = self._buttons.values()
        bar = row_of(*buttons, 6, self.speeds, FREE, self._page, self._export, gap=2)
        column_of(way, bar, 6, (self._answer, 1), on=self, margins=(16, 12, 16, 14), gap=8)

    def _button(self, shape: Sign, name: str) -> QToolButton:
        button = sign_button("", name, lambda: self._press(shape))
        button.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        return button

    @property
    def place(self) -> int:
        return self._slider.value()

    @property
    def at_end(self) -> bool:
        """Whether the whole answer is shown."""
        return self.place == len(self.replay)

    @property
    def playing(self) -> bool:
        return self._timer.isActive()

    @property
    def speed(self) -> int:
        return int(self.speeds.currentData())

    @property
    def round(self) -> Round | None:
        """The round that is shown; None at the beginning."""
        return self.replay.rounds[self.place - 1] if self.place else None

    def show_replay(self, replay: Replay) -> None:
        """Show another answer, at its end."""
        self.pause()
        self.replay = replay
        total = len(self.replay)
        self._asides = tuple(Aside(place, line) for place, line in replay.calls)
        self._answer.clear()
        self._answer.set_stretches(replay.stretches)
        self._slider.blockSignals(True)
        self._slider.setRange(0, total)
        self._slider.setValue(total)
        self._slider.blockSignals(False)
        self._follow_font()
        self._export.setEnabled(bool(self.replay.events))
        self._page.setEnabled(total > 0)
        self._show_place(total)

    def go_to(self, place: int) -> None:
        """Show the answer after `place` rounds, or the nearest possible place."""
        self._slider.setValue(place)

    def play(self) -> None:
        """Show round after round; from the beginning, if this is the end."""
        if not len(self.replay):
            return
        if self.at_end:
            self.go_to(0)
        self._timer.start()
        self._name_play()

    def pause(self) -> None:
        """Stop playing, at this place."""
        self._timer.stop()
        self._name_play()

    def export(self) -> None:
        """Ask for the whole trace to be saved."""
        self.export_wanted.emit(to_document(self.replay.events))

    def _pace(self) -> None:
        self._timer.setInterval(_PLAY_MS // self.speed)

    def _play_on(self) -> None:
        self.go_to(self.place + 1)
        if self.at_end:
            self.pause()

    def _press(self, shape: Sign) -> None:
        if shape == "play":
            self.pause() if self.playing else self.play()
            return
        self.pause()
        total = len(self.replay)
        places = {"first": 0, "back": self.place - 1, "forward": self.place + 1, "last": total}
        self.go_to(places[shape])

    def _show_place(self, place: int) -> None:
        total = len(self.replay)
        self._counter.setText(_counted(place, total))
        self._slider.setEnabled(total > 0)
        for shape, button in self._buttons.items():
            at_end = place == (0 if shape in ("first", "back") else total)
            button.setEnabled(total > 0 and (shape == "play" or not at_end))
        self._verdict.stop()
        if self.playing and self.speed <= _FASTEST_SHOWN and self.round and self.round.drafted:
            self._show_until(place - 1, draft=as_drafted(self.round))
            self._verdict.start()
        else:
            self._show_until(place)
        self.moved.emit(place)

    def _show_until(self, place: int, *, draft: Round | None = None) -> None:
        """Show the answer after `place` rounds, with this draft ahead of it."""
        pieces = self.replay.pieces_until(place)
        newest = len(pieces) - len(self.replay.pieces_until(max(0, place - 1)))
        self._answer.show_pieces(
            pieces, round=draft, asides=self._asides, newest=0 if draft else newest
        )
        if place == len(self.replay):
            self._answer.finish()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handle keys while something other than the slider has the focus."""
        keys: dict[int, Sign] = {
            Qt.Key.Key_Space: "play",
            Qt.Key.Key_Left: "back",
            Qt.Key.Key_Right: "forward",
            Qt.Key.Key_Home: "first",
            Qt.Key.Key_End: "last",
        }
        shape = keys.get(event.key())
        if shape is None or event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            super().keyPressEvent(event)
        else:
            self._press(shape)

    def _name_play(self) -> None:
        name = "Pause" if self.playing else "Play"
        self._buttons["play"].setToolTip(name)
        self._buttons["play"].setAccessibleName(name)
        self._draw_icons()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._draw_icons()
        elif event.type() == QEvent.Type.FontChange:
            self._follow_font()
            self._draw_icons()  # depends on sizes, too

    def _follow_font(self) -> None:
        self._counter.setFont(figures_font(self.font()))
        total = len(self.replay)
        widest = self._counter.fontMetrics().horizontalAdvance(_counted(total, total))
        self._counter.setMinimumWidth(widest)

    def _draw_icons(self) -> None:
        colours = colours_of(self)
        for shape, button in self._buttons.items():
            shown: Sign = "pause" if shape == "play" and self.playing else shape
            button.setIcon(sign_icon(shown, ink=colours.text, faint=colours.edge))

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.fillRect(self.rect(), QColor(colours.paper))


class ReplayDialog(Dialog):
    """The replay of an answer. Attributes: `scrubber`; `panel`, its figures next to it."""

    def __init__(self, replay: Replay, *, parent: QWidget | None = None) -> None:
        """Play `replay` from its beginning."""
        super().__init__(parent)
        self.setWindowTitle("Replay")
        self.setWindowFlag(Qt.WindowType.WindowMaximizeButtonHint)
        self.setSizeGripEnabled(True)
        self.scrubber, self.panel = Scrubber(), RoundsPanel()
        self.scrubber.moved.connect(self._on_moved)
        scroll = scrolled(self.panel, "Answer statistics")
        scroll.setFixedWidth(_PANEL_WIDTH)
        scroll.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        row = row_of((self.scrubber, 1), scroll, gap=0)
        buttons = closing(self)
        buttons.setContentsMargins(16, 0, 16, 12)
        column_of((row, 1), buttons, on=self, margins=0, gap=0)
        self.scrubber.show_replay(replay)
        self.scrubber.setFocus()
        self.scrubber.play()
        if parent is not None:
            size = parent.window().size()
            self.resize(max(900, round(0.94 * size.width())), max(600, round(0.9 * size.height())))

    def _on_moved(self, place: int) -> None:
        shown = self.scrubber
        self.panel.show_stats(shown.replay.stats[place], shown.round, ended=shown.at_end)
        self.panel.refresh()


def _counted(place: int, total: int) -> str:
    return f"{place:,} of {figures.count(total, 'round')}" if total else "No rounds"
