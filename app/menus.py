"""The window's commands: one table, from which menus, shortcuts and the list of keys are made.

Knows what a command is called and which keys it has, not what it does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QDialogButtonBox,
    QFrame,
    QGridLayout,
    QLabel,
    QMainWindow,
    QMenu,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

Keys = QKeySequence.StandardKey | str | None


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the window. `role` places it in the application's menu on a Mac.

    Where a part of the window has made the action itself, that action's text and keys are used.
    """

    menu: str
    name: str
    text: str
    keys: Keys = None
    checkable: bool = False
    role: QAction.MenuRole = QAction.MenuRole.NoRole


_KEY = QKeySequence.StandardKey
COMMANDS: tuple[Command | str, ...] = (  # a text alone is a separator in that menu
    Command("File", "new", "New conversation"),
    Command("File", "import", "Import conversations…", _KEY.Open),
    Command("File", "export_markdown", "Export as Markdown…", _KEY.Save),
    Command("File", "export_json", "Export as JSON…", "Ctrl+Shift+S"),
    Command("File", "export_trace", "Export the trace of the answer…"),
    "File",
    Command("File", "rename", "Rename"),
    Command("File", "pin", "Pin"),
    Command("File", "delete", "Delete"),
    Command("File", "restore", "Undo delete"),
    "File",
    Command("File", "settings", "Settings…", "Ctrl+,", role=QAction.MenuRole.PreferencesRole),
    "File",
    Command("File", "quit", "Quit Slipstream", _KEY.Quit, role=QAction.MenuRole.QuitRole),
    Command("Edit", "undo", "Undo", _KEY.Undo),
    Command("Edit", "redo", "Redo", _KEY.Redo),
    "Edit",
    Command("Edit", "cut", "Cut", _KEY.Cut),
    Command("Edit", "copy", "Copy", _KEY.Copy),
    Command("Edit", "paste", "Paste", _KEY.Paste),
    Command("Edit", "select_all", "Select all", _KEY.SelectAll),
    "Edit",
    Command("Edit", "search", "Search all conversations"),
    Command("View", "sidebar", "Conversations", "Ctrl+Shift+L", checkable=True),
    Command("View", "rounds", "Rounds and replay", "Ctrl+Shift+R", checkable=True),
    Command("View", "provenance", "Where each token came from", "Ctrl+T", checkable=True),
    "View",
    Command("View", "larger", "Larger text", _KEY.ZoomIn),
    Command("View", "smaller", "Smaller text", _KEY.ZoomOut),
    Command("View", "own_size", "Normal text", "Ctrl+0"),
    "View",
    Command("View", "full_screen", "Full screen", _KEY.FullScreen, checkable=True),
    Command("Answer", "send", "Send the message", "Ctrl+Return"),
    Command("Answer", "stop", "Stop the answer", "Ctrl+."),
    Command("Answer", "edit", "Edit the last message", "Ctrl+E"),
    Command("Answer", "regenerate", "Regenerate the last answer", "Ctrl+R"),
    Command("Answer", "go_on", "Continue the last answer", "Ctrl+Shift+Return"),
    "Answer",
    Command("Answer", "before", "Rounds of the answer before", "Ctrl+["),
    Command("Answer", "after", "Rounds of the answer after", "Ctrl+]"),
    Command("Answer", "race", "Race plain against speculative…", "Ctrl+Shift+P"),
    "Answer",
    Command("Answer", "sampling", "System prompt and sampling…", "Ctrl+Shift+T"),
    Command("Engine", "library", "Library…", "Ctrl+L"),
    "Engine",
    Command("Engine", "load", "Load a model folder…", "Ctrl+Shift+O"),
    Command("Engine", "starter", "Load the starter model"),
    Command("Engine", "restart", "Restart the engine"),
    Command("Help", "keys", "Keyboard", _KEY.HelpContents),
    "Help",
    Command("Help", "updates", "Check for updates"),
    Command("Help", "automatic_updates", "Check for updates automatically", checkable=True),
    "Help",
    Command("Help", "about", "About Slipstream", role=QAction.MenuRole.AboutRole),
)
# Keys that parts of the window handle themselves.
_OTHER_KEYS = (
    ("In the message", "Send, unless Settings say otherwise", "Enter"),
    ("In the message", "New line", "Shift+Enter"),
    ("In the message", "Stop the answer", "Esc"),
    ("In the replay", "One round back, on", "Left, Right"),
    ("In the replay", "To the ends", "Home, End"),
    ("In the replay", "Play and pause", "Space"),
    ("Everywhere", "From part to part", "Tab, Shift+Tab"),
)


class Menus:
    """Attributes: `actions`, by the command's name."""

    def __init__(self, window: QMainWindow, *, given: Mapping[str, QAction]) -> None:
        """`given` holds the actions that parts of the window have made, by the command's name."""
        self.actions: dict[str, QAction] = {}
        menus: dict[str, QMenu] = {}
        for command in COMMANDS:
            if isinstance(command, str):
                menus[command].addSeparator()
                continue
            if command.menu not in menus:
                menus[command.menu] = window.menuBar().addMenu(command.menu)
            action = given.get(command.name) or QAction(command.text, window)
            action.setMenuRole(command.role)
            action.setCheckable(command.checkable)
            if command.keys is not None:
                action.setShortcuts(_sequences(command.keys))
            menus[command.menu].addAction(action)
            self.actions[command.name] = action
        for name, method in _EDITING.items():
            self.actions[name].triggered.connect(lambda checked=False, m=method: _edit(m))


_EDITING = {
    "undo": "undo",
    "redo": "redo",
    "cut": "cut",
    "copy": "copy",
    "paste": "paste",
    "select_all": "selectAll",
}


def _edit(method: str) -> None:
    """Call the method of the field that has the focus, if it has that method."""
    edit = getattr(QApplication.focusWidget(), method, None)
    if callable(edit):
        edit()


def _sequences(keys: QKeySequence.StandardKey | str) -> list[QKeySequence]:
    if isinstance(keys, str):
        return [QKeySequence(keys)]
    return QKeySequence.keyBindings(keys)


def key_text(action: QAction) -> str:
    """The first of an action's keys, as the platform writes them; empty where it has none."""
    return action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)


class KeysDialog(QDialog):
    """Lists every command that has a key, by menu."""

    def __init__(self, menus: Menus, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard")
        grid = QGridLayout()
        grid.setHorizontalSpacing(28)
        grid.setVerticalSpacing(5)
        shown = [
            (command.menu, command.text.rstrip("…"), key_text(menus.actions[command.name]))
            for command in COMMANDS
            if isinstance(command, Command)
        ]
        section = ""
        for menu, text, keys in (*shown, *_OTHER_KEYS):
            if not keys:
                continue
            if menu != section:
                section = menu
                grid.addWidget(_label(menu, bold=True), grid.rowCount(), 0, 1, 2)
            row = grid.rowCount()
            grid.addWidget(_label(text), row, 0)
            grid.addWidget(_label(keys), row, 1, Qt.AlignmentFlag.AlignRight)
        inner = QWidget()
        inner.setLayout(grid)
        scroll = QScrollArea()
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidgetResizable(True)
        scroll.setWidget(inner)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.addWidget(scroll)
        column.addWidget(buttons)
        self.resize(460, 620)


def _label(text: str, *, bold: bool = False) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    if bold:
        font = label.font()
        font.setBold(True)
        label.setFont(font)
        label.setContentsMargins(0, 10, 0, 0)
    return label
