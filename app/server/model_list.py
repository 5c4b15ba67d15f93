"""The models that programs may ask the local server for, each with what has become of it.

Knows how that is shown; no server and no engine.
"""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from app.theme.labels import ShortenedLabel, Tone, ToneLabel
from app.theme.style import colours_of, figures_font
from engine.server.status import ModelState, ModelStatus
from models.in_words import size

_STATES: dict[ModelState, tuple[str, Tone]] = {
    "loaded": ("Loaded", "good"),
    "loading": ("Loading\u2026", "text"),
    "not loaded": ("Not loaded", "muted"),
}
_NONE = "The models that programs can ask for are shown here once the server is on."


class ModelRow(QWidget):
    """One model, in a line: its name, the memory that it takes, and whether it is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self._name, self._size = ShortenedLabel(), ToneLabel(tone="muted")
        self._state = ToneLabel()
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 9, 14, 10)
        row.setSpacing(12)
        row.addWidget(self._name, 1)
        for label in (self._size, self._state):
            label.setWordWrap(False)
            label.setAlignment(Qt.AlignmentFlag.AlignRight)
            row.addWidget(label)
        self._size.setFont(figures_font(self._size.font()))
        widest = max(
            map(self._state.fontMetrics().horizontalAdvance, ("Not loaded", "Loading\u2026"))
        )
        self._state.setMinimumWidth(widest)  # so that the sizes stand in one column

    def show_model(self, model: ModelStatus) -> None:
        """Show how it is."""
        words, tone = _STATES[model.state]
        held = size(model.needed_bytes) if model.needed_bytes and model.state == "loaded" else ""
        self._name.say(model.name)
        self._size.say(held)
        self._state.say(words, tone)
        self.setAccessibleName(model.name)
        self.setAccessibleDescription(", ".join(filter(None, (words, held))))

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setPen(QColor(colours_of(self).edge))
            painter.drawLine(14, self.height() - 1, self.width() - 14, self.height() - 1)


class ModelList(QScrollArea):
    """Attributes: `rows`, by the models' names, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, ModelRow] = {}
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName("Models")
        self._empty = ToneLabel(tone="muted")
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setContentsMargins(14, 24, 14, 24)
        inner = QWidget()
        self._column = QVBoxLayout(inner)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self._column.addWidget(self._empty)
        self._column.addStretch(1)
        self.setWidget(inner)
        self.show_models(())

    def show_models(self, models: Sequence[ModelStatus]) -> None:
        """Show these."""
        if [model.name for model in models] != [*self.rows]:
            for row in self.rows.values():
                row.hide()
                row.deleteLater()
            self.rows = {model.name: ModelRow() for model in models}
            for row in self.rows.values():
                self._column.insertWidget(self._column.count() - 1, row)
        for model in models:
            self.rows[model.name].show_model(model)
        self._empty.say("" if models else _NONE)
