"""Names the conversation that was deleted last, with a button that restores it.

It stays until it is closed, so that nobody has to be quick.
"""

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QToolButton, QWidget

from app.status_line import StatusLine
from app.theme.icons import sign_icon
from app.theme.style import colours_of


class UndoBar(QWidget):
    """Hidden while there is nothing to undo. The last deletion is undone first.

    Signals: `undone(int)`, the id of what to restore.
    """

    undone = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._deleted: list[tuple[int, str]] = []
        self._line = StatusLine()
        self._undo = QPushButton("Undo")
        self._undo.clicked.connect(self.undo)
        self._close = QToolButton()
        self._close.setAutoRaise(True)
        self._close.setAccessibleName("Close")
        self._close.setToolTip("Close")
        self._close.clicked.connect(self.forget)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 6, 6, 6)
        row.setSpacing(6)
        row.addWidget(self._line, 1)
        row.addWidget(self._undo)
        row.addWidget(self._close)
        self.setAccessibleName("Deleted")
        self._recolour()
        self.hide()

    @property
    def text(self) -> str:
        """The text of the bar."""
        return self._line.text

    def add(self, thing: int, title: str) -> None:
        """Offer to undo this deletion."""
        self._deleted.append((thing, title))
        self._refresh()

    def remove(self, thing: int) -> None:
        """Offer it no longer, as it is still or again there."""
        self._deleted = [deleted for deleted in self._deleted if deleted[0] != thing]
        self._refresh()

    def undo(self) -> None:
        """Ask for the last deletion to be undone."""
        if self._deleted:
            thing, _ = self._deleted.pop()
            self._refresh()
            self.undone.emit(thing)

    def forget(self) -> None:
        """Offer nothing any longer."""
        self._deleted.clear()
        self._refresh()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._recolour()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.setPen(QColor(colours.edge))
            painter.drawLine(0, 0, self.width(), 0)

    def _refresh(self) -> None:
        if not self._deleted:
            self.hide()
            return
        _, title = self._deleted[-1]
        self._line.say(f"Deleted: {title}")
        self._line.setToolTip(title)
        self._undo.setAccessibleName(f"Undo deleting {title}")
        self.show()

    def _recolour(self) -> None:
        colours = colours_of(self)
        self._close.setIcon(sign_icon("close", ink=colours.muted, faint=colours.edge))
