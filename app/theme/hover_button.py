"""A small button that is hidden until the pointer is near. The keyboard always reaches it."""

from PySide6.QtCore import QSize, Qt, QTimer
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QToolButton, QWidget

from app.theme.style import colours_of, small_font

BESIDE = 7  # pixels next to the text
_ACKNOWLEDGED_MILLISECONDS = 2000


class HoverButton(QToolButton):
    """A text that can be pressed. It is painted only while it is awake or has the focus.

    It keeps its place while it is hidden, so that nothing moves when it appears.
    """

    def __init__(self, text: str, font: QFont, *, parent: QWidget) -> None:
        """`font` is the text's around it, which is larger."""
        super().__init__(parent)
        self.setText(text)
        self.setAccessibleName(text)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self._awake = True
        self._raised = False
        self._thanks = QTimer(self, singleShot=True, interval=_ACKNOWLEDGED_MILLISECONDS)
        self._thanks.timeout.connect(self.update)
        self.follow_font(font)

    def follow_font(self, font: QFont) -> None:
        """Use this font in a smaller size."""
        self.setFont(small_font(font))
        self.resize(self.sizeHint())
        self.update()

    @property
    def awake(self) -> bool:
        """Whether the button is painted."""
        return self._awake or self.hasFocus() or self.acknowledged

    @property
    def acknowledged(self) -> bool:
        """Whether a check mark replaces the text."""
        return self._thanks.isActive()

    def acknowledge(self) -> None:
        """Show a check mark for two seconds."""
        self._thanks.start()
        self.update()

    def set_raised(self) -> None:
        """Give the button a surface and an edge, because it lies over text."""
        self._raised = True

    def set_awake(self, awake: bool) -> None:
        """Paint the button, or hide it."""
        if awake != self._awake:
            self._awake = awake
            self.update()

    def sizeHint(self) -> QSize:
        size = self.fontMetrics().size(0, self.text())
        return QSize(size.width() + 2 * BESIDE, size.height() + 6)

    minimumSizeHint = sizeHint

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self.awake:
            return
        painter, colours = QPainter(self), colours_of(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = self.rect().toRectF().adjusted(1, 1, -1, -1)
        if self._raised:
            painter.setBrush(QColor(colours.paper))
            painter.setPen(QColor(colours.bar))
            painter.drawRoundedRect(box, 8, 8)
        painter.setPen(Qt.PenStyle.NoPen)
        if self.isEnabled() and (self.underMouse() or self.isDown() or self.isChecked()):
            painter.setBrush(QColor(colours.hover))
            painter.drawRoundedRect(box, 5, 5)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QColor(colours.link))
            painter.drawRoundedRect(box, 5, 5)
        strong = (self.underMouse() or self.isChecked()) and self.isEnabled()
        painter.setPen(QColor(colours.text if strong else colours.muted))
        if not self.isEnabled():
            painter.setOpacity(0.4)
        if self.acknowledged:
            painter.setPen(QColor(colours.accepted))
        words = "\u2713" if self.acknowledged else self.text()
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, words)
