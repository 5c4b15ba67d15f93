"""What stands where the messages will be, before there are any. Knows the model that is loaded."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QFont, QPalette
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.chat.provenance import Legend
from app.models.loader import ModelLoader
from app.models.words import target_name
from app.theme.style import Theme
from engine.protocol import Loaded
from models.errors import Problem

_MEGABYTE = 1_000_000
_WIDEST = 480  # pixels


class Welcome(QWidget):
    """A word on what will be seen, and on where the model is.

    Signals: `library_asked()`, show which models there are.
    """

    library_asked = Signal()

    def __init__(self, loader: ModelLoader, theme: Theme) -> None:
        super().__init__()
        self._loader, self._theme = loader, theme
        self._title, self._words, self._model = _label(), _label(), _label()
        self._title.setText("Slipstream")
        self._words.setText(
            "A small drafter guesses the next tokens, and the model checks them in one pass. "
            "The answer is the model\u2019s own, only sooner. Each token is marked by how it came:"
        )
        self._legend = Legend(theme.font, theme.colours)
        self._library = QPushButton("Models for this machine…")
        self._library.clicked.connect(self.library_asked)
        column = QVBoxLayout()
        column.setSpacing(14)
        column.addStretch(2)
        column.addWidget(self._title)
        column.addWidget(self._words)
        column.addWidget(self._legend, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addWidget(self._model)
        column.addWidget(self._library, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addStretch(3)
        inner = QWidget()
        inner.setMaximumWidth(_WIDEST)
        inner.setLayout(column)
        row = QHBoxLayout(self)  # between stretches a wrapped line has the height it wants
        row.addStretch(1)
        row.addWidget(inner, 100)
        row.addStretch(1)
        self._model.setText("The engine is being started.")
        loader.fetch_began.connect(self._on_fetch)
        loader.fetch_progress.connect(self._on_progress)
        loader.load_requested.connect(self._on_asked)
        loader.loaded_now.connect(self._on_loaded)
        loader.failed.connect(self._on_failed)
        theme.changed.connect(self._follow_theme)
        self._follow_theme()

    def _on_fetch(self) -> None:
        self._model.setText("Looking for the starter model. You can write meanwhile.")

    def _on_progress(self, done: int, total: int) -> None:
        self._model.setText(
            f"Downloading the starter model: {done / _MEGABYTE:.0f} of "
            f"{total / _MEGABYTE:.0f} MB. You can write meanwhile."
        )

    def _on_asked(self) -> None:
        self._model.setText("Loading the model. You can write meanwhile.")

    def _on_loaded(self, loaded: Loaded) -> None:
        self._model.setText(f"{target_name(loaded.target)} is ready, {loaded.precision}.")

    def _on_failed(self, problem: Problem) -> None:
        if self._loader.loaded is None:
            self._model.setText("There is no model to answer yet.")

    def _follow_theme(self) -> None:
        shown, colours = self._theme.font, self._theme.colours
        self._legend.set_appearance(shown, colours)
        for label, scale, colour in (
            (self._title, 2.0, colours.text),
            (self._words, 1.0, colours.text),
            (self._model, 0.92, colours.muted),
        ):
            font = QFont(shown)
            font.setPointSizeF(font.pointSizeF() * scale)
            font.setWeight(QFont.Weight.DemiBold if scale > 1 else QFont.Weight.Normal)
            label.setFont(font)
            palette = label.palette()
            palette.setColor(QPalette.ColorRole.WindowText, QColor(colour))
            label.setPalette(palette)


def _label() -> QLabel:
    label = QLabel()
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    return label
