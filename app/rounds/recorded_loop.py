"""A few rounds of a recorded answer in a loop: the draft runs ahead of the text, and is judged.

Knows words and their fates; not where they were recorded.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QEvent, QPointF, QTimer
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QHideEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.rounds.drawing import PEN_STYLES
from app.rounds.trace import PieceKind
from app.theme.palette import line_of
from app.theme.style import colours_of

FILE = Path(__file__).parents[2] / "resources" / "first_page.json"

_FRAME_MS = 40
_ROUND_SECONDS = 0.55
_REST_SECONDS = 2.6  # with the whole text, before it begins again
_FADE_SECONDS = 1.1  # from the colour of a fate to that of the text
_DRAFTED, _JUDGED, _FOLDED = 0.35, 0.45, 0.75  # parts of a round: when each of these is over
_PALE = 0.5
_LEADING = 1.6


@dataclass(frozen=True, slots=True)
class Word:
    """A token of a round, with what became of it."""

    text: str
    kind: PieceKind

    @property
    def written(self) -> bool:
        return self.kind not in ("rejected", "discarded")

    @property
    def drafted(self) -> bool:
        return self.kind in ("accepted", "rejected", "discarded")


@dataclass(frozen=True, slots=True)
class Recording:
    """A question, the models that answered it, and the rounds of the answer."""

    question: str
    target: str
    rounds: tuple[tuple[Word, ...], ...]

    @property
    def text(self) -> str:
        return "".join(word.text for round in self.rounds for word in round if word.written)

    @property
    def tokens(self) -> int:
        """The number of tokens of the text."""
        return sum(word.written for round in self.rounds for word in round)


def read_recording(file: Path = FILE) -> Recording:
    """Read a recording that a script made, `git log -- tests/lab/pictures/first_page.py`."""
    read = json.loads(file.read_text(encoding="utf-8"))
    rounds = tuple(tuple(Word(text, kind) for kind, text in one) for one in read["rounds"])
    return Recording(read["question"], read["target"], rounds)


class RecordedLoop(QWidget):
    """Plays a recording as long as it is visible. If it is `still`, it shows a judged round.

    Attribute: `places`, the place of each word's base line, by rounds.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        still: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._rounds = recording.rounds
        self._still, self._clock = still, clock
        self._began = clock()
        self.places: tuple[tuple[QPointF, ...], ...] = ()
        self._timer = QTimer(self, interval=_FRAME_MS)
        self._timer.timeout.connect(self.update)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("How an answer is drafted")
        self.setAccessibleDescription(recording.text)

    @property
    def seconds(self) -> float:
        """The length of the loop."""
        return len(self._rounds) * _ROUND_SECONDS + _REST_SECONDS

    def show_moment(self, seconds: float) -> None:
        """Show this moment of the loop."""
        self._began = self._clock() - seconds
        self.update()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self._still:
            self.show_moment(0.0)
            self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._timer.stop()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_out()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._lay_out()

    def paintEvent(self, event: QPaintEvent) -> None:
        now = (self._clock() - self._began) % self.seconds
        if self._still:  # in a round that has a word of each kind, before the rejected are folded
            kinds = [len({word.kind for word in one}) for one in self._rounds]
            now = (kinds.index(max(kinds)) + 0.6) * _ROUND_SECONDS
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setFont(self._text_font())
            for number, (words, places) in enumerate(zip(self._rounds, self.places, strict=True)):
                age = now - number * _ROUND_SECONDS
                if age >= 0:
                    self._paint_round(painter, words, places, age)

    def _paint_round(
        self,
        painter: QPainter,
        words: Sequence[Word],
        places: Sequence[QPointF],
        age: float,
    ) -> None:
        """Paint the words of a round that began `age` seconds ago."""
        part = age / _ROUND_SECONDS
        judged, folded = part >= _JUDGED, _between(_JUDGED + 0.1, part, _FOLDED)
        faded = _between(_ROUND_SECONDS, age, _ROUND_SECONDS + _FADE_SECONDS)
        drafted = sum(word.drafted for word in words)
        for number, (word, place) in enumerate(zip(words, places, strict=True)):
            if not word.drafted:  # a correction waits until the rejected are folded
                begin = _FOLDED - 0.1 if word.kind == "correction" else _JUDGED
                shown = _between(begin, part, begin + 0.25)
            else:
                step = _DRAFTED / max(1, drafted)
                shown = _between(number * step, part, (number + 1) * step)
            if not word.written:
                shown *= 1.0 - folded
            if shown > 0.0:
                painter.save()
                if not word.written:  # towards the word that replaces it
                    place = places[-1] + (place - places[-1]) * (1.0 - folded)
                painter.translate(place)
                painter.setOpacity(shown if judged else shown * _PALE)
                if judged and not word.written:
                    painter.scale(1.0 - folded, 1.0)
                self._paint_word(painter, word, judged=judged, faded=faded)
                painter.restore()

    def _paint_word(self, painter: QPainter, word: Word, *, judged: bool, faded: float) -> None:
        """Paint a word, with the colour and the line of its fate."""
        colours, metrics = colours_of(self), QFontMetricsF(painter.font())
        own, text = QColor(colours.of(word.kind)), QColor(colours.text)
        if not judged:
            painter.setPen(text)
            painter.drawText(QPointF(0, 0), word.text)
            return
        painter.setPen(_mixed(own, text, faded))
        painter.drawText(QPointF(0, 0), word.text)
        if faded < 1.0:
            line = line_of(word.kind)
            own.setAlphaF(1.0 - faded)
            painter.setPen(QPen(own, 1.5, PEN_STYLES[line]))
            y = -metrics.xHeight() / 2 if line.endswith("strike") else 4.0
            blank = metrics.horizontalAdvance(" ") if word.text.startswith(" ") else 0.0
            end = metrics.horizontalAdvance(word.text)
            painter.drawLine(QPointF(blank, y), QPointF(end, y))

    def _lay_out(self) -> None:
        """Place each word's base line, and take the height of all lines. A draft never moves the
        text before it."""
        metrics = QFontMetricsF(self._text_font())
        row = _LEADING * metrics.height()
        left, top = 0.0, metrics.ascent() + (row - metrics.height()) / 2
        places = []
        for words in self._rounds:
            ahead = left, top  # where the draft stands
            line: list[QPointF] = []
            for word in words:
                width = metrics.horizontalAdvance(word.text)
                at = ahead if word.drafted else (left, top)
                if at[0] + width > self.width() and at[0] > 0:
                    blank = metrics.horizontalAdvance(" ") if word.text.startswith(" ") else 0.0
                    at = -blank, at[1] + row
                line.append(QPointF(*at))
                ahead = at[0] + width, at[1]
                if word.written:
                    left, top = ahead
            places.append(tuple(line))
        self.places = tuple(places)
        lowest = max(place.y() for line in places for place in line)
        self.setFixedHeight(round(lowest - metrics.ascent() + (row + metrics.height()) / 2))

    def _text_font(self) -> QFont:
        font = QFont(self.font())
        font.setPointSizeF(font.pointSizeF() * 1.25)
        return font


def _between(start: float, now: float, end: float) -> float:
    """Return how far `now` is from `start` to `end`, from 0 to 1."""
    return min(1.0, max(0.0, (now - start) / (end - start)))


def _mixed(colour: QColor, other: QColor, share: float) -> QColor:
    """Return `colour` with this share of `other`."""
    parts = (
        (colour.red(), other.red()),
        (colour.green(), other.green()),
        (colour.blue(), other.blue()),
    )
    return QColor(*(round((1 - share) * one + share * two) for one, two in parts))
