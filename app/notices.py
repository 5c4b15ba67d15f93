"""Notices to the person, each with a remedy if there is one. Knows nothing of their causes."""

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.theme.style import colours_of
from models.in_words import clean


@dataclass(frozen=True, slots=True)
class Offer:
    """What a button of a notice says and does."""

    label: str
    act: Callable[[], None]


class Notices(QWidget):
    """Shows one notice for each open matter; takes no room while there is none."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[str, Notice] = {}
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(6)
        self.setAccessibleName("Notices")
        self.hide()

    @property
    def texts(self) -> dict[str, str]:
        """The text of each notice, by matter."""
        return {matter: line.text for matter, line in self._lines.items()}

    def say(
        self,
        matter: str,
        text: str,
        *,
        offer: Offer | None = None,
        seconds: float = 0.0,
        lasting: bool = False,
    ) -> None:
        """Show a notice on a matter in place of an earlier one, for `seconds` if they are given.

        The person can dismiss the notice unless it is `lasting`.
        """
        self.take_back(matter)
        line = Notice(text, offer, dismiss=lambda: self.take_back(matter), lasting=lasting)
        self._lines[matter] = line
        self._column.addWidget(line)
        self.show()
        if QAccessible.isActive():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, text))
        if seconds:
            QTimer.singleShot(int(seconds * 1000), line, lambda: self._expire(matter, line))

    def take_back(self, matter: str) -> None:
        """Remove the notice on a matter, if there is one."""
        line = self._lines.pop(matter, None)
        if line is not None:
            self._column.removeWidget(line)
            line.hide()
            line.deleteLater()
        self.setVisible(bool(self._lines))

    def press(self, matter: str) -> None:
        """Do what the notice on a matter offers."""
        self._lines[matter].press()

    def _expire(self, matter: str, line: "Notice") -> None:
        if self._lines.get(matter) is line:
            self.take_back(matter)


class Notice(QWidget):
    """A line of text, with a button for what is offered."""

    def __init__(
        self, text: str, offer: Offer | None, *, dismiss: Callable[[], None], lasting: bool
    ) -> None:
        super().__init__()
        self.text = clean(text)
        self._offer, self._dismiss = offer, dismiss
        self._label = QLabel(self.text)
        self._label.setTextFormat(Qt.TextFormat.PlainText)
        self._label.setWordWrap(True)
        self._label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 6, 6, 6)
        row.setSpacing(8)
        row.addWidget(self._label, 1)
        if offer is not None:
            button = QPushButton(offer.label)
            button.clicked.connect(self.press)
            row.addWidget(button)
        if not lasting:
            close = QPushButton("Dismiss")
            close.setFlat(True)
            close.setAccessibleName("Dismiss this notice")
            close.clicked.connect(dismiss)
            row.addWidget(close)
        self.setAccessibleName(self.text)

    def press(self) -> None:
        """Remove the notice and do what it offers."""
        self._dismiss()
        if self._offer is not None:
            self._offer.act()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setBrush(QColor(colours.card))
            painter.setPen(QColor(colours.edge))
            painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colours.warning))
            painter.drawRoundedRect(4, 8, 3, self.height() - 16, 1.5, 1.5)
