"""A small button that is not seen until it is wanted, and can always be reached by keyboard."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QToolButton, QWidget

from app.markdown.formats import Formats


class QuietButton(QToolButton):
    """Text that can be pressed. Not painted while it is asleep, unless it has the focus.

    It keeps its place while it is not painted, so that nothing moves when it comes.
    """

    def __init__(self, text: str, *, parent: QWidget, formats: Formats) -> None:
        super().__init__(parent)
        self.setText(text)
        self.setAccessibleName(text)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self._awake = True
        self._raised = False
        self.set_formats(formats)

    def set_formats(self, formats: Formats) -> None:
        """Other colours or another font."""
        self._colours = formats.colours
        font = formats.font.__class__(formats.font)
        font.setPointSizeF(font.pointSizeF() * 0.85)
        self.setFont(font)
        self.resize(self.sizeHint())
        self.update()

    @property
    def awake(self) -> bool:
        """Whether it is painted."""
        return self._awake or self.hasFocus()

    def set_raised(self) -> None:
        """Give it a paper and an edge: for a button that lies over text."""
        self._raised = True

    def set_awake(self, awake: bool) -> None:
        """Paint it, or not."""
        if awake != self._awake:
            self._awake = awake
            self.update()

    def sizeHint(self) -> QSize:
        size = self.fontMetrics().size(0, self.text())
        return QSize(size.width() + 14, size.height() + 6)

    minimumSizeHint = sizeHint

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self.awake:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = self.rect().toRectF().adjusted(1, 1, -1, -1)
        if self._raised:
            painter.setBrush(QColor(self._colours.paper))
            painter.setPen(QColor(self._colours.bar))
            painter.drawRoundedRect(box, 8, 8)
        painter.setPen(Qt.PenStyle.NoPen)
        if self.isEnabled() and (self.underMouse() or self.isDown()):
            painter.setBrush(QColor(self._colours.hover))
            painter.drawRoundedRect(box, 5, 5)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QColor(self._colours.link))
            painter.drawRoundedRect(box, 5, 5)
        strong = self.underMouse() and self.isEnabled()
        painter.setPen(QColor(self._colours.text if strong else self._colours.muted))
        if not self.isEnabled():
            painter.setOpacity(0.4)
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, self.text())
