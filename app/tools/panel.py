"""The panel of tools: the servers beside the page of one of them.

Knows its widgets; not what is done when one is used.
"""

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.theme.icons import sign_icon
from app.theme.labels import StatusLine, ToneLabel, closing
from app.theme.style import STYLE_SHEET, colours_of, zoomed
from app.tools.server_now import ServerNow
from app.tools.server_page import ServerPage
from models.in_words import one_line

_WHAT = (
    "With tools a model can act: read your notes, calculate, ask another program. "
    "Switch on what it may use; you see each call before it runs."
)
_LIST = """
QListWidget {
    border: 1px solid palette(mid); border-radius: 6px; background: palette(base); outline: none;
}
QListWidget::item { padding: 2px 6px; color: palette(text); }
QListWidget::item:selected { background: palette(midlight); color: palette(text); }
QListWidget:focus { border-color: palette(link); }
"""
_CLEAR = "#00000000"
_NAME = int(Qt.ItemDataRole.UserRole)


class ToolsPanel(QDialog):
    """Not modal, so that the chat can go on. Attributes: its parts; `chosen`, the name of the
    server whose page is shown. Signals: `page_chosen()`: that is another one.
    """

    page_chosen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.chosen = ""
        self.list, self.add = QListWidget(), QPushButton("Add a server…")
        self.line = StatusLine(wraps=True)
        self.page = ServerPage()
        self._servers: tuple[ServerNow, ...] = ()
        self.setWindowTitle("Tools")
        self.setModal(False)
        self.setStyleSheet(STYLE_SHEET)
        self._arrange()
        self.list.currentItemChanged.connect(self._on_chosen)
        for button in self.findChildren(QPushButton):
            button.setAutoDefault(False)

    def _arrange(self) -> None:
        what = ToneLabel(tone="muted")
        what.say(_WHAT)
        self.list.setAccessibleName("Servers")
        self.list.setStyleSheet(_LIST)
        self.list.setFixedWidth(zoomed(self, 200))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.add.setProperty("chief", True)  # see the style sheet
        left = QVBoxLayout()
        left.setSpacing(10)
        left.addWidget(self.list, 1)
        left.addWidget(self.add)
        across = QHBoxLayout()
        across.setSpacing(18)
        across.addLayout(left)
        across.addWidget(self.page, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 18, 20, 14)
        column.setSpacing(14)
        column.addWidget(what)
        column.addWidget(self.line)
        column.addLayout(across, 1)
        column.addWidget(closing(self))
        self.setMinimumSize(zoomed(self, 640), 440)
        wished = QSize(zoomed(self, 820), zoomed(self, 620))
        self.resize(wished.boundedTo(self.screen().availableSize()))

    def say(self, problem: str) -> None:
        """Show why the servers could not be read or kept; an empty text hides the line."""
        self.line.say(problem, "warning")
        self.line.setVisible(bool(problem))

    def show_servers(self, servers: Sequence[ServerNow]) -> None:
        """Show these, of which there is at least one."""
        self._servers = tuple(servers)
        if self.chosen not in (each.server.name for each in servers):
            self.chosen = servers[0].server.name
        self.list.blockSignals(True)
        while self.list.count() > len(servers):
            self.list.takeItem(self.list.count() - 1)
        for row, now in enumerate(servers):
            if row == self.list.count():
                self.list.addItem(QListWidgetItem())
            self._show_entry(self.list.item(row), now)
            if now.server.name == self.chosen:
                self.list.setCurrentRow(row)
                self.page.show_server(now)
        self.list.blockSignals(False)

    def choose(self, name: str) -> None:
        """Show the page of this server."""
        self.chosen = name
        self.show_servers(self._servers)
        self.page_chosen.emit()

    def _show_entry(self, entry: QListWidgetItem, now: ServerNow) -> None:
        title, short, colours = one_line(now.title), one_line(now.short), colours_of(self)
        inks = {"warning": colours.warning, "good": colours.accepted}
        ink = inks.get(now.line[1], _CLEAR)  # without a sign, the names still stand in one column
        entry.setIcon(
            sign_icon("warning" if now.line[1] == "warning" else "check", ink=ink, faint=ink)
        )
        entry.setData(_NAME, now.server.name)
        entry.setText(f"{title}\n{short}")
        entry.setData(int(Qt.ItemDataRole.AccessibleTextRole), f"{title}: {short}")
        entry.setSizeHint(QSize(0, 2 * self.list.fontMetrics().height() + 14))

    def _on_chosen(self, entry: QListWidgetItem | None) -> None:
        if entry is not None:
            self.choose(str(entry.data(_NAME)))
