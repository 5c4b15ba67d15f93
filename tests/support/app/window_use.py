"""A user's actions in a window, and the results to be seen there."""

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QListView, QPushButton

from app.choice_box import ChoiceBox
from app.models.pages import PageStatus
from app.models.rows import LibraryRow, Rows
from app.rounds.figures import Figure
from app.rounds.panel import FigureView, RoundsPanel
from app.theme.labels import ToneLabel
from app.window import Window


def send(window: Window, text: str) -> None:
    """Type a message, and send it."""
    QTest.keyClicks(window.composer.field, text)
    QTest.keyClick(window.composer.field, Qt.Key.Key_Return)


def texts(window: Window) -> list[str]:
    """The messages, as they are written."""
    return [message.written for message in window.transcript.messages]


def answered(window: Window, count: int) -> Callable[[], bool]:
    """Whether this many messages are there, and none is being written."""
    return lambda: len(texts(window)) == count and not window.conversation.busy


def visible_list(window: Window) -> QListView:
    """The list of the sidebar: the conversations, or what a search found."""
    return next(view for view in window.findChildren(QListView) if view.isVisible())


def box(window: Window, name: str) -> ChoiceBox:
    """A box of the pair bar."""
    boxes = window.pair_bar.findChildren(ChoiceBox)
    return next(one for one in boxes if one.accessibleName() == name)


def choose(window: Window, name: str, text: str) -> None:
    """Choose in a box of the pair bar, as a user does."""
    chooser = box(window, name)
    place = chooser.findText(text)
    assert place >= 0
    chooser.setCurrentIndex(place)
    chooser.activated.emit(place)


def drafting(window: Window) -> tuple[str, str]:
    """The drafter and the draft length that are loaded."""
    loaded = window.loader.loaded
    return (loaded.drafter, loaded.draft_length) if loaded else ("", "")


def row_of(rows: Rows, key: str) -> LibraryRow:
    """A row of the Library."""
    return next(one for one in rows.rows if one.data.key == key)


def button_of(row: LibraryRow, name: str) -> QPushButton:
    """The button of an action, as it is seen."""
    text = next(action.text for action in row.data.actions if action.name == name)
    # The newest: one that was replaced is there until the event loop turns.
    return [one for one in row.findChildren(QPushButton) if one.text() == text][-1]


def words_of(page: PageStatus) -> str:
    """What a page of the Library says in place of rows; empty if it says nothing."""
    return "" if page.kind == "none" else str(page.findChild(ToneLabel).text())  # type: ignore[union-attr]


def ink_of(label: QLabel) -> str:
    """The colour of a label's text."""
    return label.palette().color(label.foregroundRole()).name()


def figure(panel: RoundsPanel, key: str) -> Figure:
    """What one of the panel's views shows."""
    return next(view.figure for view in panel.findChildren(FigureView) if view.key == key)
