"""The page of a server: its state, its tools with their switches, its words and its log.

Knows its widgets, and how a server is to be shown; not what is done when one is used.
"""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontDatabase, QTextCursor
from PySide6.QtWidgets import (
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from app.switch import Switch
from app.theme.edged_check_box import EdgedCheckBox
from app.theme.labels import ShortenedLabel, StatusLine, ToneLabel
from app.theme.row_list import Row, RowList
from app.theme.style import TABS, zoomed
from app.tools.server_dialog import shown
from app.tools.server_now import ServerNow
from engine.tools.protocol import Offered
from models.in_words import clean, one_line

_TRUST = "Believe “read-only”: run such calls without asking"
_LONGEST_DESCRIPTION = 240  # characters; the details have all of it
_LONGEST_TEXT = 20_000


class ServerPage(QWidget):
    """Attributes: its parts, which say what a person does; `server`, the name of the server that is
    shown."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: ServerNow | None = None
        self.server = ""
        self.switch = Switch("Server")
        self.title = ShortenedLabel(scale=1.15, bold=True)
        self.runs = ShortenedLabel(tone="muted")
        self.line = StatusLine(wraps=True)
        self.restart, self.edit = QPushButton("Restart"), QPushButton("Edit…")
        self.remove = QPushButton("Remove")
        self.trust = EdgedCheckBox(_TRUST)
        self.folders, self.tools = Folders(), ToolList()
        self.says, self.log = _texts("Its own words"), _texts("Log")
        self.tabs = QTabWidget()
        self._arrange()

    def _arrange(self) -> None:
        first = QHBoxLayout()
        first.setSpacing(10)
        first.addWidget(self.switch)
        first.addWidget(self.title, 1)
        for button in (self.restart, self.edit, self.remove):
            first.addWidget(button)
        tools = QWidget()
        inner = QVBoxLayout(tools)
        inner.setContentsMargins(0, 10, 0, 0)
        inner.setSpacing(8)
        inner.addWidget(self.folders)
        inner.addWidget(self.tools, 1)
        inner.addWidget(self.trust)
        self.line.setMinimumWidth(1)  # however long a word is
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setDrawBase(False)
        self.tabs.setStyleSheet(TABS)
        self.tabs.setAccessibleName("The server")
        for page, name in ((tools, "Tools"), (self.says, "What it says"), (self.log, "Log")):
            self.tabs.addTab(page, name)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addLayout(first)
        column.addWidget(self.line)
        column.addWidget(self.runs)
        column.addWidget(self.tabs, 1)

    def show_server(self, now: ServerNow) -> None:
        """Show how it is."""
        if now == self._shown:
            return
        self._shown, name, (line, tone) = now, now.server.name, now.line
        other, self.server = name != self.server, name
        self.title.say(now.title)
        self.line.say(one_line(line), tone)
        self.runs.say("" if now.own else shown(now.server))
        self.switch.setAccessibleName(f"Run {one_line(now.title)}")
        self.switch.setChecked(now.on)
        self.restart.setEnabled(now.on)
        for part in (self.switch, self.restart, self.edit, self.remove):
            part.setVisible(not now.own)
        self.trust.setChecked(name in now.setup.trusted)
        self.folders.setVisible(now.own)
        self.folders.show_folders(now.setup.folders)
        for place, text in ((1, now.says), (2, now.log)):
            self.tabs.setTabVisible(place, bool(text))
        _show(self.says, now.says)
        if _show(self.log, now.log):
            self.log.moveCursor(QTextCursor.MoveOperation.End)
        self.tabs.tabBar().setVisible(bool(now.says or now.log))
        if other:
            self.tabs.setCurrentIndex(0)
            self.tools.keep((), "")
        self.tools.show_tools(now)


class ToolRow(Row):
    """A tool: its switch, its name and description; more of it when it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.switch = Switch("Tool")
        self._name, self._mark = ShortenedLabel(bold=True), ToneLabel(tone="muted", scale=0.9)
        self._description = ToneLabel(tone="muted")
        self.changed = StatusLine(wraps=True)
        self.fine = QPushButton("It is fine")
        self.more, self.details = QPushButton("Details"), _texts("Details")
        self._details: Callable[[], str] = str
        self._arrange()
        self.more.clicked.connect(self._unfold)

    def _arrange(self) -> None:
        self._mark.setWordWrap(False)
        self._mark.say("read-only")
        for text in (self._description, self.changed):
            text.setMinimumWidth(1)  # however long a word is
        for button in (self.fine, self.more):
            button.setAutoDefault(False)
        self.more.setFlat(True)
        self.more.setCheckable(True)
        self.details.setFixedHeight(zoomed(self, 190))
        self.details.hide()
        first = QHBoxLayout()
        first.setSpacing(10)
        first.addWidget(self._name, 1)
        first.addWidget(self._mark)
        first.addWidget(self.more)
        changed = QHBoxLayout()
        changed.addWidget(self.changed, 1)
        changed.addWidget(self.fine)
        texts = QVBoxLayout()
        texts.setSpacing(4)
        texts.addLayout(first)
        texts.addWidget(self._description)
        texts.addLayout(changed)
        texts.addWidget(self.details)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 9, 14, 11)
        row.setSpacing(12)
        row.addWidget(self.switch, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(texts, 1)

    def show_tool(self, tool: Offered, now: ServerNow) -> None:
        """Show how it is."""
        name, changed = one_line(tool.name), now.changed(tool)
        whole = one_line(tool.description or tool.title)
        short = whole[:_LONGEST_DESCRIPTION]
        self._name.say(name)
        self._mark.setVisible(tool.read_only)
        self._description.say(short if short == whole else f"{short.rstrip()}…")
        self.switch.setChecked(now.setup.is_on(tool))
        self.switch.setAccessibleName(f"Let models use {name}")
        self.switch.setAccessibleDescription(self._description.words)
        self.changed.say(changed, "warning")
        for part in (self.changed, self.fine):
            part.setVisible(bool(changed))
        self.fine.setAccessibleName(f"{name} is fine as it is now")
        self.more.setAccessibleName(f"Details of {name}")
        self._details = partial(now.details, tool)
        self._unfold(self.more.isChecked())

    def _unfold(self, on: bool) -> None:
        self.details.setVisible(on)
        self.more.setText("Hide" if on else "Details")
        if on:  # a schema may be long
            _show(self.details, self._details())


class ToolList(RowList[ToolRow]):
    """Attributes: `rows`, by the tools' names, in their order. Signals: `switched(str, bool)` and
    `seen(str)`, by the tool's name."""

    switched = Signal(str, bool)
    seen = Signal(str)

    def __init__(self) -> None:
        super().__init__("Tools", ToolRow)

    def show_tools(self, now: ServerNow) -> None:
        """Show those of a server."""
        known = {*self.rows}
        self.keep([tool.name for tool in now.tools], "Its tools appear here when it runs.")
        for tool in now.tools:
            row = self.rows[tool.name]
            row.show_tool(tool, now)
            if tool.name not in known:
                self._connect(row, tool.name)

    def _connect(self, row: ToolRow, name: str) -> None:
        row.switch.clicked.connect(lambda on: self.switched.emit(name, on))
        row.fine.clicked.connect(lambda: self.seen.emit(name))


class Folders(QWidget):
    """The folders that the file tools may read. Attribute: `add`. Signals: `dropped(str)`."""

    dropped = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.add = QPushButton("Choose a folder…")
        self._shown: tuple[str, ...] | None = None
        self._line = ToneLabel(tone="muted")
        self._rows = QVBoxLayout()
        self._rows.setSpacing(4)
        first = QHBoxLayout()
        first.addWidget(self._line, 1)
        first.addWidget(self.add)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 0, 14, 0)
        column.addLayout(first)
        column.addLayout(self._rows)

    def show_folders(self, folders: tuple[str, ...]) -> None:
        if folders == self._shown:
            return
        self._shown = folders
        self._line.say(
            "The file tools read these folders, and nothing outside."
            if folders
            else "The file tools read only folders that you choose. There is none yet."
        )
        while (item := self._rows.takeAt(0)) is not None:
            if (row := item.widget()) is not None:
                row.deleteLater()
        for folder in folders:
            self._rows.addWidget(self._row(folder))

    def _row(self, folder: str) -> QWidget:
        row, name = QWidget(), ShortenedLabel(elide=Qt.TextElideMode.ElideMiddle)
        name.say(folder)
        drop = QPushButton("Remove")
        drop.setAutoDefault(False)
        drop.setFlat(True)
        drop.setAccessibleName(f"Do not read {folder}")
        drop.clicked.connect(lambda: self.dropped.emit(folder))
        across = QHBoxLayout(row)
        across.setContentsMargins(0, 0, 0, 0)
        across.addWidget(name, 1)
        across.addWidget(drop)
        return row


def _texts(name: str) -> QPlainTextEdit:
    """Return a field for texts of others, which are read and copied."""
    field = QPlainTextEdit()
    field.setReadOnly(True)
    field.setTabChangesFocus(True)
    field.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
    field.setAccessibleName(name)
    return field


def _show(field: QPlainTextEdit, text: str) -> bool:
    """Show a text, or the beginning of a very long one. Returns whether it is another."""
    shown = clean(text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}\n…")
    if other := shown != field.toPlainText():
        field.setPlainText(shown)
    return other
