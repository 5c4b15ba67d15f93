"""Everything in the sidebar can be done by keyboard, and says what it wants done once."""

from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtCore import QModelIndex, QPoint, Qt, SignalInstance
from PySide6.QtGui import QAction, QColor, QPainter, QPalette
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QLabel,
    QLineEdit,
    QMenu,
    QStyleOptionViewItem,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.conversations.records import Excerpt, Hit
from app.sidebar.conversation_list import ConversationList, FlatList
from app.sidebar.conversation_model import Index
from app.sidebar.conversation_rows import ConversationRows, HitRows, line_box
from app.sidebar.sidebar import Sidebar
from app.sidebar.undo_bar import UndoBar
from app.theme.palette import DARK
from tests.support.app.conversation_samples import NOW, SEVERAL, conversation

HITS = (
    Hit(1, None, "Boats", (Excerpt("Boats", True),)),
    Hit(2, 9, "Parsers", (Excerpt("no ", False), Excerpt("boats", True), Excerpt(" here", False))),
)


@pytest.fixture
def sidebar(qtbot: QtBot) -> Iterator[Sidebar]:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(280, 500)
    sidebar = Sidebar(window)
    sidebar.resize(280, 500)
    sidebar.set_conversations(SEVERAL, now=NOW)
    sidebar.set_shown(1)
    window.show()
    window.activateWindow()
    yield sidebar
    window.close()


def listen(signal: SignalInstance) -> list[Any]:
    """What the signal says, from now on."""
    heard: list[Any] = []
    signal.connect(lambda *said: heard.append(said[0] if len(said) == 1 else said))
    return heard


def part[T: QWidget](sidebar: Sidebar, kind: type[T], name: str = "") -> T:
    (found,) = (
        one for one in sidebar.findChildren(kind) if not name or one.accessibleName() == name
    )
    return found


def conversations(sidebar: Sidebar) -> ConversationList:
    return part(sidebar, ConversationList)


def search(sidebar: Sidebar) -> QLineEdit:
    return part(sidebar, QLineEdit, "Search in all conversations")


def found(sidebar: Sidebar) -> FlatList:
    return part(sidebar, FlatList, "Found")


def index(sidebar: Sidebar, row: int) -> QModelIndex:
    return conversations(sidebar).model().index(row, 0)


def middle(sidebar: Sidebar, row: int) -> QPoint:
    """Of the title in a row."""
    shown = conversations(sidebar)
    return line_box(shown.visualRect(index(sidebar, row)), shown.font()).center()


def click(sidebar: Sidebar, place: QPoint) -> None:
    QTest.mouseClick(conversations(sidebar).viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_a_click_chooses(sidebar: Sidebar) -> None:
    chosen = listen(sidebar.chosen)
    click(sidebar, middle(sidebar, 2))
    assert chosen == [2]


def test_a_click_on_a_heading_does_not(sidebar: Sidebar) -> None:
    chosen = listen(sidebar.chosen)
    click(sidebar, conversations(sidebar).visualRect(index(sidebar, 3)).topLeft() + QPoint(20, 4))
    assert chosen == []


def test_arrows_move_and_enter_chooses(sidebar: Sidebar) -> None:
    chosen = listen(sidebar.chosen)
    shown = conversations(sidebar)
    shown.setFocus()
    QTest.keyClick(shown, Qt.Key.Key_Down)
    QTest.keyClick(shown, Qt.Key.Key_Down)
    assert chosen == []
    QTest.keyClick(shown, Qt.Key.Key_Return)
    assert chosen == [3]


def test_a_title_is_edited_in_place(sidebar: Sidebar, qtbot: QtBot) -> None:
    renamed = listen(sidebar.renamed)
    shown = conversations(sidebar)
    shown.setFocus()
    QTest.keyClick(shown, Qt.Key.Key_F2)
    editor = part(sidebar, QLineEdit, "New title")
    assert editor.text() == "Boats"
    assert editor.selectedText() == "Boats"
    QTest.keyClicks(editor, "Ships")
    QTest.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: renamed == [(1, "Ships")])
    assert index(sidebar, 1).data() == "Ships"


def test_escape_discards_a_new_title(sidebar: Sidebar) -> None:
    renamed = listen(sidebar.renamed)
    sidebar.begin_rename(2)
    editor = part(sidebar, QLineEdit, "New title")
    QTest.keyClicks(editor, "Ships")
    QTest.keyClick(editor, Qt.Key.Key_Escape)
    assert renamed == []
    assert index(sidebar, 2).data() == "Parsers"


def test_a_new_list_waits_until_a_title_is_edited(sidebar: Sidebar, qtbot: QtBot) -> None:
    sidebar.begin_rename(2)
    editor = part(sidebar, QLineEdit, "New title")
    QTest.keyClicks(editor, "Zig")
    sidebar.set_conversations((conversation(8, "Newer"), *SEVERAL), now=NOW)
    assert editor.text() == "Zig"
    assert conversations(sidebar).model().rowCount() == 5
    QTest.keyClick(editor, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: conversations(sidebar).model().rowCount() == 6)


def test_a_deletion_can_be_undone(sidebar: Sidebar) -> None:
    deleted, restored = listen(sidebar.deleted), listen(sidebar.restored)
    bar, shown = part(sidebar, UndoBar), conversations(sidebar)
    assert not bar.isVisible()
    shown.setFocus()
    QTest.keyClick(shown, Qt.Key.Key_Delete)
    sidebar.set_conversations(SEVERAL[:1] + SEVERAL[2:], now=NOW)
    shown.setCurrentIndex(index(sidebar, 1))
    QTest.keyClick(shown, Qt.Key.Key_Delete)
    assert deleted == [1, 2]
    assert bar.isVisible()
    assert bar.text == "Deleted: Parsers"
    sidebar.undo_action.trigger()
    assert restored == [2]
    assert bar.text == "Deleted: Boats"
    (undo,) = (one for one in bar.findChildren(QAbstractButton) if one.text() == "Undo")
    QTest.mouseClick(undo, Qt.MouseButton.LeftButton)
    assert restored == [2, 1]
    assert not bar.isVisible()


def test_an_undo_can_be_withdrawn_or_closed(sidebar: Sidebar) -> None:
    bar = part(sidebar, UndoBar)
    bar.add(1, "one")
    bar.add(2, "two")
    sidebar.withdraw_undo(2)
    assert bar.text == "Deleted: one"
    QTest.mouseClick(part(sidebar, QAbstractButton, "Close"), Qt.MouseButton.LeftButton)
    assert not bar.isVisible()


def test_pinning_and_exports_are_about_the_current_line(sidebar: Sidebar) -> None:
    pinned, exported = listen(sidebar.pinned), listen(sidebar.export_asked)
    shown = conversations(sidebar)
    sidebar.pin_action.trigger()  # the list has no focus: the one that is shown
    shown.setFocus()
    shown.setCurrentIndex(index(sidebar, 0))
    menu = sidebar.menu()
    assert [one.text() for one in menu.actions() if one.text()] == [
        "Rename", "Unpin", "Export as Markdown…", "Export as JSON…", "Delete",
    ]  # fmt: skip
    menu.deleteLater()
    sidebar.pin_action.trigger()
    sidebar.export_json_action.trigger()
    sidebar.export_markdown_action.trigger()
    assert pinned == [(1, True), (7, False)]
    assert exported == [(7, "json"), (7, "markdown")]


@pytest.mark.qt_log_ignore("This plugin does not support")  # raising and grabbing
@pytest.mark.parametrize("how", ["right button", "sign"])
def test_the_menu_is_about_the_line_pointed_at(sidebar: Sidebar, how: str, qtbot: QtBot) -> None:
    pinned = listen(sidebar.pinned)
    if how == "sign":
        line = middle(sidebar, 2)
        click(sidebar, QPoint(conversations(sidebar).viewport().width() - 10, line.y()))
    else:
        conversations(sidebar).customContextMenuRequested.emit(middle(sidebar, 2))
    (menu,) = sidebar.findChildren(QMenu)
    (pin,) = (one for one in menu.actions() if one.text() == "Pin")
    menu.setActiveAction(pin)
    QTest.keyClick(menu, Qt.Key.Key_Return)
    assert pinned == [(2, True)]
    qtbot.waitUntil(lambda: not sidebar.findChildren(QMenu))


def test_new_and_import_are_requested(sidebar: Sidebar) -> None:
    new, imported = listen(sidebar.new_asked), listen(sidebar.import_asked)
    (button,) = (
        one for one in sidebar.findChildren(QAbstractButton) if one.text() == "New conversation"
    )
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    sidebar.new_action.trigger()
    sidebar.import_action.trigger()
    assert len(new) == 2
    assert len(imported) == 1


def test_a_search_is_requested_once_and_its_hits_are_shown(sidebar: Sidebar, qtbot: QtBot) -> None:
    asked, chosen = listen(sidebar.search_changed), listen(sidebar.hit_chosen)
    sidebar.find_action.trigger()
    field = search(sidebar)
    assert field.hasFocus()
    QTest.keyClicks(field, " boats ")
    qtbot.waitUntil(lambda: bool(asked))
    assert asked == ["boats"]
    sidebar.set_hits("boat", HITS)
    assert not found(sidebar).isVisible(), "the answer to an earlier question"
    sidebar.set_hits("boats", HITS)
    assert found(sidebar).isVisible()
    QTest.keyClick(field, Qt.Key.Key_Return)
    QTest.keyClick(field, Qt.Key.Key_Down)
    assert found(sidebar).hasFocus()
    QTest.keyClick(found(sidebar), Qt.Key.Key_Down)
    QTest.keyClick(found(sidebar), Qt.Key.Key_Return)
    assert chosen == [(1, None), (2, 9)]
    for _ in range(2):
        QTest.keyClick(found(sidebar), Qt.Key.Key_Up)
    assert field.hasFocus()
    QTest.keyClick(field, Qt.Key.Key_Escape)
    assert conversations(sidebar).isVisible()
    assert field.text() == ""


def test_empty_lists_are_explained(sidebar: Sidebar) -> None:
    search(sidebar).setText("<b>nothing")
    sidebar.set_hits("<b>nothing", ())
    assert found(sidebar).accessibleDescription().count("“<b>nothing”")
    sidebar.set_conversations((), now=NOW)
    assert conversations(sidebar).accessibleDescription()
    assert not sidebar.export_json_action.isEnabled()
    sidebar.rename_action.trigger()
    sidebar.delete_action.trigger()


def test_a_new_list_keeps_the_scroll_position(sidebar: Sidebar) -> None:
    many = tuple(conversation(n, f"Number {n}") for n in range(10, 210))
    sidebar.set_conversations(many, now=NOW)
    shown = conversations(sidebar)
    shown.setCurrentIndex(index(sidebar, 100))
    scrolled = shown.verticalScrollBar().value()
    assert scrolled > 0
    sidebar.set_conversations((conversation(8, "Newer"), *many), now=NOW)
    assert shown.currentIndex().row() == 101
    assert shown.verticalScrollBar().value() == scrolled


class CountingRows(ConversationRows):
    """Counts what it draws."""

    drawn = 0

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        self.drawn += 1
        super().paint(painter, option, index)


def test_of_two_thousand_lines_only_the_visible_ones_are_drawn(sidebar: Sidebar) -> None:
    shown = conversations(sidebar)
    rows = CountingRows(shown)
    shown.setItemDelegate(rows)
    many = tuple(conversation(n, f"Number {n}", days=n / 4) for n in range(2_000))
    sidebar.set_conversations(many, now=NOW)
    sidebar.grab()
    assert 0 < rows.drawn < 40


def test_a_match_is_bold(sidebar: Sidebar, qtbot: QtBot) -> None:
    """By weight, which is seen without colours: the ink of the same word."""

    def ink(match: bool) -> int:
        sidebar.set_hits("boats", (Hit(1, 2, "", (Excerpt("boats boats", match),)),))
        image = QWidget().grab().toImage().scaled(260, 60)
        image.fill(Qt.GlobalColor.white)
        option = QStyleOptionViewItem()
        option.rect = image.rect()
        painter = QPainter(image)
        HitRows().paint(painter, option, found(sidebar).model().index(0, 0))
        painter.end()
        pixels = (image.pixelColor(x, y) for x in range(260) for y in range(60))
        return sum(pixel.lightness() < 128 for pixel in pixels)

    search(sidebar).setText("boats")
    assert ink(True) > 1.2 * ink(False)


def test_shortcuts_of_the_list_work_only_in_it(sidebar: Sidebar) -> None:
    context = Qt.ShortcutContext.WidgetShortcut
    of_list: list[QAction] = conversations(sidebar).actions()
    assert [one.shortcutContext() for one in of_list] == [context] * 2
    deleted = listen(sidebar.deleted)
    field = search(sidebar)
    field.setFocus()
    QTest.keyClicks(field, "x")
    QTest.keyClick(field, Qt.Key.Key_Delete)
    assert deleted == []


def test_everything_has_a_name(sidebar: Sidebar) -> None:
    buttons = [
        one for one in sidebar.findChildren(QAbstractButton) if one.parent() != search(sidebar)
    ]
    assert all(one.accessibleName() or one.text() for one in buttons)
    labels = [one for one in sidebar.findChildren(QLabel) if one.text()]
    assert {one.textFormat() for one in labels} <= {Qt.TextFormat.PlainText}


def test_it_follows_a_dark_window_and_a_larger_font(sidebar: Sidebar) -> None:
    height = conversations(sidebar).visualRect(index(sidebar, 2)).height()
    palette = QPalette()
    palette.setColor(QPalette.ColorRole.Window, QColor(DARK.paper))
    sidebar.setPalette(palette)
    font = sidebar.font()
    font.setPointSizeF(2 * font.pointSizeF())
    sidebar.setFont(font)
    image = sidebar.grab().toImage()
    assert QColor(image.pixel(2, 2)).name() == DARK.code
    assert conversations(sidebar).visualRect(index(sidebar, 2)).height() > 1.5 * height - 10
