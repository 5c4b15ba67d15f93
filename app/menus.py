"""The window's commands: one table, from which menus, shortcuts and the list of keys are made.

Knows the name and the keys of a command, not its effect.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QApplication,
    QLineEdit,
    QMainWindow,
    QMenu,
    QPlainTextEdit,
    QTextEdit,
    QTreeWidgetItem,
    QWidget,
)

from app.layout import column_of
from app.theme.dialog import Dialog
from app.theme.labels import closing
from app.theme.row_tree import RowTree

Keys = QKeySequence.StandardKey | str


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the window. `role` places it in the application's menu on a Mac.

    If a part of the window made the action itself, its text and keys are used.
    """

    menu: str
    name: str
    text: str
    keys: Keys | tuple[Keys, ...] = ()
    checkable: bool = False
    role: QAction.MenuRole = QAction.MenuRole.NoRole


_KEY = QKeySequence.StandardKey
COMMANDS: tuple[Command | str, ...] = (  # in that menu, an entry with only a text is a separator
    Command("File", "new", "New conversation"),
    Command("File", "temporary", "New temporary chat", "Ctrl+Shift+I"),
    Command("File", "new_window", "New window", "Ctrl+Shift+N"),
    Command("File", "open_in_window", "Open in a new window"),
    "File",
    Command("File", "attach", "Attach files…", "Ctrl+Shift+A"),
    "File",
    Command("File", "import", "Import conversations…", _KEY.Open),
    Command("File", "export_markdown", "Export as Markdown…", _KEY.Save),
    Command("File", "export_json", "Export as JSON…", "Ctrl+Shift+S"),
    Command("File", "export_html", "Export as a web page…"),
    Command("File", "export_pdf", "Export as PDF…"),
    Command("File", "export_all", "Export all conversations…"),
    Command("File", "export_trace", "Export answer trace…"),
    Command("File", "export_print", "Print…", _KEY.Print),
    "File",
    Command("File", "settings", "Settings…", "Ctrl+,", role=QAction.MenuRole.PreferencesRole),
    "File",
    Command("File", "close", "Close window", "Ctrl+W"),
    Command("File", "quit", "Quit Slipstream", _KEY.Quit, role=QAction.MenuRole.QuitRole),
    Command("Edit", "undo", "Undo", _KEY.Undo),
    Command("Edit", "redo", "Redo", _KEY.Redo),
    "Edit",
    Command("Edit", "cut", "Cut", _KEY.Cut),
    Command("Edit", "copy", "Copy", _KEY.Copy),
    Command("Edit", "paste", "Paste", _KEY.Paste),
    Command("Edit", "select_all", "Select all", _KEY.SelectAll),
    "Edit",
    Command("Edit", "find", "Find in this conversation", _KEY.Find),
    Command("Edit", "find_next", "Find next", _KEY.FindNext),
    Command("Edit", "find_previous", "Find previous", _KEY.FindPrevious),
    Command("Edit", "search", "Search all conversations", "Ctrl+Shift+F"),
    "Edit",
    Command("Edit", "save_prompt", "Save message as prompt"),
    Command("View", "sidebar", "Conversations", "Ctrl+Shift+L", checkable=True),
    Command("View", "rounds", "Answer statistics", "Ctrl+Shift+R", checkable=True),
    Command("View", "provenance", "Show tokens", "Ctrl+T", checkable=True),
    Command("View", "words", "Highlight words from documents", "Ctrl+D", checkable=True),
    Command("View", "document", "Document panel", "Ctrl+Shift+D", checkable=True),
    "View",
    Command("View", "next_conversation", "Next conversation", "Ctrl+PgDown"),
    Command("View", "previous_conversation", "Previous conversation", "Ctrl+PgUp"),
    Command("View", "go_to_conversations", "Go to conversations", "Ctrl+1"),
    Command("View", "go_to_messages", "Go to messages", "Ctrl+2"),
    Command("View", "go_to_composer", "Go to message field", "Ctrl+3"),
    "View",
    Command("View", "larger", "Larger text", (_KEY.ZoomIn, "Ctrl+=")),
    Command("View", "smaller", "Smaller text", _KEY.ZoomOut),
    Command("View", "own_size", "Actual text size", "Ctrl+0"),
    "View",
    Command("View", "full_screen", "Full screen", _KEY.FullScreen, checkable=True),
    Command("Conversation", "rename", "Rename"),
    Command("Conversation", "duplicate", "Duplicate"),
    Command("Conversation", "pin", "Pin"),
    Command("Conversation", "new_folder", "New folder"),
    Command("Conversation", "archive", "Archive"),
    "Conversation",
    Command("Conversation", "delete", "Delete"),
    Command("Conversation", "restore", "Undo delete or move"),
    Command("Conversation", "deleted", "Recently deleted…"),
    Command("Answer", "send", "Send message", "Ctrl+Return"),
    Command("Answer", "stop", "Stop answer", "Ctrl+."),
    Command("Answer", "answer_now", "Answer now", "Ctrl+Shift+."),
    Command("Answer", "edit", "Edit last message", "Ctrl+E"),
    Command("Answer", "edit_answer", "Edit last answer", "Ctrl+Shift+E"),
    Command("Answer", "delete_message", "Delete message"),
    Command("Answer", "regenerate", "Regenerate last answer", "Ctrl+R"),
    Command("Answer", "go_on", "Continue last answer", "Ctrl+Shift+Return"),
    Command("Answer", "copy_answer", "Copy last answer", "Ctrl+Shift+C"),
    Command("Answer", "read_aloud", "Read answer aloud", "Ctrl+Shift+U"),
    "Answer",
    Command("Answer", "previous_version", "Previous version", "Alt+PgUp"),
    Command("Answer", "next_version", "Next version", "Alt+PgDown"),
    "Answer",
    Command("Answer", "before", "Statistics of previous answer", "Ctrl+["),
    Command("Answer", "after", "Statistics of next answer", "Ctrl+]"),
    Command("Answer", "replay", "Replay answer…", "Ctrl+Shift+Y"),
    Command("Answer", "race", "Race with and without drafts…", "Ctrl+Shift+P"),
    "Answer",
    Command("Answer", "sampling", "System prompt and sampling…", "Ctrl+Shift+T"),
    Command("Engine", "library", "Library", "Ctrl+L"),
    "Engine",
    Command("Engine", "load", "Load a model folder…", "Ctrl+Shift+O"),
    Command("Engine", "load_file", "Load a GGUF file…"),
    Command("Engine", "starter", "Load starter model"),
    "Engine",
    Command("Engine", "memory", "Context and memory…"),
    Command("Engine", "measure", "Measure speed again"),
    Command("Engine", "unload", "Unload the model"),
    Command("Engine", "restart", "Restart the engine"),
    "Engine",
    Command("Engine", "tools", "Tools…", "Ctrl+Shift+K"),
    Command("Engine", "server", "Local server…"),
    Command("Engine", "macs", "Several Macs…"),
    Command("Window", "minimize", "Minimize", "Ctrl+M"),
    Command("Window", "zoom", "Zoom"),
    "Window",
    Command("Help", "keys", "Keyboard shortcuts", _KEY.HelpContents),
    Command("Help", "explain_rounds", "What am I looking at?"),
    "Help",
    Command("Help", "readme", "Read me"),
    Command("Help", "data_folder", "Show data folder"),
    Command("Help", "log", "Show log"),
    Command("Help", "report", "Report a problem"),
    "Help",
    Command("Help", "about", "About Slipstream", role=QAction.MenuRole.AboutRole),
)
_MENUS_KEY = "" if sys.platform == "darwin" else "F10"  # a Mac has its own key
_BACK = QKeySequence("Ctrl+[").toString(QKeySequence.SequenceFormat.NativeText)
_WITH_NAVIGATION = (  # otherwise Tab stops at fields and lists only
    ", with Keyboard navigation switched on in System Settings" if sys.platform == "darwin" else ""
)
# Keys that parts of the window handle.
_OTHER_KEYS = (
    ("In the message", "Send, unless Settings say otherwise", "Enter"),
    ("In the message", "New line", "Shift+Enter"),
    ("In the message", "Stop answer", "Esc"),
    ("In the message", "List saved prompts, at its start", "/"),
    ("In the conversation", "Scroll by a page", "PgUp, PgDown"),
    ("In the conversation", "Scroll to its start or end", "Home, End"),
    ("In the find bar", "Next, previous", "Enter, Shift+Enter"),
    ("In the find bar", "Close", "Esc"),
    ("In the Library", "Back to the conversation", f"Esc, {_BACK}"),
    ("In the replay", "Previous or next round", "Left, Right"),
    ("In the replay", "First or last round", "Home, End"),
    ("In the replay", "Play and pause", "Space"),
    ("Everywhere", f"Next or previous area{_WITH_NAVIGATION}", "Tab, Shift+Tab"),
    ("Everywhere", "Open the menus", _MENUS_KEY),
)


class Menus:
    """Attribute: `actions`, by the command's name."""

    def __init__(self, window: QMainWindow, *, given: Mapping[str, QAction]) -> None:
        """`given` are the actions that parts of the window made, by the command's name."""
        self.actions: dict[str, QAction] = {}
        self._bar = window.menuBar()
        menus: dict[str, QMenu] = {}
        for command in COMMANDS:
            if isinstance(command, str):
                menus[command].addSeparator()
                continue
            if command.menu not in menus:
                menus[command.menu] = self._bar.addMenu(command.menu)
            action = given.get(command.name) or QAction(command.text, window)
            action.setMenuRole(command.role)
            action.setCheckable(command.checkable)
            if command.keys != ():
                action.setShortcuts(_sequences(command.keys))
            menus[command.menu].addAction(action)
            self.actions[command.name] = action
        self._windows = menus["Window"]
        self._windows.aboutToShow.connect(self._list_windows)
        self._listed: list[QAction] = []
        for name, method in _EDITING.items():
            self.actions[name].triggered.connect(lambda checked=False, m=method: _edit(m))
        self.actions["undo"].triggered.connect(self._undo)
        if _MENUS_KEY:
            QShortcut(QKeySequence(_MENUS_KEY), window).activated.connect(self.open)

    def open(self) -> None:
        """Open the first menu, for the keyboard."""
        self._bar.setFocus(Qt.FocusReason.MenuBarFocusReason)
        self._bar.setActiveAction(self._bar.actions()[0])

    def connect_commands(self, commands: Mapping[str, Callable[[], object]]) -> None:
        """Connect these commands, by their names."""
        for name, act in commands.items():
            self.actions[name].triggered.connect(lambda checked=False, act=act: act())

    def enable(self, possible: Mapping[str, bool]) -> None:
        """Enable or disable the commands with these names."""
        for name, enabled in possible.items():
            self.actions[name].setEnabled(enabled)

    def _list_windows(self) -> None:
        """List the open windows by title, with a check at the window of this menu."""
        for action in self._listed:
            self._windows.removeAction(action)
        windows = [
            window for window in QApplication.topLevelWidgets() if isinstance(window, QMainWindow)
        ]
        shown = sorted(filter(QWidget.isVisible, windows), key=QWidget.windowTitle)
        titles = [window.windowTitle().replace("&", "&&") for window in shown]
        self._listed = [self._windows.addAction(title) for title in titles]
        for action, window in zip(self._listed, shown, strict=True):
            action.setCheckable(True)
            action.setChecked(window is self._bar.window())
            action.triggered.connect(lambda checked=False, window=window: come_forward(window))

    def _undo(self) -> None:
        """Undo in the text field with the focus, or else undo the last deletion."""
        if can_undo(QApplication.focusWidget()):
            _edit("undo")
        else:
            self.actions["restore"].trigger()


_EDITING = {
    "redo": "redo",
    "cut": "cut",
    "copy": "copy",
    "paste": "paste",
    "select_all": "selectAll",
}


def come_forward(window: QMainWindow) -> None:
    """Bring a window to the front, if the system allows it."""
    window.setWindowState(window.windowState() & ~Qt.WindowState.WindowMinimized)
    window.show()
    window.raise_()
    window.activateWindow()


def _edit(method: str) -> None:
    """Call the method of the field with the focus, if it has that method."""
    edit = getattr(QApplication.focusWidget(), method, None)
    if callable(edit):
        edit()


def can_undo(widget: QWidget | None) -> bool:
    """Return whether this is a text field with something to undo."""
    match widget:
        case QLineEdit():
            return widget.isUndoAvailable()
        case QPlainTextEdit() | QTextEdit():
            return not widget.isReadOnly() and widget.document().isUndoAvailable()
        case _:
            return False


def _sequences(keys: Keys | tuple[Keys, ...]) -> list[QKeySequence]:
    if isinstance(keys, tuple):
        return [sequence for key in keys for sequence in _sequences(key)]
    if isinstance(keys, str):
        return [QKeySequence(keys)]
    return QKeySequence.keyBindings(keys)


def key_text(action: QAction) -> str:
    """Return the first of an action's keys, as the platform writes it; empty if it has none."""
    return action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)


class KeysDialog(Dialog):
    """Lists every command that has a key, by menu."""

    def __init__(self, menus: Menus, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard shortcuts")
        shown = [
            (command.menu, command.text.rstrip("…"), key_text(menus.actions[command.name]))
            for command in COMMANDS
            if isinstance(command, Command) and menus.actions[command.name].isVisible()
        ]
        self.tree = RowTree(self.windowTitle(), wide=300)
        bold = self.font()
        bold.setBold(True)
        for section, rows in groupby((*shown, *_OTHER_KEYS), itemgetter(0)):
            heading = QTreeWidgetItem(self.tree, [section])
            heading.setFont(0, bold)
            heading.addChildren([QTreeWidgetItem([text, keys]) for _, text, keys in rows if keys])
        self.tree.expandAll()
        column_of(self.tree, closing(self), on=self)
        self.resize(520, 620)
