"""A user's actions in a window, and the results to be seen there."""

from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QListView, QPushButton

from app.choice_box import ChoiceBox
from app.rounds.panel import FigureView
from app.theme.labels import ToneLabel


def send(window, text):
    """Type a message, and send it."""
    QTest.keyClicks(window.composer.field, text)
    QTest.keyClick(window.composer.field, Qt.Key.Key_Return)


def settle(transcript):
    """Let everything happen that is waiting, and all be written."""
    for _ in range(3):
        QCoreApplication.processEvents()
        transcript.write_all()


def texts(window):
    """The messages, as they are written."""
    return [message.written for message in window.transcript.messages]


def answered(window, count):
    """Whether this many messages are there, and none is being written."""
    return lambda: len(texts(window)) == count and not window.conversation.busy


def visible_list(window):
    """The list of the sidebar: the conversations, or what a search found."""
    return next(view for view in window.findChildren(QListView) if view.isVisible())


def box(window, name):
    """A box of the pair bar."""
    boxes = window.pair_bar.findChildren(ChoiceBox)
    return next(one for one in boxes if one.accessibleName() == name)


def choose(window, name, text):
    """Choose in a box of the pair bar, as a user does."""
    chooser = box(window, name)
    place = chooser.findText(text)
    assert place >= 0
    chooser.setCurrentIndex(place)
    chooser.activated.emit(place)


def drafting(window):
    """The drafter and the draft length that are loaded."""
    loaded = window.loader.loaded
    return (loaded.drafter, loaded.draft_length) if loaded else ("", "")


def row_of(rows, key):
    """A row of the Library."""
    return next(one for one in rows.rows if one.data.key == key)


def button_of(row, name):
    """The button of an action, as it is seen."""
    text = next(action.text for action in row.data.actions if action.name == name)
    # The newest: one that was replaced is there until the event loop turns.
    return [one for one in row.findChildren(QPushButton) if one.text() == text][-1]


def words_of(page):
    """What a page of the Library says in place of rows; empty if it says nothing."""
    return "" if page.kind == "none" else str(page.findChild(ToneLabel).text())


def figure(panel, key):
    """What one of the panel's views shows."""
    return next(view.figure for view in panel.findChildren(FigureView) if view.key == key)


def let_go(application, *windows):
    """Delete closed windows and all that they share, which else stay to the end of the process:
    each collection of garbage would go through it."""
    shared = (application.engine, application.loader, application.server, application.library)
    for each in (*windows, application, application.theme, *shared):
        each.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QCoreApplication.processEvents()
