"""The dialog in which a person adds servers, or edits one: typed, pasted, or from another program.

Knows servers as values, how they are written, and how a command is typed in a terminal; reads no
file.
"""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QPushButton,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from app.theme.labels import StatusLine, ToneLabel, plain_label
from app.theme.style import STYLE_SHEET, TABS, zoomed
from engine.tools.configuration import Configuration, masked, read, written
from engine.tools.protocol import Server
from models.errors import Problem
from models.in_words import one_line

_TYPED = "As you would type it in Terminal, or the address of a server on the web."
_PASTED = "Paste what a server’s page tells you to put into Claude Desktop, LM Studio or Cursor."
_FOUND = "Tick the servers to copy. The other program keeps its own, and all tools start off."
_MOST, _LONGEST = 5, 160  # servers whose commands are shown before they run; characters of each
_EXAMPLE = """{ "mcpServers": { "notes": { "command": "npx", "args": ["-y", "notes-server"] } } }"""


class SecretField(QLineEdit):
    """Shows dots for its text unless a person is at it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.setEchoMode(self.EchoMode.Password)

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.setEchoMode(self.EchoMode.Normal)
        super().focusInEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.setEchoMode(self.EchoMode.Password)
        super().focusOutEvent(event)


class CommandField(QLineEdit):
    """Shows dots for keys in a command or an address, unless a person is at it. Attribute:
    `written`, the whole text."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.written = typed(server)
        self._mask()
        self.textEdited.connect(self._keep)

    @property
    def is_address(self) -> bool:
        return self.written.startswith(("http://", "https://"))

    @property
    def server(self) -> Server:
        """A server with only that. Raises Problem."""
        if self.is_address:
            return Server("", url=self.written)
        try:
            command, *arguments = shlex.split(self.written) or ("",)
        except ValueError:
            raise Problem("A quotation mark is not closed.", "Close it.") from None
        return Server("", command, tuple(arguments))

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.setText(self.written)
        super().focusInEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self._mask()
        super().focusOutEvent(event)

    def _keep(self, text: str) -> None:
        self.written = text.strip()

    def _mask(self) -> None:
        with suppress(Problem):
            self.setText(typed(masked(self.server)) if self.written else "")


class ServerForm(QWidget):
    """Attributes: its fields; `pairs`, those of the environment's variables or of the headers.
    Signals: `edited()`."""

    edited = Signal()

    def __init__(self, server: Server | None = None) -> None:
        """Edits `server`, or makes a new one."""
        super().__init__()
        self._server = server or Server("")
        self.name = QLineEdit(self._server.name)
        self.runs = CommandField(self._server)
        self.pairs: list[tuple[QLineEdit, SecretField]] = []
        self._more = QPushButton("Another one")
        self._grid = QGridLayout()
        self._what = ToneLabel(tone="muted")
        self._arrange()
        kept = self._server.headers if self._server.url else self._server.env
        for name, value in (*kept.items(), ("", "")):
            self._add(name, value)
        self.name.textChanged.connect(self.edited)
        self.runs.textEdited.connect(self._follow)
        self._more.clicked.connect(lambda: self._add("", ""))
        self._follow()

    def _arrange(self) -> None:
        how = ToneLabel(tone="muted")
        how.say(_TYPED)
        self.name.setPlaceholderText("notes")
        self.runs.setPlaceholderText("npx -y @modelcontextprotocol/server-filesystem ~/Notes")
        self._more.setAutoDefault(False)
        self._grid.setSpacing(8)
        self._grid.setColumnStretch(1, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 12, 0, 0)
        column.setSpacing(6)
        for words, field in (("Name", self.name), ("Command or address", self.runs)):
            field.setAccessibleName(words)
            column.addWidget(plain_label(words, buddy=field))
            column.addWidget(field)
        column.addWidget(how)
        column.addSpacing(8)
        column.addWidget(self._what)
        column.addLayout(self._grid)
        column.addWidget(self._more, 0, Qt.AlignmentFlag.AlignLeft)
        column.addStretch(1)

    @property
    def server(self) -> Server:
        """The server as it is written. Raises Problem."""
        name, runs = self.name.text().strip(), self.runs.server
        if not name or not (runs.command or runs.url):
            raise Problem("A server needs a name, and a command or an address.", "Fill in both.")
        values = {a.text().strip(): b.text() for a, b in self.pairs if a.text().strip()}
        kept = replace(runs, name=name, cwd=self._server.cwd)
        return replace(kept, headers=values) if runs.url else replace(kept, env=values)

    def _add(self, name: str, value: str) -> None:
        row = len(self.pairs)
        fields = QLineEdit(name), SecretField(value)
        for column, (field, words) in enumerate(zip(fields, ("Name", "Value"), strict=True)):
            field.setPlaceholderText(words)
            field.textChanged.connect(self.edited)
            self._grid.addWidget(field, row, column)
        fields[0].setAccessibleName(f"Name of value {row + 1}")
        fields[1].setAccessibleName(f"Value {row + 1}")
        self.pairs.append(fields)

    def _follow(self) -> None:
        kind = "Headers" if self.runs.is_address else "Environment"
        self._what.say(f"{kind}: keys and the like. Values are hidden, and never sent to a model.")
        self.edited.emit()


class ServerDialog(QDialog):
    """Attributes: its pages, as far as it has them; `line`, an error.

    Signals: `made(object)`: a person accepted these servers, a tuple.
    """

    made = Signal(object)

    def __init__(
        self,
        server: Server | None = None,
        *,
        found: Mapping[str, Sequence[Server]],
        parent: QWidget,
    ) -> None:
        """Edits `server`, or adds some. `found` are the servers in programs on this machine, by the
        programs' names."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(f"Edit {one_line(server.name)}" if server else "Add a server")
        self.setStyleSheet(STYLE_SHEET)
        self.form, self.paste, self.list = ServerForm(server), QPlainTextEdit(), QListWidget()
        self.line = StatusLine(wraps=True)
        self.tabs = QTabWidget()
        self._servers = [one for servers in found.values() for one in servers]
        roles = QDialogButtonBox.StandardButton
        buttons = QDialogButtonBox(roles.Ok | roles.Cancel, self)
        self.ok = buttons.button(roles.Ok)
        self.ok.setText("Save" if server else "Add")
        buttons.accepted.connect(self._accept)
        buttons.rejected.connect(self.reject)
        self._arrange(found, buttons, alone=server is not None)
        self.form.edited.connect(self._follow)
        self.paste.textChanged.connect(self._follow)
        self.list.itemChanged.connect(self._follow)
        self.tabs.currentChanged.connect(self._follow)
        self._follow()

    @property
    def servers(self) -> tuple[Server, ...]:
        """Those of the page that is shown. Raises Problem."""
        match self.tabs.currentWidget():
            case self.form:
                return read(written(Configuration((self.form.server,)))).servers
            case page if page.isAncestorOf(self.paste):
                return read(self.paste.toPlainText()).servers
            case _:
                rows = (row for row in range(self.list.count()) if self._ticked(row))
                return tuple(self._servers[row] for row in rows)

    def _arrange(
        self,
        found: Mapping[str, Sequence[Server]],
        buttons: QDialogButtonBox,
        *,
        alone: bool,
    ) -> None:
        self.paste.setTabChangesFocus(True)
        self.paste.setAccessibleName("JSON of servers")
        self.paste.setPlaceholderText(_EXAMPLE)
        self.list.setAccessibleName("Servers in other programs")
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setSpacing(3)
        for program, servers in found.items():
            for server in servers:
                item = QListWidgetItem(f"{one_line(server.name)}\n{program}: {shown(server)}")
                item.setCheckState(Qt.CheckState.Unchecked)
                self.list.addItem(item)
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setDrawBase(False)
        self.tabs.tabBar().setVisible(not alone)
        self.tabs.setStyleSheet(TABS)
        self.tabs.addTab(self.form, "By hand")
        if not alone:
            self.tabs.addTab(_page(_PASTED, self.paste), "Paste")
        if found and not alone:
            self.tabs.addTab(_page(_FOUND, self.list), f"From {' and '.join(found)}")
            self.tabs.setCurrentIndex(2)
        column = QVBoxLayout(self)
        column.setContentsMargins(18, 12, 18, 14)
        column.setSpacing(12)
        column.addWidget(self.tabs, 1)
        column.addWidget(self.line)
        column.addWidget(buttons)
        self.resize(zoomed(self, 540), 420)

    def _ticked(self, row: int) -> bool:
        return self.list.item(row).checkState() == Qt.CheckState.Checked

    def _follow(self) -> None:
        """Say what is wrong once something is written, and whether it can be accepted."""
        try:
            servers = self.servers
        except Problem as problem:
            begun = self.tabs.currentIndex() == 1 and self.paste.toPlainText().strip()
            self.line.say(str(problem) if begun else "", "warning")
            self.ok.setEnabled(False)
            return
        lines = [f"{one_line(one.name)}: {shown(one)[:_LONGEST]}" for one in servers[:_MOST]]
        if (more := len(servers) - _MOST) > 0:
            lines.append(f"and {more} more")
        self.line.say("\n".join(lines) if self.tabs.currentIndex() == 1 else "")
        self.ok.setEnabled(bool(servers))

    def _accept(self) -> None:
        try:
            servers = self.servers
        except Problem as problem:
            self.line.say(str(problem), "warning")
            return
        self.made.emit(servers)
        self.accept()


def typed(server: Server) -> str:
    """Return the address of a server, or its command as it is typed in a terminal."""
    return server.url or shlex.join((server.command, *server.args) if server.command else ())


def shown(server: Server) -> str:
    """Return what a server runs and the names of its keys, without their values."""
    names = (*server.env, *server.headers)
    keys = "".join(f" · {one_line(name)} ••••" for name in names)
    return one_line(typed(masked(server))) + keys


def _page(words: str, field: QWidget) -> QWidget:
    page, what = QWidget(), ToneLabel(tone="muted")
    what.say(words)
    column = QVBoxLayout(page)
    column.setContentsMargins(0, 12, 0, 0)
    column.setSpacing(8)
    column.addWidget(what)
    column.addWidget(field, 1)
    return page
