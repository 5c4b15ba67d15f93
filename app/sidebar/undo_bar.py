"""Shows the last deletion, archiving or move, with a button that undoes it.

It stays until it is closed, so that no one needs to be quick.
"""

from operator import itemgetter

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QPushButton, QWidget

from app.layout import row_of
from app.theme.icons import sign_icon
from app.theme.labels import StatusLine, plain_tip
from app.theme.style import colours_of, sign_button


class UndoBar(QWidget):
    """Hidden while there is nothing to undo. The last change is undone first.

    Signals: `undone(object)`: undo this change; `changed`: the offer changed.
    """

    undone = Signal(object)
    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._changes: list[tuple[int, object, str]] = []  # numbered
        self._asked: list[tuple[int, object, str]] = []  # changes that are being undone
        self._line = StatusLine()
        self._undo = QPushButton("Undo")
        self._undo.clicked.connect(self.undo)
        self._close = sign_button("", "Close", self.forget)
        row_of((self._line, 1), self._undo, self._close, on=self, margins=(12, 6, 6, 6), gap=6)
        self.setAccessibleName("Undo")
        self._recolour()
        self.hide()

    @property
    def text(self) -> str:
        """The description of the last change; empty if there is none."""
        return self._changes[-1][2] if self._changes else ""

    def add(self, change: object, text: str) -> None:
        """Offer to undo this change, which `text` describes."""
        self._changes.append((len(self._changes) + len(self._asked), change, text))
        self._refresh()

    def undo(self) -> None:
        """Ask for the last change to be undone."""
        if self._changes:
            self._asked.append(self._changes.pop())
            self._refresh()
            self.undone.emit(self._asked[-1][1])

    def put_back(self, change: object) -> None:
        """Offer again to undo this change, which could not be undone."""
        self._changes += [offer for offer in self._asked if offer[1] is change]
        self._changes.sort(key=itemgetter(0))
        self._asked = [offer for offer in self._asked if offer[1] is not change]
        self._refresh()

    def drop(self, change: object) -> None:
        """Offer no more to undo this change, which is undone or made permanent in another way."""
        self._changes = [offer for offer in self._changes if offer[1] != change]
        self._refresh()

    def forget(self) -> None:
        """Offer nothing more."""
        self._changes.clear()
        self._asked.clear()
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
        text = self.text
        self._line.say(text)
        self._line.setToolTip(plain_tip(text))
        self._undo.setAccessibleName(f"Undo. {text}")
        self.setVisible(bool(text))
        self.changed.emit()

    def _recolour(self) -> None:
        colours = colours_of(self)
        self._close.setIcon(sign_icon("close", ink=colours.muted, faint=colours.edge))
