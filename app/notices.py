"""Notices to the person, each with a remedy if there is one. Knows nothing of their causes."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QHBoxLayout,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.theme.card import Card
from app.theme.labels import StatusLine, Tone
from models.in_words import clean

_MOST_SHOWN = 2  # at once: more would cover what is being written


@dataclass(frozen=True, slots=True)
class Offer:
    """What a button of a notice says and does."""

    label: str
    act: Callable[[], None]


class Notices(QWidget):
    """Has one notice for each open matter, and shows the two that matter most: warnings, and what
    asks for a decision, before news. Takes no room while there is none."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[str, Notice] = {}
        self._all = False  # the person wants to see all of them
        self._more = _quiet_button()
        self._more.clicked.connect(self._show_all)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(6)
        self._column.addWidget(self._more, 0, Qt.AlignmentFlag.AlignRight)
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
        """Show a notice on a matter in place of an earlier one, for `seconds` if they are given.

        The person can dismiss the notice, by a button that says `dismissal`, unless it is
        `lasting`. One `of_conversation` leaves when another conversation is opened.
        """
        self.take_back(matter)
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
            QWidget.setTabOrder(before, after)  # else Tab would come to it last of all
        self._choose()
        _announce(self, text)
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
        """Another conversation is open: remove what was about the one before."""
        for matter in [matter for matter, line in self._lines.items() if line.of_conversation]:
            self.take_back(matter)

    def press(self, matter: str) -> None:
        """Do what the notice on a matter offers."""
        self._lines[matter].press()

    def _show_all(self) -> None:
        self._all = True
        self._choose()

    def _choose(self) -> None:
        """Show the notices that matter most."""
        self._all = self._all and len(self._lines) > _MOST_SHOWN
        newest_first = reversed(self._lines.values())
        chosen = sorted(newest_first, key=lambda line: line.urgent, reverse=True)[:_MOST_SHOWN]
        for line in self._lines.values():
            line.setVisible(self._all or line in chosen)
        hidden = 0 if self._all else len(self._lines) - len(chosen)
        self._more.setText(f"{hidden} more {'notice' if hidden == 1 else 'notices'}")
        self._more.setVisible(hidden > 0)
        self.setVisible(bool(self._lines))

    def _expire(self, matter: str, line: "Notice") -> None:
        if self._lines.get(matter) is line:
            self.take_back(matter)


class Notice(Card):
    """A line of text, with a button for what is offered.

    Attributes: `text`; `urgent`, whether it warns or asks for a decision; `of_conversation`,
    whether it leaves with the conversation; `buttons`.
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
        """`dismissal` is what the button for `dismiss` says; empty for none."""
        super().__init__()
        self.text = clean(text)
        self.urgent = tone == "warning" or not dismissal or offer is not None
        self.of_conversation = False
        self._offer, self._dismiss = offer, dismiss
        line = StatusLine(wraps=True)
        line.say(self.text, tone)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 6, 6, 6)
        row.setSpacing(8)
        row.addWidget(line, 1)
        self.buttons: list[QAbstractButton] = []  # in the order of Tab
        if offer is not None:
            button = QPushButton(offer.label)
            button.clicked.connect(self.press)
            row.addWidget(button)
            self.buttons.append(button)
        if dismissal:
            close = _quiet_button()
            close.setText(dismissal)
            close.setAccessibleDescription("Removes this notice")
            close.clicked.connect(lambda: dismiss())
            row.addWidget(close)
            self.buttons.append(close)
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


def _quiet_button() -> QToolButton:
    """A button without a frame until it is pointed at or has the focus."""
    button = QToolButton()
    button.setAutoRaise(True)
    return button


def _announce(widget: QWidget, text: str) -> None:
    """Have a screen reader say it."""
    if QAccessible.isActive():
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, text))
