"""A switch. Knows whether it is on; not its purpose."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy

from app.theme.style import colours_of


class Switch(QAbstractButton):
    """On or off, without a label. Attribute: `failed`: it is switched on but does not work."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.failed = False
        self.setCheckable(True)
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        return QSize(46, 28)

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, on = colours_of(self), self.isChecked()
        whole = QRectF(self.rect()).adjusted(3, 3, -3, -3)
        track = colours.card
        if on:
            track = colours.warning if self.failed else colours.accepted
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            if not self.isEnabled():
                painter.setOpacity(0.4)
            painter.setPen(QPen(QColor(track if on else colours.bar), 1.5))
            painter.setBrush(QColor(track))
            painter.drawRoundedRect(whole, whole.height() / 2, whole.height() / 2)
            size = whole.height() - 6
            left = whole.right() - size - 3 if on else whole.left() + 3
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colours.paper if on else colours.bar))
            painter.drawEllipse(QRectF(left, whole.top() + 3, size, size))
            if self.hasFocus():
                painter.setPen(QPen(QColor(colours.link), 2))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                ring = QRectF(self.rect()).adjusted(1, 1, -1, -1)
                painter.drawRoundedRect(ring, ring.height() / 2, ring.height() / 2)
