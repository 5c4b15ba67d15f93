"""The replay of an answer in a window of its own, with the figures beside it."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QFrame, QHBoxLayout, QScrollArea, QWidget

from app.rounds.panel import RoundsPanel
from app.rounds.scrubber import Scrubber
from app.rounds.trace import Replay

_PANEL_WIDTH = 340


class ReplayDialog(QDialog):
    """Attributes: `scrubber`; `panel`, whose figures follow it."""

    def __init__(self, replay: Replay, *, place: int, parent: QWidget | None = None) -> None:
        """Shows `replay`, beginning at this place."""
        super().__init__(parent)
        self.setWindowTitle("Replay")
        self.setWindowFlag(Qt.WindowType.WindowMaximizeButtonHint)
        self.setSizeGripEnabled(True)
        self.scrubber, self.panel = Scrubber(large=True), RoundsPanel()
        self.scrubber.moved.connect(self._on_moved)
        scroll = QScrollArea()
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFixedWidth(_PANEL_WIDTH)
        scroll.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        scroll.setAccessibleName("Figures of the rounds")
        scroll.setWidget(self.panel)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.scrubber, 1)
        row.addWidget(scroll)
        self.scrubber.show_replay(replay)
        self.scrubber.go_to(place)
        self.scrubber.setFocus()
        if parent is not None:
            size = parent.window().size()
            self.resize(max(900, round(0.94 * size.width())), max(600, round(0.9 * size.height())))

    def _on_moved(self, place: int) -> None:
        shown = self.scrubber
        self.panel.show_trace(shown.events, shown.round, ended=shown.at_end)
