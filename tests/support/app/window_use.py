"""A user's actions in a window, and the results to be seen there."""

from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QListView, QPushButton

from app.choice_box import ChoiceBox
from app.conversations.records import Entry, ExportedChat
from app.rounds.panel import FigureView
from app.sidebar.conversation_list import ConversationList
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


def fill(application, count):
    """Store this many conversations, the newest with the highest number, and list them."""
    said = (Entry(parent=None, role="user", content="on"),)
    chats = [ExportedChat(title=f"Chat {n}", entries=said, leaf=0) for n in range(1, count + 1)]
    application.store.add(chats).result()
    application.listing.refresh()


def listed(window):
    """The lines of the list of conversations."""
    model = part(window, ConversationList).model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def visible_list(window):
    """The list of the sidebar: the conversations, or what a search found."""
    return next(view for view in window.findChildren(QListView) if view.isVisible())


def part(of, kind, name=""):
    """The only part of a kind below a widget, with this accessible name or on this button."""

    def is_it(one):
        on_it = one.text().replace("&", "") if isinstance(one, QAbstractButton) else None
        return not name or name in (one.accessibleName(), on_it)

    (found,) = (one for one in of.findChildren(kind) if is_it(one))
    return found


def pick(box, text):
    place = box.findText(text)
    assert place >= 0, text
    box.setCurrentIndex(place)
    box.activated.emit(place)


def box(window, name):
    return part(window.pair_bar, ChoiceBox, name)


def choose(window, name, text):
    pick(box(window, name), text)


def drafting(window):
    """The drafter and the draft length that are loaded."""
    loaded = window.loader.loaded
    return (loaded.drafter, loaded.draft_length) if loaded else ("", "")


def row_of(rows, key):
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
