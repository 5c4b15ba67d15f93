"""A ring around the widget with the keyboard's focus, if its style draws none.

Knows focus and colours; not what the widget shows.
"""

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QColor, QFocusEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.theme.style import colours_of

_BY_KEYBOARD = (
    Qt.FocusReason.TabFocusReason,
    Qt.FocusReason.BacktabFocusReason,
    Qt.FocusReason.ShortcutFocusReason,
    Qt.FocusReason.OtherFocusReason,
)


class FocusRing(QObject):
    """Shows the ring while `part` has the focus. It is drawn on the edge of `around`."""

    def __init__(self, part: QWidget, *, around: QWidget | None = None) -> None:
        super().__init__(part)
        self._around = around or part
        self._ring: _Ring | None = None  # made when first needed
        part.installEventFilter(self)
        if self._around is not part:
            self._around.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        match event.type():
            case QEvent.Type.FocusIn if watched is self.parent():
                assert isinstance(event, QFocusEvent)
                if event.reason() in _BY_KEYBOARD:
                    self._show()
            case QEvent.Type.FocusOut if watched is self.parent() and self._ring is not None:
                self._ring.hide()
            case QEvent.Type.Resize if watched is self._around and self._ring is not None:
                self._ring.setGeometry(self._around.rect())
        return super().eventFilter(watched, event)

    def _show(self) -> None:
        if self._ring is None:
            self._ring = _Ring(self._around)
        self._ring.setGeometry(self._around.rect())
        self._ring.raise_()
        self._ring.show()


class _Ring(QWidget):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(colours_of(self).link), 2))
            painter.drawRoundedRect(self.rect().toRectF().adjusted(1, 1, -1, -1), 8, 8)
