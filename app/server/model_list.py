"""The models that programs may ask the local server for, each with what has become of it.

Knows how that is shown; no server and no engine.
"""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout

from app.theme.labels import ShortenedLabel, Tone, ToneLabel
from app.theme.row_list import Row, RowList
from app.theme.style import figures_font
from engine.server.status import ModelState, ModelStatus
from models.in_words import size

_STATES: dict[ModelState, tuple[str, Tone]] = {
    "loaded": ("Loaded", "good"),
    "loading": ("Loading\u2026", "text"),
    "not loaded": ("Not loaded", "muted"),
}
_NONE = "The models that programs can ask for are shown here once the server is on."


class ModelRow(Row):
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


class ModelList(RowList[ModelRow]):
    """Attributes: `rows`, by the models' names, in their order."""

    def __init__(self) -> None:
        super().__init__("Models", ModelRow)
        self.show_models(())

    def show_models(self, models: Sequence[ModelStatus]) -> None:
        """Show these."""
        self.keep([model.name for model in models], _NONE)
        for model in models:
            self.rows[model.name].show_model(model)
