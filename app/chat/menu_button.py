"""A button of the composer that opens a menu. Knows how it looks; not its choices."""

from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QMenu

from app.theme.icons import draw_behind
from app.theme.style import colours_of

_OPENS = " \u25be"


class MenuButton(QAbstractButton):
    """Opens what `choices_menu` returns, above it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.clicked.connect(self._open)

    def choices_menu(self) -> QMenu:
        """Return the menu with the choices."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        return menu

    def say(self, text: str, *, name: str) -> None:
        """Show this text, with a name for screen readers."""
        self.setText(text)
        self.setAccessibleName(name)
        self.updateGeometry()
        self.update()

    def _open(self) -> None:
        menu = self.choices_menu()
        menu.popup(self.mapToGlobal(QPoint(0, -menu.sizeHint().height())))

    def sizeHint(self) -> QSize:
        return QSize(self.fontMetrics().horizontalAdvance(self.text() + _OPENS) + 16, 28)

    minimumSizeHint = sizeHint

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, box = colours_of(self), self.rect().toRectF().adjusted(1, 1, -1, -1)
        with QPainter(self) as painter:
            painter.setPen(QColor(draw_behind(painter, self, box, colours)))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, self.text() + _OPENS)
