"""Rows have a muted second column, in the colours of a light and a dark window."""

import pytest
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QStyleOptionViewItem, QTreeWidgetItem

from app.theme.palette import DARK, LIGHT
from app.theme.row_tree import RowTree
from app.theme.style import qt_palette


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_only_the_line_about_a_row_is_muted(qtbot, colours):
    tree = RowTree("Rows", wide=100)
    qtbot.addWidget(tree)
    QTreeWidgetItem(tree, ["name", "about it"])
    inks = []
    for column in range(2):
        option = QStyleOptionViewItem()
        option.palette = qt_palette(colours)
        tree.itemDelegate().initStyleOption(option, tree.model().index(0, column))
        inks.append(option.palette.color(QPalette.ColorRole.Text).name())
    assert inks == [colours.text, colours.muted]
