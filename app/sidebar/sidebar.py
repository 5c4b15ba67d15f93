"""The sidebar: all conversations, a search in them, and the commands for one or several.

Knows the store's records, not the store: requests are sent as signals, and their receiver sets the
new list. Deleting, archiving and moving can be undone at once.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from PySide6.QtCore import QEvent, QItemSelectionModel, QModelIndex, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QComboBox,
    QLineEdit,
    QMenu,
    QPushButton,
    QStackedWidget,
    QToolButton,
    QWidget,
)

from app.chat.activity import Activity
from app.chat.web_page import Form
from app.conversations.records import (
    Conversation,
    Deleted,
    DeletedMessages,
    Folder,
    Hit,
    SearchFilter,
    Undo,
)
from app.layout import column_of, row_of
from app.sidebar.conversation_list import ConversationList, FlatList
from app.sidebar.conversation_model import GROUP, HIT, ConversationModel, Group, HitModel
from app.sidebar.conversation_rows import ConversationRows, HitRows
from app.sidebar.undo_bar import UndoBar
from app.theme.icons import sign_icon
from app.theme.style import colours_of, zoomed
from models.in_words import one_line

_SEARCH_AFTER_MILLISECONDS = 150  # after the last key
_TIMES = (("Any time", None), ("Past day", 1), ("Past week", 7), ("Past month", 30),
          ("Past year", 365))  # fmt: skip
_LONGEST_ENTRY = 80  # characters of a deleted title
_NARROWEST = 180  # pixels, at the normal size of the text
_ANY_MODEL = "Any model"
_OF_ONE: tuple[Form, ...] = ("html", "pdf", "print")  # several are exported as a .zip
_FORMS: dict[Form, str] = {
    "markdown": "Export as Markdown…",
    "json": "Export as JSON…",
    "html": "Export as a web page…",
    "pdf": "Export as PDF…",
    "print": "Print…",
}


class Sidebar(QWidget):
    """The conversations. The actions can be put into menus; their shortcuts work already.

    Attributes: new_action, search_action, open_in_window_action, rename_action, duplicate_action,
    pin_action, archive_action, delete_action, restore_action, deleted_action, new_folder_action,
    export_all_action, import_action; export_actions, by their form; undo_bar.

    Signals; `object` is the ids of some conversations, unless described otherwise:
        chosen(int): show this conversation.
        clicked: a conversation was chosen with the pointer: the next keys are meant for it.
        hit_chosen(int, object, str): show this message of this conversation, or its start for None;
            with the words of the search.
        new_asked: start a conversation.
        window_asked(object): show this conversation, by its id, in another window.
        renamed(int, str), pinned(object, bool), archived(object, bool), deleted(object): do that,
            then `set_conversations`.
        moved(object, object): move them into a folder, by its id, or out of folders for None.
        folder_wanted(object): make a folder for them, then `begin_folder_rename`.
        new_in_folder_asked(int), folder_setup_asked(Folder): start a conversation in a folder, by
            its id; ask what new ones in it begin with.
        folder_renamed(int, str), folder_opened(int, bool), folder_deleted(int): do that.
        undone(object): undo the change that `offer_undo` was given; else `undo_bar.put_back`.
        deleted_asked: read the deletions, then `show_deleted`.
        erased(object): delete for good what this change would bring back.
        duplicate_asked(int): copy this conversation.
        export_asked(int, Form): write it in this form; "print": show it as a PDF to be printed.
        export_many_asked(object): export them as one file; all for None.
        import_asked: ask for a file.
        search_changed(str, SearchFilter): search, then `set_hits`. Not sent for an empty text.
    """

    chosen = Signal(int)
    clicked = Signal()
    hit_chosen = Signal(int, object, str)
    new_asked = Signal()
    window_asked = Signal(object)
    pinned = Signal(object, bool)
    archived = Signal(object, bool)
    deleted = Signal(object)
    moved = Signal(object, object)
    folder_wanted = Signal(object)
    new_in_folder_asked = Signal(int)
    folder_setup_asked = Signal(Folder)
    folder_opened = Signal(int, bool)
    folder_deleted = Signal(int)
    deleted_asked = Signal()
    erased = Signal(object)
    duplicate_asked = Signal(int)
    export_asked = Signal(int, str)
    export_many_asked = Signal(object)
    import_asked = Signal()
    search_changed = Signal(str, SearchFilter)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._waiting: tuple[tuple[Conversation, ...], tuple[Folder, ...]] | None = None
        self._model = ConversationModel(self)
        self._found = HitModel(self)
        self._list = ConversationList(self._model)
        self._hits = FlatList("Found")
        self._search = QLineEdit()
        self._when, self._by = QComboBox(), QComboBox()
        self._filters = QWidget()
        self._new = QPushButton("New conversation")
        self._more = QToolButton()
        self.undo_bar = UndoBar()
        self.renamed, self.folder_renamed = self._model.renamed, self._model.folder_renamed
        self.undone = self.undo_bar.undone
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
        self.search_action = make(
            "Search all conversations", self.begin_search, QKeySequence(standard.Find)
        )
        self.import_action = make("Import conversations…", self.import_asked.emit)
        self.open_in_window_action = make(
            "Open in a new window", self._open_in_window, QKeySequence("Shift+Return")
        )
        self.rename_action = make("Rename", self._rename, QKeySequence(Qt.Key.Key_F2))
        self.pin_action = make("Pin", self._pin)
        self.archive_action = make("Archive", self._archive)
        self.duplicate_action = make("Duplicate", self._duplicate)
        self.new_folder_action = make("New folder", lambda: self.folder_wanted.emit(()))
        self.delete_action = make(
            "Delete", self._delete, QKeySequence(Qt.Key.Key_Delete), QKeySequence("Ctrl+Backspace")
        )
        self.restore_action = make("Undo delete or move", self.undo_bar.undo)
        self.deleted_action = make("Recently deleted…", self.deleted_asked.emit)
        self.export_actions: dict[Form, QAction] = {
            form: make(text, partial(self._export, form)) for form, text in _FORMS.items()
        }
        self.export_all_action = make(
            "Export all conversations…", lambda: self.export_many_asked.emit(None)
        )
        self.addActions([self.new_action, self.search_action])
        for action in (self.open_in_window_action, self.rename_action, self.delete_action):
            # These keys have other meanings elsewhere in the window.
            action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
            self._list.addAction(action)

    def _arrange(self) -> None:
        self._list.setItemDelegate(ConversationRows(self._list))
        self._hits.setModel(self._found)
        self._hits.setItemDelegate(HitRows(self._hits))
        self._hits.setUniformItemSizes(True)
        self._pages.addWidget(self._list)
        self._pages.addWidget(self._hits)
        self._search.setPlaceholderText("Search")
        self._search.setAccessibleName("Search all conversations")
        self._search.setClearButtonEnabled(True)
        self._search.setMaxLength(500)
        self._search.setTextMargins(4, 0, 0, 0)
        self._more.setAutoRaise(True)
        self._more.setAccessibleName("More commands")
        self._more.setToolTip("Import, export, and more")
        self._more.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        for text, days in _TIMES:
            self._when.addItem(text, days)
        self._when.setAccessibleName("Filter by age")
        self._by.addItem(_ANY_MODEL, "")
        self._by.setAccessibleName("Filter by model")
        for box in (self._when, self._by):
            box.setMinimumContentsLength(6)
            box.setSizeAdjustPolicy(box.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        row_of((self._when, 1), (self._by, 1), on=self._filters, margins=0, gap=6)
        self._filters.hide()
        top = row_of((self._new, 1), self._more, gap=6)
        head = column_of(top, self._search, self._filters, margins=(10, 10, 10, 4), gap=8)
        column_of(head, (self._pages, 1), self.undo_bar, on=self, margins=(0, 0, 1, 0), gap=0)
        self.setMinimumWidth(zoomed(self, _NARROWEST))

    def _connect(self) -> None:
        self._new.clicked.connect(self.new_asked)
        self._more.clicked.connect(self._show_more)
        self._search.textChanged.connect(self._on_typed)
        self._timer.timeout.connect(self._ask)
        self._when.activated.connect(lambda: self._ask())
        self._by.activated.connect(lambda: self._ask())
        self._list.chosen.connect(self._choose)
        self._list.clicked_on.connect(self._on_clicked)
        self._list.menu_asked.connect(self._show_menu)
        self._list.edited.connect(self._on_edited)
        self._list.left_upwards.connect(self._search.setFocus)
        self._list.left.connect(self._on_left)
        self._list.dropped.connect(self._on_dropped)
        self._list.selectionModel().selectionChanged.connect(lambda: self._enable())
        self._hits.chosen.connect(self._choose_hit)
        self._hits.left_upwards.connect(self._search.setFocus)
        self.undo_bar.undone.connect(lambda: self._list.setFocus())
        self.undo_bar.changed.connect(self._enable)

    # Contents

    def set_conversations(
        self,
        conversations: tuple[Conversation, ...],
        folders: tuple[Folder, ...] = (),
        *,
        now: datetime | None = None,
    ) -> None:
        """Show these in the given order, pinned ones first. `now` decides the headings.

        While a title is being edited, the new list waits.
        """
        if self._list.editing:
            self._waiting = (conversations, folders)
            return
        self._keep_place(
            lambda: self._model.set_conversations(
                conversations, now or datetime.now(UTC), folders=folders
            )
        )
        self._list.say_when_empty("No conversations yet.")

    def set_shown(self, conversation: int | None) -> None:
        """Mark the conversation that the transcript shows; None if it is not listed."""
        changed = conversation != self._model.shown
        self._model.set_shown(conversation)
        if changed:
            self._select_shown()
            if conversation != self._found.shown_conversation:
                self._found.set_shown(None)
        self._enable()

    def set_elsewhere(self, conversations: Collection[int]) -> None:
        """Mark the conversations that other windows show."""
        self._model.set_elsewhere(conversations)

    def _keep_place(self, change: Callable[[], None]) -> None:
        """Change the list, and keep its selection and scroll position."""
        current = self._list.currentIndex()
        conversation = self._model.conversation(current)
        group = None if conversation else self._model.group_around(current)
        selected = {found.id for found in self._selected()}
        scrolled = self._list.verticalScrollBar().value()
        change()
        if conversation is not None and conversation.id not in selected:
            conversation = None  # released
        index = self._model.index_of(conversation.id if conversation else self._model.shown)
        if group is not None:
            index = self._model.index_of_folder(group.folder.id if group.folder else None)
        if index.isValid() and index != self._list.currentIndex():
            self._list.go_to(index)
        rows = [found for id in selected if (found := self._model.index_of(id)).isValid()]
        if len(rows) > 1:
            select = QItemSelectionModel.SelectionFlag.Select
            for row in rows:
                self._list.selectionModel().select(row, select)
        self._list.doItemsLayout()  # headings may have changed
        self._list.verticalScrollBar().setValue(scrolled)
        self._enable()

    def _select_shown(self) -> None:
        """Select the conversation that is shown, or nothing if it is not listed, so that no command
        applies to a hidden conversation."""
        self._list.go_to(self._model.index_of(self._model.shown))

    def neighbour(self, conversations: Collection[int]) -> int | None:
        """Return the conversation to show when these are gone: the next below the shown one,
        or else above it, that no other window shows."""
        listed = [found.id for found in self._model.listed if not found.archived]
        place = listed.index(self._model.shown) if self._model.shown in listed else 0
        around = (*listed[place:], *reversed(listed[:place]))
        gone = self._model.elsewhere.union(conversations)
        return next((id for id in around if id not in gone), None)

    def set_activities(self, activities: Mapping[int, Activity]) -> None:
        """Mark the conversations with an activity, by their ids."""
        self._model.set_activities(activities)

    def set_hits(self, text: str, hits: tuple[Hit, ...]) -> None:
        """Show the hits for `text`, unless the search has changed since."""
        if text != self.query or not text:
            return
        self._found.set_hits(hits)
        self._hits.say_when_empty(f"No results for “{text}”.")
        self._pages.setCurrentWidget(self._hits)

    def set_targets(self, targets: Sequence[str]) -> None:
        """Offer to search only the answers of one of these models."""
        known = [self._by.itemData(place) for place in range(1, self._by.count())]
        if known == list(targets):
            return
        chosen = self._by.currentData()
        self._by.clear()
        self._by.addItem(_ANY_MODEL, "")
        for target in targets:
            self._by.addItem(one_line(target), target)
        self._by.setCurrentIndex(max(0, self._by.findData(chosen)))

    @property
    def query(self) -> str:
        """The text of the search; empty while the list is shown."""
        return self._search.text().strip()

    def focus_list(self) -> None:
        """Give the list the focus: the conversations, or the hits of a search."""
        searches = self._pages.currentWidget() is self._hits
        (self._hits if searches else self._list).setFocus(Qt.FocusReason.ShortcutFocusReason)

    def step(self, by: int) -> None:
        """Show the conversation before (-1) or after (+1) the shown one, skipping conversations of
        other windows."""
        row = self._model.index_of(self._model.shown).row() + by
        while 0 <= row < self._model.rowCount():
            conversation = self._model.conversation(self._model.index(row))
            if conversation is not None and conversation.id not in self._model.elsewhere:
                self.chosen.emit(conversation.id)
                return
            row += by

    def begin_search(self) -> None:
        """Put the cursor into the search field."""
        self._search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._search.selectAll()

    def begin_rename(self, conversation: int) -> None:
        """Open the editor for a title, in the list."""
        self._edit(self._model.index_of(conversation))

    def begin_folder_rename(self, folder: int) -> None:
        """Open the editor for a folder's name, in the list."""
        self._edit(self._model.index_of_folder(folder))

    def _edit(self, index: QModelIndex) -> None:
        if index.isValid():
            self._search.clear()
            self._list.go_to(index)
            self._list.setFocus()
            self._list.edit(index)

    def offer_undo(self, change: Undo, what: str) -> None:
        """Offer to undo a change until the bar is closed. `what` names it: "Deleted"."""
        ids = {filing.conversation for filing in change.filings}
        if change.folder is not None:
            self.undo_bar.add(change, f"{what} folder {one_line(change.folder.name)}")
        elif len(ids) == 1:
            self.undo_bar.add(change, f"{what}: {''.join(self._model.titles(ids))}")
        else:
            self.undo_bar.add(change, f"{what} {len(ids):,} conversations")

    def offer_undo_of_messages(self, change: DeletedMessages) -> None:
        """Offer to undo the deletion of messages."""
        self.undo_bar.add(change, change.in_words)

    # Requests

    def _selected(self) -> tuple[Conversation, ...]:
        """The selected conversations, from the top."""
        rows = sorted(index.row() for index in self._list.selectedIndexes())
        found = (self._model.conversation(self._model.index(row)) for row in rows)
        return tuple(conversation for conversation in found if conversation is not None)

    def _subjects(self) -> tuple[Conversation, ...]:
        """The conversations that a command applies to: the selected ones, or else the one shown."""
        selected = self._selected()
        if selected or self._folder() is not None:
            return selected
        shown = self._model.conversation(self._model.index_of(self._model.shown))
        return () if shown is None else (shown,)

    def _folder(self) -> Folder | None:
        """The folder of the current line, if commands apply to it."""
        group: Group | None = self._list.currentIndex().data(GROUP)
        return None if group is None or self._list.selectedIndexes() else group.folder

    def _ids(self) -> tuple[int, ...]:
        return tuple(conversation.id for conversation in self._subjects())

    def _choose(self, index: QModelIndex) -> None:
        group: Group | None = index.data(GROUP)
        if (conversation := self._model.conversation(index)) is not None:
            self.chosen.emit(conversation.id)
        elif group is not None:
            self._keep_place(lambda: self._model.set_open(group, not group.open))
            if group.folder is not None:
                self.folder_opened.emit(group.folder.id, not group.open)

    def _on_clicked(self, index: QModelIndex) -> None:
        if self._model.conversation(index) is not None:
            self.clicked.emit()

    def _choose_hit(self, index: QModelIndex) -> None:
        hit: Hit = index.data(HIT)
        self._found.set_shown(hit)
        self._hits.setCurrentIndex(index)
        self.hit_chosen.emit(hit.conversation, hit.message, self.query)

    def _open_in_window(self) -> None:
        if len(ids := self._ids()) == 1:
            self.window_asked.emit(ids[0])

    def _rename(self) -> None:
        subjects = self._subjects()
        if folder := self._folder():
            self.begin_folder_rename(folder.id)
        elif len(subjects) == 1:
            self.begin_rename(subjects[0].id)

    def _duplicate(self) -> None:
        if len(ids := self._ids()) == 1:
            self.duplicate_asked.emit(ids[0])

    def _pin(self) -> None:
        if ids := self._ids():
            self.pinned.emit(ids, not all(found.pinned for found in self._subjects()))

    def _archive(self) -> None:
        if ids := self._ids():
            self.archived.emit(ids, not all(found.archived for found in self._subjects()))

    def _delete(self) -> None:
        if folder := self._folder():
            self.folder_deleted.emit(folder.id)
        elif ids := self._ids():
            self.deleted.emit(ids)

    def _export(self, form: Form) -> None:
        ids = self._ids()
        if len(ids) == 1:
            self.export_asked.emit(ids[0], form)
        elif ids:
            self.export_many_asked.emit(ids)

    def _on_dropped(self, ids: tuple[int, ...], index: QModelIndex) -> None:
        group = self._model.group_around(index)
        if group is not None and group.folder is None:
            self.archived.emit(ids, True)
            return
        folder = group.folder.id if group and group.folder else None
        dropped = [found for found in self._model.listed if found.id in ids]
        if any(found.folder != folder or found.archived for found in dropped):
            self.moved.emit(ids, folder)

    def _on_left(self) -> None:
        """Apply commands to the shown conversation again, unless several are selected."""
        if len(self._selected()) <= 1:
            self._select_shown()

    def _show_menu(self, place: QPoint) -> None:
        self._pop_up(self.folder_menu() if self._folder() else self.menu(), place)

    def _show_more(self) -> None:
        self._on_left()
        menu = self.menu()
        menu.addSeparator()
        more = (self.new_folder_action, self.import_action, self.export_all_action)
        menu.addActions([*more, self.deleted_action])
        self._pop_up(menu, self._more.mapToGlobal(self._more.rect().bottomLeft()))

    def show_deleted(self, found: Sequence[Deleted]) -> QMenu:
        """Show a menu of the deletions, each to be restored, or made permanent."""
        menu = QMenu(self)
        for deletion in found:
            title = one_line(deletion.title)[:_LONGEST_ENTRY].replace("&", "&&")
            entry = menu.addMenu(f"{deletion.when.astimezone():%Y-%m-%d %H:%M}  {title}")
            for words, signal in (("Restore", self.undone), ("Delete permanently", self.erased)):
                action = entry.addAction(words, partial(self.undo_bar.drop, deletion.change))
                action.triggered.connect(partial(signal.emit, deletion.change))
        if not found:
            menu.addAction("Nothing deleted in the last 30 days").setEnabled(False)
        self._pop_up(menu, self._more.mapToGlobal(self._more.rect().bottomLeft()))
        return menu

    def _pop_up(self, menu: QMenu, place: QPoint) -> None:
        # Later, as a menu hides before its action is triggered.
        menu.aboutToHide.connect(lambda: QTimer.singleShot(0, menu, menu.deleteLater))
        menu.popup(place)

    def menu(self) -> QMenu:
        """Return the menu of commands for the selection; the caller deletes it."""
        self._enable()
        menu = QMenu(self)
        many = len(self._subjects()) > 1
        if not many:
            menu.addAction(self.open_in_window_action)
            menu.addSeparator()
            menu.addActions([self.rename_action, self.duplicate_action])
        menu.addAction(self.pin_action)
        menu.addMenu(self._move_menu(menu))
        menu.addAction(self.archive_action)
        menu.addSeparator()
        if many:
            export = menu.addAction(f"Export {len(self._subjects()):,} conversations…")
            export.triggered.connect(lambda: self.export_many_asked.emit(self._ids()))
        else:
            export_menu = menu.addMenu("Export")
            export_menu.addActions(list(self.export_actions.values()))
            export_menu.setEnabled(bool(self._subjects()))
        menu.addSeparator()
        menu.addAction(self.delete_action)
        return menu

    def folder_menu(self) -> QMenu:
        """Return the menu of commands for a folder; the caller deletes it."""
        self._enable()
        menu = QMenu(self)
        if (folder := self._folder()) is not None:
            menu.addAction(
                "New conversation here", partial(self.new_in_folder_asked.emit, folder.id)
            )
            menu.addAction("Instruction and files…", partial(self.folder_setup_asked.emit, folder))
            menu.addSeparator()
        menu.addActions([self.rename_action, self.delete_action])
        return menu

    def _move_menu(self, parent: QMenu) -> QMenu:
        menu = QMenu("Move to", parent)
        subjects = self._subjects()
        for folder in self._model.folders:
            action = menu.addAction(one_line(folder.name).replace("&", "&&") or "Folder")
            action.setEnabled(any(found.folder != folder.id for found in subjects))
            action.triggered.connect(
                lambda checked=False, id=folder.id: self.moved.emit(self._ids(), id)
            )
        if self._model.folders:
            outside = menu.addAction("No folder")
            outside.setEnabled(any(found.folder is not None for found in subjects))
            outside.triggered.connect(lambda: self.moved.emit(self._ids(), None))
            menu.addSeparator()
        new = menu.addAction("New folder")
        new.triggered.connect(lambda: self.folder_wanted.emit(self._ids()))
        menu.setEnabled(bool(subjects))
        return menu

    def _enable(self) -> None:
        subjects, folder = self._subjects(), self._folder()
        pinned = bool(subjects) and all(found.pinned for found in subjects)
        archived = bool(subjects) and all(found.archived for found in subjects)
        self.pin_action.setText("Unpin" if pinned else "Pin")
        self.archive_action.setText("Unarchive" if archived else "Archive")
        self.delete_action.setText("Delete folder" if folder else "Delete")
        self.restore_action.setEnabled(bool(self.undo_bar.text))
        self.open_in_window_action.setEnabled(len(subjects) == 1)
        self.duplicate_action.setEnabled(len(subjects) == 1)
        self.rename_action.setEnabled(len(subjects) == 1 or folder is not None)
        self.delete_action.setEnabled(bool(subjects) or folder is not None)
        self.export_all_action.setEnabled(self._model.rowCount() > 0)
        for action in (self.pin_action, self.archive_action, *self.export_actions.values()):
            action.setEnabled(bool(subjects))
        for form in _OF_ONE:
            self.export_actions[form].setEnabled(len(subjects) == 1)

    def _on_edited(self) -> None:
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            # Later, as the list is still closing its editor.
            QTimer.singleShot(0, self, lambda: self.set_conversations(*waiting))

    # Search

    def _on_typed(self) -> None:
        self._filters.setVisible(bool(self.query))
        if self.query:
            self._timer.start()
        else:
            self._timer.stop()
            self._pages.setCurrentWidget(self._list)
            self._found.set_hits(())

    def _ask(self) -> None:
        if self.query:
            days: int | None = self._when.currentData()
            since = None if days is None else datetime.now(UTC) - timedelta(days=days)
            self.search_changed.emit(self.query, SearchFilter(since, self._by.currentData()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handle the keys that the search field does not use."""
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
                    self._choose_hit(self._found.index(0, 0))
            case _:
                super().keyPressEvent(event)

    # Appearance

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange):
            self._recolour()
            self.setMinimumWidth(zoomed(self, _NARROWEST))

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
