"""The sidebar: all conversations, a search through them, and the commands for one of them.

Knows the store's records, not the store: requests go out as signals, and their receiver sets the
new list. A deletion can be undone at once.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from PySide6.QtCore import QEvent, QModelIndex, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QPushButton,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.activity import Activity
from app.conversations.records import Conversation, Hit
from app.sidebar.conversation_list import ConversationList, FlatList
from app.sidebar.conversation_model import HIT, ConversationModel, HitModel, title_of
from app.sidebar.conversation_rows import ConversationRows, HitRows
from app.sidebar.undo_bar import UndoBar
from app.theme.icons import sign_icon
from app.theme.style import colours_of

_SEARCH_AFTER_MILLISECONDS = 150  # after the last key


class Sidebar(QWidget):
    """The conversations. The actions may be put into menus; their shortcuts work here already.

    Attributes: new_action, find_action, rename_action, pin_action, delete_action, undo_action,
        export_markdown_action, export_json_action, import_action.

    Signals:
        chosen(int): show this conversation.
        hit_chosen(int, object): show this message of this conversation; None for its start.
        new_asked: start a conversation.
        renamed(int, str), pinned(int, bool), deleted(int): do that, then `set_conversations`.
        restored(int): undo a deletion.
        export_asked(int, str): "markdown" or "json".
        import_asked: ask for a file.
        search_changed(str): search, then `set_hits`; not emitted for an empty text.
    """

    chosen = Signal(int)
    hit_chosen = Signal(int, object)
    new_asked = Signal()
    renamed = Signal(int, str)
    pinned = Signal(int, bool)
    deleted = Signal(int)
    restored = Signal(int)
    export_asked = Signal(int, str)
    import_asked = Signal()
    search_changed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._waiting: tuple[Conversation, ...] | None = None
        self._menu_open = False  # then commands are about the list's current line
        self._model = ConversationModel(self)
        self._found = HitModel(self)
        self._list = ConversationList()
        self._hits = FlatList("Found")
        self._search = QLineEdit()
        self._new = QPushButton("New conversation")
        self._more = QToolButton()
        self._undo = UndoBar()
        self._pages = QStackedWidget()
        self._timer = QTimer(self, singleShot=True, interval=_SEARCH_AFTER_MILLISECONDS)
        self._make_actions()
        self._arrange()
        self._connect()
        self._recolour()
        self.setAccessibleName("Conversations")
        self.set_conversations(())

    def _make_actions(self) -> None:
        def make(text: str, act: Callable[[], None], *keys: QKeySequence) -> QAction:
            action = QAction(text, self)
            action.setShortcuts(list(keys))
            action.triggered.connect(lambda: act())
            return action

        standard = QKeySequence.StandardKey
        self.new_action = make("New conversation", self.new_asked.emit, QKeySequence(standard.New))
        self.find_action = make(
            "Search all conversations", self.begin_search, QKeySequence(standard.Find)
        )
        self.import_action = make("Import conversations…", self.import_asked.emit)
        self.rename_action = make("Rename", self._rename, QKeySequence(Qt.Key.Key_F2))
        self.pin_action = make("Pin", self._pin)
        self.delete_action = make(
            "Delete", self._delete, QKeySequence(Qt.Key.Key_Delete), QKeySequence("Ctrl+Backspace")
        )
        self.undo_action = make("Undo delete", self._undo.undo)
        self.export_markdown_action = make("Export as Markdown…", lambda: self._export("markdown"))
        self.export_json_action = make("Export as JSON…", lambda: self._export("json"))
        self.addActions([self.new_action, self.find_action])
        for action in (self.rename_action, self.delete_action):
            # These keys have other meanings elsewhere in the window.
            action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
            self._list.addAction(action)

    def _arrange(self) -> None:
        self._list.setModel(self._model)
        self._list.setItemDelegate(ConversationRows(self._list))
        self._hits.setModel(self._found)
        self._hits.setItemDelegate(HitRows(self._hits))
        self._hits.setUniformItemSizes(True)
        self._pages.addWidget(self._list)
        self._pages.addWidget(self._hits)
        self._search.setPlaceholderText("Search")
        self._search.setAccessibleName("Search in all conversations")
        self._search.setClearButtonEnabled(True)
        self._search.setMaxLength(500)
        self._search.setTextMargins(4, 0, 0, 0)
        self._more.setAutoRaise(True)
        self._more.setAccessibleName("More commands")
        self._more.setToolTip("Import, export and more")
        self._more.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        top = QHBoxLayout()
        top.setSpacing(6)
        top.addWidget(self._new, 1)
        top.addWidget(self._more)
        head = QVBoxLayout()
        head.setContentsMargins(10, 10, 10, 4)
        head.setSpacing(8)
        head.addLayout(top)
        head.addWidget(self._search)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 1, 0)
        column.setSpacing(0)
        column.addLayout(head)
        column.addWidget(self._pages, 1)
        column.addWidget(self._undo)
        self.setMinimumWidth(180)

    def _connect(self) -> None:
        self._new.clicked.connect(self.new_asked)
        self._more.clicked.connect(self._show_more)
        self._search.textChanged.connect(self._on_typed)
        self._timer.timeout.connect(self._ask)
        self._model.renamed.connect(self.renamed)
        self._list.chosen.connect(self._choose)
        self._list.menu_asked.connect(self._show_menu)
        self._list.edited.connect(self._on_edited)
        self._list.left_upwards.connect(self._search.setFocus)
        self._hits.chosen.connect(self._choose_hit)
        self._hits.left_upwards.connect(self._search.setFocus)
        self._undo.undone.connect(self.restored)
        self._undo.undone.connect(lambda: self._list.setFocus())

    # Contents

    def set_conversations(
        self, conversations: tuple[Conversation, ...], *, now: datetime | None = None
    ) -> None:
        """Show these in the given order, pinned ones first. `now` decides the headings.

        While a title is being edited, the new list waits.
        """
        if self._list.editing:
            self._waiting = conversations
            return
        current = self._model.conversation(self._list.currentIndex())
        scrolled = self._list.verticalScrollBar().value()
        self._model.set_conversations(conversations, now or datetime.now(UTC))
        index = self._model.index_of(current.id if current else self._model.shown)
        if index.isValid() and index != self._list.currentIndex():
            self._list.setCurrentIndex(index)
        self._list.doItemsLayout()  # headings may have changed
        self._list.verticalScrollBar().setValue(scrolled)
        self._list.say_when_empty("No conversations yet.")
        self._enable()

    def set_shown(self, conversation: int | None) -> None:
        """Mark the conversation that the transcript shows; None for one that is not listed."""
        self._model.set_shown(conversation)
        index = self._model.index_of(conversation)
        if index.isValid():
            self._list.setCurrentIndex(index)
        self._enable()

    def set_activities(self, activities: Mapping[int, Activity]) -> None:
        """Mark the conversations in which there is something to wait for, by their ids."""
        self._model.set_activities(activities)

    def set_hits(self, text: str, hits: tuple[Hit, ...]) -> None:
        """Show the hits for `text`, unless the search has changed since."""
        if text != self.query or not text:
            return
        self._found.set_hits(hits)
        self._hits.say_when_empty(f"No results for “{text}”.")
        self._pages.setCurrentWidget(self._hits)

    @property
    def query(self) -> str:
        """The text of the search; empty where the list is shown."""
        return self._search.text().strip()

    def focus_list(self) -> None:
        """Give the list the focus: the conversations, or the hits of a search."""
        searches = self._pages.currentWidget() is self._hits
        (self._hits if searches else self._list).setFocus(Qt.FocusReason.ShortcutFocusReason)

    def step(self, by: int) -> None:
        """Show the conversation before (-1) or after (+1) the one that is shown."""
        row = self._model.index_of(self._model.shown).row() + by
        while 0 <= row < self._model.rowCount():
            conversation = self._model.conversation(self._model.index(row))
            if conversation is not None:
                self.chosen.emit(conversation.id)
                return
            row += by

    def begin_search(self) -> None:
        """Put the cursor into the search field."""
        self._search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._search.selectAll()

    def begin_rename(self, conversation: int) -> None:
        """Open the editor for a title, in the list."""
        index = self._model.index_of(conversation)
        if index.isValid():
            self._search.clear()
            self._list.setCurrentIndex(index)
            self._list.setFocus()
            self._list.edit(index)

    def withdraw_undo(self, conversation: int) -> None:
        """Offer no undo for a deletion that failed."""
        self._undo.remove(conversation)

    # Requests

    def _subject(self) -> Conversation | None:
        """The conversation that a command is about: the list's current one, or the one shown."""
        index = self._list.currentIndex()
        if not index.isValid() or not (self._list.hasFocus() or self._menu_open):
            index = self._model.index_of(self._model.shown)
        return self._model.conversation(index)

    def _choose(self, index: QModelIndex) -> None:
        if (conversation := self._model.conversation(index)) is not None:
            self.chosen.emit(conversation.id)

    def _choose_hit(self, index: QModelIndex) -> None:
        hit: Hit = index.data(HIT)
        self.hit_chosen.emit(hit.conversation, hit.message)

    def _rename(self) -> None:
        if conversation := self._subject():
            self.begin_rename(conversation.id)

    def _pin(self) -> None:
        if conversation := self._subject():
            self.pinned.emit(conversation.id, not conversation.pinned)

    def _delete(self) -> None:
        if conversation := self._subject():
            self._undo.add(conversation.id, title_of(conversation))
            self.deleted.emit(conversation.id)

    def _export(self, form: str) -> None:
        if conversation := self._subject():
            self.export_asked.emit(conversation.id, form)

    def _show_menu(self, place: QPoint) -> None:
        self._menu_open = True  # the menu may take the focus from the list
        self._pop_up(self.menu(), place)

    def _show_more(self) -> None:
        menu = self.menu()
        menu.addSeparator()
        menu.addAction(self.import_action)
        self._pop_up(menu, self._more.mapToGlobal(self._more.rect().bottomLeft()))

    def _pop_up(self, menu: QMenu, place: QPoint) -> None:
        # Later, as a menu hides before its action is triggered.
        menu.aboutToHide.connect(lambda: QTimer.singleShot(0, self, lambda: self._forget(menu)))
        menu.popup(place)

    def _forget(self, menu: QMenu) -> None:
        self._menu_open = False
        menu.deleteLater()

    def menu(self) -> QMenu:
        """The commands for one conversation; the caller deletes the menu."""
        self._enable()
        menu = QMenu(self)
        menu.addActions([self.rename_action, self.pin_action])
        menu.addSeparator()
        menu.addActions([self.export_markdown_action, self.export_json_action])
        menu.addSeparator()
        menu.addAction(self.delete_action)
        return menu

    def _enable(self) -> None:
        conversation = self._subject()
        self.pin_action.setText("Unpin" if conversation and conversation.pinned else "Pin")
        for action in (
            self.pin_action,
            self.export_markdown_action,
            self.export_json_action,
        ):
            action.setEnabled(conversation is not None)

    def _on_edited(self) -> None:
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            # Later, as the list is still closing its editor.
            QTimer.singleShot(0, self, lambda: self.set_conversations(waiting))

    # Search

    def _on_typed(self) -> None:
        if self.query:
            self._timer.start()
        else:
            self._timer.stop()
            self._pages.setCurrentWidget(self._list)
            self._found.set_hits(())

    def _ask(self) -> None:
        if self.query:
            self.search_changed.emit(self.query)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Keys that the search field does not use itself."""
        lists = self._list if self._pages.currentWidget() is self._list else self._hits
        match event.key():
            case Qt.Key.Key_Escape if self._search.text():
                self._search.clear()
                self._list.setFocus()
            case Qt.Key.Key_Down if self._search.hasFocus():
                lists.setFocus()
                if not lists.currentIndex().isValid():
                    lists.setCurrentIndex(lists.model().index(0, 0))
            case Qt.Key.Key_Return | Qt.Key.Key_Enter if self._search.hasFocus() and self.query:
                if self._timer.isActive():
                    self._timer.stop()
                    self._ask()
                elif self._pages.currentWidget() is self._hits and self._found.rowCount():
                    self._choose_hit(self._found.index(0))
            case _:
                super().keyPressEvent(event)

    # Appearance

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange):
            self._recolour()

    def _recolour(self) -> None:
        colours = colours_of(self)
        self._new.setIcon(sign_icon("new", ink=colours.text, faint=colours.edge))
        self._more.setIcon(sign_icon("more", ink=colours.text, faint=colours.edge))

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.fillRect(self.rect(), colours.code)
            painter.setPen(colours.edge)
            painter.drawLine(self.width() - 1, 0, self.width() - 1, self.height())
