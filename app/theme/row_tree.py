"""A tree of rows that may be ticked: a name, and a muted line about it."""

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import (
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTreeWidget,
    QTreeWidgetItem,
)

from app.theme.style import zoomed
from models.in_words import one_line


class RowTree(QTreeWidget):
    """Has two columns and no header; `wide` is the width of the names, in pixels."""

    def __init__(self, name: str, *, wide: float) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setItemDelegate(_Quiet(self))
        self.setColumnCount(2)
        self.setColumnWidth(0, zoomed(self, wide))
        self.setHeaderHidden(True)
        self.setAllColumnsShowFocus(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def show_lines(self, lines: Sequence[tuple[str, str]]) -> None:
        """Show these rows without branches, each a name and the line about it."""
        self.setRootIsDecorated(False)
        while self.topLevelItemCount() > len(lines):
            self.takeTopLevelItem(len(lines))
        for place, texts in enumerate(lines):
            item = self.topLevelItem(place) or QTreeWidgetItem(self)
            for column, text in enumerate(texts):
                item.setText(column, one_line(text))


class _Quiet(QStyledItemDelegate):
    """Mutes the second column, and shows the edges of check boxes on a dark window too."""

    def initStyleOption(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        muted = option.palette.color(QPalette.ColorRole.PlaceholderText)
        option.palette.setColor(QPalette.ColorRole.Window, muted)  # Fusion draws edges darker
        if index.column():
            option.palette.setColor(QPalette.ColorRole.Text, muted)
