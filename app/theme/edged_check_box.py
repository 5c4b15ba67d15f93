"""A check box whose edge is visible on a dark window too."""

from PySide6.QtGui import QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QCheckBox, QStyle, QStyleOptionButton


class EdgedCheckBox(QCheckBox):
    """A check box with a visible edge: Fusion's is darker than a dark window."""

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        option = QStyleOptionButton()
        self.initStyleOption(option)
        part = QStyle.SubElement.SE_CheckBoxIndicator
        box = self.style().subElementRect(part, option, self)
        with QPainter(self) as painter:
            painter.setPen(self.palette().color(QPalette.ColorRole.Shadow))
            painter.drawRect(box.adjusted(0, 0, -1, -1))
