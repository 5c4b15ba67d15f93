"""The bar to find words in the open conversation: a field, a count, and buttons to move on.

Shows a search; does not search.
"""

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QLineEdit, QSizePolicy, QWidget

from app.layout import FREE, row_of
from app.theme.labels import plain_label
from app.theme.style import colours_of, figures_font, sign_button, small_font

_WIDEST_FIELD = 360  # pixels


class FindBar(QWidget):
    """Attribute: `field`.

    Signals:
        changed(str): find this text.
        step_asked(int): go to the next hit (1) or the one before (-1).
        closed: close the bar.
    """

    step_asked = Signal(int)
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Find in this conversation")
        self.field = QLineEdit()
        self.changed = self.field.textChanged
        self.field.setPlaceholderText("Find in this conversation")
        self.field.setAccessibleName("Find in this conversation")
        self.field.setClearButtonEnabled(True)
        self.field.setMaxLength(500)
        self.field.setMaximumWidth(_WIDEST_FIELD)
        self._count = plain_label()
        self._count.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        step = self.step_asked.emit
        self._before = sign_button("\u2039", "Previous", lambda: step(-1), keys="Shift+Enter")
        self._after = sign_button("\u203a", "Next", lambda: step(1), keys="Enter")
        self._close = sign_button("\u00d7", "Close", lambda: self.closed.emit(), keys="Esc")
        parts = ((self.field, 1), self._count, self._before, self._after, FREE, self._close)
        row_of(*parts, on=self, margins=(16, 6, 10, 6), gap=6)
        self._show_fonts()
        self.set_count(0, 0, looking=False)
        self.hide()

    def set_count(self, number: int, total: int, *, looking: bool) -> None:
        """Show that hit `number` of `total` is current; 0 for none. `looking`: there may be
        more."""
        more = "\u2026" if looking else ""
        if total:
            words = f"{number:,} of {total:,}{more}" if number else f"{total:,}{more}"
        elif self.field.text().strip():
            words = "Looking\u2026" if looking else "None"
        else:
            words = ""
        self._count.setText(words)
        self._count.setAccessibleName(f"Found: {words}" if words else "")
        # Never narrower than before, so that the buttons stay under the pointer.
        wanted = self._count.fontMetrics().horizontalAdvance(words) + 4
        self._count.setFixedWidth(max(wanted, self._count.width() if words else 0, self._least))
        for button in (self._before, self._after):
            button.setEnabled(total > 0)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.step_asked.emit(-1 if back else 1)
        elif event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._show_fonts()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        colours = colours_of(self)
        painter.fillRect(self.rect(), QColor(colours.card))
        painter.fillRect(0, self.height() - 1, self.width(), 1, QColor(colours.edge))

    def _show_fonts(self) -> None:
        self._count.setFont(figures_font(small_font(self.font(), scale=0.9)))
        self._least = self._count.fontMetrics().horizontalAdvance("00 of 000")
