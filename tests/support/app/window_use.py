"""A person's actions in a window, and what is to be seen there afterwards."""

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QListView

from app.choice_box import ChoiceBox
from app.window import Window


def send(window: Window, text: str) -> None:
    """Type a message, and send it."""
    QTest.keyClicks(window.composer.field, text)
    QTest.keyClick(window.composer.field, Qt.Key.Key_Return)


def texts(window: Window) -> list[str]:
    """The messages, as they are written."""
    return [message.written for message in window.transcript.messages]


def answered(window: Window, count: int) -> Callable[[], bool]:
    """Whether so many messages are there, and none is being written."""
    return lambda: len(texts(window)) == count and not window.conversation.busy


def visible_list(window: Window) -> QListView:
    """The list of the sidebar: the conversations, or what a search found."""
    return next(view for view in window.findChildren(QListView) if view.isVisible())


def box(window: Window, name: str) -> ChoiceBox:
    """A box of the pair bar."""
    boxes = window.pair_bar.findChildren(ChoiceBox)
    return next(one for one in boxes if one.accessibleName() == name)


def choose(window: Window, name: str, text: str) -> None:
    """Choose in a box of the pair bar, as a person does."""
    chooser = box(window, name)
    place = chooser.findText(text)
    assert place >= 0
    chooser.setCurrentIndex(place)
    chooser.activated.emit(place)


def drafting(window: Window) -> tuple[str, str]:
    """The drafter and the draft length that are loaded."""
    loaded = window.loader.loaded
    return (loaded.drafter, loaded.draft_length) if loaded else ("", "")
