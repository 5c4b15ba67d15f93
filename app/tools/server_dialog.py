"""The dialog in which the user adds servers, or edits one: written in a field, or ticked in a list
of the servers of other programs.

Knows servers as values; reads no file.
"""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QDialogButtonBox, QTreeWidgetItem, QWidget

from app.layout import column_of, text_area
from app.theme.dialog import Dialog
from app.theme.labels import StatusLine, accepting, plain_label
from app.theme.row_tree import RowTree
from app.theme.style import zoomed
from app.tools.written_servers import hidden, servers_in, shown
from engine.tools.protocol import Server
from models.errors import Problem
from models.in_words import one_line

_WRITE = (
    "A command as you would type it in Terminal, an address, or the JSON that a server’s page has "
    "for Claude Desktop, LM Studio or Cursor."
)
_EDIT = (
    "Keys are shown as dots: leave the dots, or replace them with a new key. The "
    "name can be another, too."
)
_EXAMPLES = """npx -y @modelcontextprotocol/server-filesystem ~/Notes

https://search.example/mcp

{ "mcpServers": { "notes": { "command": "npx", "args": ["-y", "notes-server"] } } }"""
_FOUND = "Or tick what to copy from other programs. They keep theirs, and all tools start off."
_MOST, _LONGEST = 5, 200  # servers whose commands are shown before they run; characters of each


class ServerDialog(Dialog):
    """Attributes: `text`, the field; `line`, its meaning or its mistake; `list`,
    the servers in other programs; `ok`. It can be accepted only while `servers` are right."""

    def __init__(
        self,
        server: Server | None = None,
        *,
        found: Sequence[tuple[str, Server]],
        parent: QWidget,
    ) -> None:
        """Edits `server`, or adds some. `found` are those in other programs on this machine, with
        the programs' names."""
        super().__init__(parent)
        self.setWindowTitle(f"Edit {one_line(server.name)}" if server else "Add a server")
        self._edited = server
        name, written = "Command, address or JSON", hidden(server)[0] if server else ""
        self.text = text_area(written, name=name, hint=_EXAMPLES)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.line = StatusLine(wraps=True)
        self.list = RowTree("Servers in other programs", wide=150)
        self.list.setRootIsDecorated(False)
        self._found = [
            (QTreeWidgetItem(self.list, [one_line(one.name), f"{program}: {shown(one)}"]), one)
            for program, one in found
        ]
        for item, _ in self._found:
            item.setCheckState(0, Qt.CheckState.Unchecked)
        buttons = accepting(self, "Save" if server else "Add")
        self.ok = buttons.button(QDialogButtonBox.StandardButton.Ok)
        how = plain_label(_EDIT if server else _WRITE, tone="muted", wraps=True)
        copy = plain_label(_FOUND, tone="muted", wraps=True)
        parts = (how, self.text, self.line, copy, self.list, buttons)
        column_of(*parts, on=self, margins=(18, 16, 18, 14), gap=10)
        copy.setVisible(bool(found))
        self.list.setVisible(bool(found))
        self.resize(zoomed(self, 600), 460)
        self.text.textChanged.connect(self._follow)
        self.list.itemChanged.connect(self._follow)
        self._follow()

    @property
    def servers(self) -> tuple[Server, ...]:
        """The written servers, and the ticked ones. Raises Problem."""
        text, ticked = self.text.toPlainText(), Qt.CheckState.Checked
        written = servers_in(text, self._edited) if text.strip() else ()
        return (*written, *(one for item, one in self._found if item.checkState(0) == ticked))

    def _follow(self) -> None:
        """Show the meaning or the mistake, and whether the text can be accepted."""
        try:
            servers = self.servers
        except Problem as problem:
            self.line.say(str(problem), "warning")
            self.ok.setEnabled(False)
            return
        lines = [f"{one_line(one.name)}: {shown(one)}"[:_LONGEST] for one in servers[:_MOST]]
        if len(servers) > _MOST:
            lines.append(f"and {len(servers) - _MOST} more")
        self.line.say("\n".join(lines))
        self.ok.setEnabled(bool(servers))
