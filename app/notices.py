"""Notices to the user, each with a remedy if there is one. Knows nothing of their causes."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QPushButton,
    QToolButton,
    QWidget,
)

from app.layout import column_of, row_of
from app.theme.labels import StatusLine, Tone
from app.theme.widgets import Card
from models.in_words import clean


@dataclass(frozen=True, slots=True)
class Offer:
    """The button of a notice: its text and its function."""

    label: str
    act: Callable[[], None]


class Notices(QWidget):
    """Has one notice for each open matter, and shows the most important: a warning or a question
    before news. Hidden without notices."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[str, Notice] = {}
        self._all = False  # the user asked to see all of them
        self._more = _quiet_button()
        self._more.clicked.connect(self._show_all)
        self._column = column_of(
            (self._more, Qt.AlignmentFlag.AlignRight), on=self, margins=0, gap=6
        )
        self.setAccessibleName("Notices")
        self.hide()

    @property
    def texts(self) -> dict[str, str]:
        """The text of each notice, by matter."""
        return {matter: line.text for matter, line in self._lines.items()}

    @property
    def shown(self) -> tuple[str, ...]:
        """The matters whose notices are in sight."""
        return tuple(matter for matter, line in self._lines.items() if not line.isHidden())

    def say(
        self,
        matter: str,
        text: str,
        tone: Tone = "muted",
        *,
        offer: Offer | None = None,
        seconds: float = 0.0,
        lasting: bool = False,
        dismissal: str = "Dismiss",
        of_conversation: bool = False,
    ) -> None:
        """Show a notice on a matter, replacing an earlier one; for `seconds` if they are given.

        The user can dismiss it, with a button labelled `dismissal`, unless it is `lasting`. A
        notice `of_conversation` disappears when another conversation is opened. Of two notices, one
        with all of the other's text is enough.
        """
        announce(self, text)
        for other, line in tuple(self._lines.items()):
            if other != matter and clean(text) in line.text:
                return
            if other == matter or line.text in text:
                self.take_back(other)
        line = Notice(
            text,
            tone,
            offer,
            dismiss=lambda: self.take_back(matter),
            dismissal="" if lasting else dismissal,
        )
        line.of_conversation = of_conversation
        self._lines[matter] = line
        self._column.insertWidget(self._column.count() - 1, line)
        for before, after in pairwise((self._more, *line.buttons)):
            QWidget.setTabOrder(before, after)  # otherwise Tab would reach it last of all
        self._choose()
        if seconds:
            QTimer.singleShot(int(seconds * 1000), line, lambda: self._expire(matter, line))

    def take_back(self, matter: str) -> None:
        """Remove the notice on a matter, if there is one."""
        line = self._lines.pop(matter, None)
        if line is not None:
            self._column.removeWidget(line)
            line.hide()
            line.deleteLater()
        self._choose()

    def leave_conversation(self) -> None:
        """Another conversation is open: remove the notices of the one before."""
        for matter in [matter for matter, line in self._lines.items() if line.of_conversation]:
            self.take_back(matter)

    def press(self, matter: str) -> None:
        """Press the button of the notice on a matter."""
        self._lines[matter].press()

    def _show_all(self) -> None:
        self._all = True
        self._choose()

    def _choose(self) -> None:
        """Show the newest of the most important notices, or all of them."""
        self._all = self._all and len(self._lines) > 1
        newest_first = reversed(self._lines.values())
        chosen = max(newest_first, key=lambda line: line.urgent, default=None)
        for line in self._lines.values():
            line.setVisible(self._all or line is chosen)
        hidden = 0 if self._all else max(0, len(self._lines) - 1)
        self._more.setText(f"{hidden} more {'notice' if hidden == 1 else 'notices'}")
        self._more.setVisible(hidden > 0)
        self.setVisible(bool(self._lines))

    def _expire(self, matter: str, line: "Notice") -> None:
        if self._lines.get(matter) is line:
            self.take_back(matter)


class Notice(Card):
    """A line of text, with a button if there is an offer.

    Attributes: `text`; `urgent`, whether it warns or asks a question; `of_conversation`, whether it
    disappears with the conversation; `buttons`.
    """

    def __init__(
        self,
        text: str,
        tone: Tone,
        offer: Offer | None,
        *,
        dismiss: Callable[[], None],
        dismissal: str,
    ) -> None:
        """`dismissal` is the label of the button that dismisses it; empty for no button."""
        super().__init__()
        self.text = clean(text)
        self.urgent = tone == "warning" or not dismissal or offer is not None
        self.of_conversation = False
        self._offer, self._dismiss = offer, dismiss
        line = StatusLine(wraps=True)
        line.say(self.text, tone)
        self.buttons: list[QAbstractButton] = []  # in the order of Tab
        if offer is not None:
            button = QPushButton(offer.label)
            button.clicked.connect(self.press)
            self.buttons.append(button)
        if dismissal:
            close = _quiet_button()
            close.setText(dismissal)
            close.setAccessibleDescription("Dismiss this notice")
            close.clicked.connect(lambda: dismiss())
            self.buttons.append(close)
        row_of((line, 1), *self.buttons, on=self, margins=(12, 6, 6, 6), gap=8)
        self.setAccessibleName(self.text)

    def press(self) -> None:
        """Remove the notice, and carry out its offer."""
        self._dismiss()
        if self._offer is not None:
            self._offer.act()


def _quiet_button() -> QToolButton:
    """Return a button without a frame until it is pointed at or focused."""
    button = QToolButton()
    button.setAutoRaise(True)
    return button


def announce(widget: QWidget, text: str) -> None:
    """Have a screen reader speak the text."""
    if QAccessible.isActive():
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, text))
