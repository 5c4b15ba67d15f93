"""The requests that the local server answers now: what each asks, how far it is, its newest round.

Knows activities and rounds, and how they are shown; no server and no engine.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.chat.activity import Activity, BeingWritten, Reading, long_status
from app.rounds.drawing import LanePainter, Ruler
from app.rounds.lane import describe
from app.theme.labels import ShortenedLabel, ToneLabel
from app.theme.row_list import Row, RowList
from app.theme.style import colours_of, figures_font, small_font
from app.theme.thin_bar import ThinBar
from engine.conversation.rounds import Round

_GAP = 4.0
_WIDEST = "000,000 tokens \u00b7 000.0 tokens/s"
_NOTHING = "No program asks at the moment."
_OFF = "What programs ask, and how it is answered, is shown here."


@dataclass(frozen=True, slots=True)
class RequestShown:
    """A request, as it is shown. `round`: the newest, where there is one. `model`: the one that
    answers, where there are several."""

    id: str
    endpoint: str
    client: str
    activity: Activity
    tokens: int = 0
    tokens_per_second: float | None = None
    round: Round | None = None
    model: str = ""


class RoundStrip(QWidget):
    """A round's tokens in a row, each as its fate has it; of a tree, those of its best path. Those
    without room, and those of other branches, are counted."""

    def __init__(self) -> None:
        super().__init__()
        self._round: Round | None = None
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Newest round")

    def show_round(self, round: Round | None) -> None:
        if round != self._round:
            self._round = round
            self.setAccessibleDescription(describe(round) if round else "")
            self.update()

    def sizeHint(self) -> QSize:
        return QSize(200, round(self._ruler().chip) + 2)

    minimumSizeHint = sizeHint

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.updateGeometry()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._round is None:
            return
        ruler, left = self._ruler(), 0.0
        others = self._round.tokens[len(self._round.drafted) :]
        tokens = (*self._round.best_path, *others)
        more = len(self._round.tokens) - len(tokens)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            lane = LanePainter(painter, colours_of(self), ruler)
            for place, token in enumerate(tokens):
                text = ruler.elided(token.text)
                width = ruler.width(text)
                last = not more and place == len(tokens) - 1
                if left + width + (0.0 if last else ruler.overflow) > self.width() - 1:
                    more += len(tokens) - place
                    break
                lane.chip(text, token.fate, QRectF(left + 0.5, 1.0, width, ruler.chip))
                left += width + _GAP
            if more:
                painter.setFont(ruler.font)
                painter.setPen(QColor(colours_of(self).muted))
                rest = QRectF(left, 1.0, ruler.overflow, ruler.chip)
                painter.drawText(rest, Qt.AlignmentFlag.AlignCenter, f"+{more}")

    def _ruler(self) -> Ruler:
        font = small_font(self.font(), scale=0.92)
        return Ruler(font, font)


class RequestRow(Row):
    """One request, in two lines."""

    def __init__(self) -> None:
        super().__init__()
        self._endpoint = ToneLabel(bold=True)
        self._endpoint.setWordWrap(False)
        self._client = ShortenedLabel(tone="muted")
        self._figures = ToneLabel(tone="muted")
        self._figures.setWordWrap(False)
        self._figures.setFont(figures_font(self._figures.font()))
        self._figures.setAlignment(Qt.AlignmentFlag.AlignRight)
        widest = self._figures.fontMetrics().horizontalAdvance(_WIDEST)
        self._figures.setMinimumWidth(widest)  # so that nothing moves while they count
        self._doing = ToneLabel(tone="muted")
        self._bar, self._strip = ThinBar(), RoundStrip()
        above = QHBoxLayout()
        above.setSpacing(10)
        above.addWidget(self._endpoint)
        above.addWidget(self._client, 1)
        above.addWidget(self._figures)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 9, 14, 10)
        column.setSpacing(5)
        column.addLayout(above)
        for part in (self._doing, self._bar, self._strip):
            column.addWidget(part)

    def show_request(self, request: RequestShown) -> None:
        """Show how far it is."""
        line = long_status(request.activity)
        self._endpoint.say(request.endpoint)
        client = request.client or "A program without a name"
        self._client.say(f"{client} asks {request.model}" if request.model else client)
        figures = f"{request.tokens:,} token{'' if request.tokens == 1 else 's'}"
        if (rate := request.tokens_per_second) is not None:
            figures += f" \u00b7 {rate:.1f} tokens/s"
        self._figures.say(figures if request.tokens else "")
        writing = isinstance(request.activity, BeingWritten) and request.round is not None
        self._doing.say("" if writing else line)
        activity = request.activity
        self._bar.show_share(activity.share if isinstance(activity, Reading) else None)
        self._strip.setVisible(writing)
        self._strip.show_round(request.round)
        self.setAccessibleName(f"{request.endpoint}, {request.client}")
        self.setAccessibleDescription(f"{line}. {figures}" if request.tokens else line)


class RequestList(RowList[RequestRow]):
    """Attributes: `rows`, by the requests' ids, in their order."""

    def __init__(self) -> None:
        super().__init__("Requests", RequestRow)
        self.show_requests(())

    def show_requests(self, requests: Sequence[RequestShown], *, on: bool = False) -> None:
        """Show these; without any, what would be shown. `on`: whether there may be some."""
        self.keep([request.id for request in requests], _NOTHING if on else _OFF)
        for request in requests:
            self.rows[request.id].show_request(request)
