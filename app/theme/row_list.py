"""A list of rows with names: a row shows what it is given."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from app.theme.labels import ToneLabel
from app.theme.style import colours_of


class Row(QWidget):
    """A row with a line below it."""

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setPen(QColor(colours_of(self).edge))
            painter.drawLine(14, self.height() - 1, self.width() - 14, self.height() - 1)


class RowList[R: Row](QScrollArea):
    """Attributes: `rows`, by their names, in their order."""

    def __init__(self, name: str, make: Callable[[], R]) -> None:
        """`name`: for screen readers. `make` makes a row."""
        super().__init__()
        self._make = make
        self.rows: dict[str, R] = {}
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(name)
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

    def keep(self, names: Sequence[str], otherwise: str) -> None:
        """Have a row for each of these names, in their order; without any, show `otherwise`."""
        for name in [name for name in self.rows if name not in names]:
            row = self.rows.pop(name)
            row.hide()
            row.deleteLater()
        self.rows = {name: self.rows.get(name) or self._make() for name in names}
        for place, row in enumerate(self.rows.values(), self._column.indexOf(self._empty) + 1):
            if self._column.indexOf(row) != place:
                self._column.insertWidget(place, row)
        self._empty.say("" if names else otherwise)
