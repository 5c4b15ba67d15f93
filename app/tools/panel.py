"""The panel of tools: servers with their tools in a tree, and the details of the chosen row.

Knows its widgets; not the commands that follow them.
"""

from collections.abc import Iterable

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QTreeWidgetItem, QWidget

from app.layout import column_of, row_of, text_area, text_button
from app.theme.dialog import Dialog
from app.theme.icons import sign_icon
from app.theme.labels import ToneLabel, closing, plain_tip
from app.theme.row_tree import RowTree
from app.theme.style import colours_of, zoomed
from app.tools.server_rows import Place, Row
from engine.tools.protocol import OWN
from models.in_words import clean, one_line

_LONGEST_TEXT, _LONGEST_NOTE = 20_000, 240  # characters
_PLACE = int(Qt.ItemDataRole.UserRole)


class ToolsPanel(Dialog):
    """Not modal, so that the chat can go on. Attributes: its parts; `line`, why servers could not
    be read or kept; `items`, the tree's own; `chosen`, the place of the row in `text`.

    Signals: `ticked(Place, bool)`: the user switched this on or off.
    """

    ticked = Signal(Place, bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.chosen = Place(OWN)
        self.items: dict[Place, QTreeWidgetItem] = {}
        self._rows: dict[Place, Row] = {}
        self.setWindowTitle("Tools")
        self.line = ToneLabel(tone="warning")
        self.text = text_area(name="About the chosen row", fixed=True)
        self.tree = RowTree("Servers and their tools", wide=250)
        self.add, self.restart = text_button("Add a server…"), text_button("Restart")
        self.folder = text_button("Add a folder…", tip="A folder that the file tools may read")
        self.edit, self.remove = text_button("Edit…"), text_button("Remove")
        self.add.setProperty("chief", True)  # see the style sheet
        acts = (self.add, self.folder, self.restart, self.edit, self.remove)
        parts = (self.line, (self.tree, 3), (self.text, 2), row_of(*acts, (closing(self), 1)))
        column_of(*parts, on=self, margins=(20, 18, 20, 14), gap=12)
        self.setMinimumSize(zoomed(self, 640), 440)
        wished = QSize(zoomed(self, 820), zoomed(self, 680))
        self.resize(wished.boundedTo(self.screen().availableSize()))
        self.tree.setFocus()
        self.tree.currentItemChanged.connect(self._on_chosen)
        self.tree.itemChanged.connect(self._on_changed)

    def show_rows(self, rows: Iterable[Row]) -> None:
        """Show these rows, a server's in front of those below it. There must be some."""
        self._rows = {row.place: row for row in rows}
        with QSignalBlocker(self.tree):
            if [*self._rows] != [*self.items]:
                self._fill()
            for place, row in self._rows.items():
                self._show_row(self.items[place], row)
            server = Place(self.chosen.server)
            kept = (place for place in (self.chosen, server, *self.items) if place in self.items)
            self.chosen = next(kept)
            self.tree.setCurrentItem(self.items[self.chosen])
        self._show_chosen()

    def _fill(self) -> None:
        """Have an item for each row."""
        self.tree.clear()
        self.items = {place: QTreeWidgetItem() for place in self._rows}
        bold = self.tree.font()
        bold.setBold(True)
        for place, item in self.items.items():
            item.setData(0, _PLACE, place)
            if place.kind == "server":
                item.setFont(0, bold)
                self.tree.addTopLevelItem(item)
            else:
                self.items[Place(place.server)].addChild(item)
        self.tree.expandAll()

    def _show_row(self, item: QTreeWidgetItem, row: Row) -> None:
        title, ink = one_line(row.title), colours_of(self).warning
        item.setText(0, title)
        item.setToolTip(0, plain_tip(title))
        item.setText(1, one_line(row.note[:_LONGEST_NOTE]))
        item.setIcon(0, sign_icon("warning", ink=ink, faint=ink) if row.warns else QIcon())
        if row.on is not None:
            item.setCheckState(0, Qt.CheckState.Checked if row.on else Qt.CheckState.Unchecked)

    def _show_chosen(self) -> None:
        row, place = self._rows[self.chosen], self.chosen
        server = place.kind == "server" and place.server != OWN
        self.restart.setEnabled(server and bool(row.on))
        self.edit.setEnabled(server)
        self.remove.setEnabled(server or place.kind == "folder")
        text = clean(row.text()[:_LONGEST_TEXT])
        if text != self.text.toPlainText():
            self.text.setPlainText(text)

    def _on_chosen(self, item: QTreeWidgetItem | None) -> None:
        if item is not None:
            self.chosen = item.data(0, _PLACE)
            self._show_chosen()

    def _on_changed(self, item: QTreeWidgetItem) -> None:
        self.ticked.emit(item.data(0, _PLACE), item.checkState(0) == Qt.CheckState.Checked)
