"""Everything in the sidebar can be done by keyboard, and says what it wants done once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import (
    QColor,
    QDragEnterEvent,
    QDragMoveEvent,
    QDropEvent,
    QFont,
)
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QLineEdit,
    QMenu,
    QWidget,
)

from app.conversations.records import Excerpt, Filing, Folder, Hit, SearchFilter, Undo
from app.sidebar.conversation_list import ConversationList, FlatList
from app.sidebar.conversation_model import ELSEWHERE, SHOWN
from app.sidebar.conversation_rows import excerpt_layout, line_box
from app.sidebar.sidebar import Sidebar
from app.sidebar.undo_bar import UndoBar
from app.theme.palette import DARK, LIGHT
from app.theme.style import qt_palette
from tests.support.app.conversation_samples import NOW, SEVERAL, conversation

HITS = (
    Hit(1, None, "Boats", (Excerpt("Boats", True),)),
    Hit(2, 9, "Parsers", (Excerpt("no ", False), Excerpt("boats", True), Excerpt(" here", False))),
)


@pytest.fixture
def sidebar(qtbot):
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


def listen(signal):
    """What the signal says, from now on."""
    heard = []
    signal.connect(lambda *said: heard.append(said[0] if len(said) == 1 else said))
    return heard


def part(sidebar, kind, name=""):
    (found,) = (
        one for one in sidebar.findChildren(kind) if not name or one.accessibleName() == name
    )
    return found


def conversations(sidebar):
    return part(sidebar, ConversationList)


def search(sidebar):
    return part(sidebar, QLineEdit, "Search all conversations")


def found(sidebar):
    return part(sidebar, FlatList, "Found")


def index(sidebar, row):
    return conversations(sidebar).model().index(row, 0)


def middle(sidebar, row):
    """Of the title in a row."""
    shown = conversations(sidebar)
    return line_box(shown.visualRect(index(sidebar, row)), shown.font()).center()


def change(*conversations):
    """What takes a change of these back."""
    return Undo(tuple(Filing(id, None, False, None) for id in conversations))


def lines(sidebar):
    model = conversations(sidebar).model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def menu_of(sidebar):
    return [one for one in sidebar.findChildren(QMenu) if one.parent() is sidebar]


def click(sidebar, place):
    QTest.mouseClick(conversations(sidebar).viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_a_click_or_enter_chooses_and_a_heading_or_an_arrow_does_not(sidebar):
    chosen = listen(sidebar.chosen)
    shown = conversations(sidebar)
    click(sidebar, middle(sidebar, 2))
    assert chosen == [2]
    click(sidebar, shown.visualRect(index(sidebar, 3)).topLeft() + QPoint(20, 4))
    shown.setFocus()
    QTest.keyClick(shown, Qt.Key.Key_Down)
    assert chosen == [2]
    QTest.keyClick(shown, Qt.Key.Key_Return)
    assert chosen == [2, 3]


def test_a_title_is_edited_in_place(sidebar, qtbot):
    renamed, chosen = listen(sidebar.renamed), listen(sidebar.chosen)
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
    assert chosen == [], "Enter ends the title, and opens nothing"


def test_a_new_list_waits_until_a_title_is_edited_and_escape_discards_the_title(sidebar, qtbot):
    renamed = listen(sidebar.renamed)
    sidebar.begin_rename(2)
    editor = part(sidebar, QLineEdit, "New title")
    QTest.keyClicks(editor, "Zig")
    sidebar.set_conversations((conversation(8, "Newer"), *SEVERAL), now=NOW)
    assert editor.text() == "Zig"
    assert conversations(sidebar).model().rowCount() == 5
    QTest.keyClick(editor, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: conversations(sidebar).model().rowCount() == 6)
    assert (renamed, index(sidebar, 3).data()) == ([], "Parsers")


def test_a_deletion_can_be_undone_or_its_undo_closed(sidebar):
    deleted, restored = listen(sidebar.deleted), listen(sidebar.undone)
    bar, shown = part(sidebar, UndoBar), conversations(sidebar)
    shown.setFocus()
    QTest.keyClick(shown, Qt.Key.Key_Delete)
    assert (deleted, bar.isVisible(), sidebar.restore_action.isEnabled()) == ([(1,)], False, False)
    first, second = change(1), change(2)
    sidebar.offer_undo(first, "Deleted")
    sidebar.offer_undo(second, "Deleted")
    assert bar.isVisible()
    assert "Parsers" in bar.text
    sidebar.restore_action.trigger()
    assert "Parsers" not in bar.text
    (undo,) = (one for one in bar.findChildren(QAbstractButton) if one.text() == "Undo")
    QTest.mouseClick(undo, Qt.MouseButton.LeftButton)
    assert restored == [second, first]
    assert not bar.isVisible()
    assert not sidebar.restore_action.isEnabled()
    for failed in (second, first):
        sidebar.undo_bar.put_back(failed)
    sidebar.restore_action.trigger()
    assert restored == [second, first, second], "the last change is still the first"
    sidebar.offer_undo(change(1, 2, 3), "Moved")
    assert "3 conversations" in bar.text
    QTest.mouseClick(part(sidebar, QAbstractButton, "Close"), Qt.MouseButton.LeftButton)
    assert not bar.isVisible()


def test_commands_are_about_a_new_conversation_and_not_about_the_one_before(sidebar):
    pinned = listen(sidebar.pinned)
    new = conversation(99, title="New")
    conversations(sidebar).go_to(index(sidebar, 3))
    sidebar.set_shown(None)
    assert conversations(sidebar).selectedIndexes() == []
    sidebar.set_shown(99)  # it comes to be listed later
    assert conversations(sidebar).selectedIndexes() == []
    sidebar.set_conversations((SEVERAL[0], new, *SEVERAL[1:]), now=NOW)
    sidebar.pin_action.trigger()
    assert pinned == [((99,), True)]
    (selected,) = conversations(sidebar).selectedIndexes()
    assert selected.data(Qt.ItemDataRole.DisplayRole) == "New"


def test_pinning_and_exports_are_about_the_current_line_until_the_list_is_left(sidebar):
    pinned, exported = listen(sidebar.pinned), listen(sidebar.export_asked)
    shown = conversations(sidebar)
    sidebar.pin_action.trigger()  # the list has no focus: the one that is shown
    shown.setFocus()
    shown.go_to(index(sidebar, 0))
    menu = sidebar.menu()
    assert [one.text() for one in menu.actions() if one.text()] == [
        "Open in a new window", "Rename", "Duplicate", "Unpin", "Move to", "Archive",
        "Export", "Delete",
    ]  # fmt: skip
    menu.deleteLater()
    sidebar.pin_action.trigger()
    sidebar.export_actions["json"].trigger()
    search(sidebar).setFocus(Qt.FocusReason.MouseFocusReason)
    sidebar.pin_action.trigger()
    sidebar.set_conversations((), now=NOW)
    assert not sidebar.export_actions["json"].isEnabled()
    sidebar.rename_action.trigger()
    sidebar.delete_action.trigger()
    assert pinned == [((1,), True), ((7,), False), ((1,), True)]
    assert exported == [(7, "json")]


@pytest.mark.parametrize("how", ["right button", "sign"])
def test_the_menu_is_about_the_line_pointed_at(sidebar, how, qtbot):
    pinned = listen(sidebar.pinned)
    if how == "sign":
        line = middle(sidebar, 2)
        click(sidebar, QPoint(conversations(sidebar).viewport().width() - 10, line.y()))
    else:
        conversations(sidebar).customContextMenuRequested.emit(middle(sidebar, 2))
    (menu,) = menu_of(sidebar)
    (pin,) = (one for one in menu.actions() if one.text() == "Pin")
    menu.setActiveAction(pin)
    QTest.keyClick(menu, Qt.Key.Key_Return)
    assert pinned == [((2,), True)]
    qtbot.waitUntil(lambda: not sidebar.findChildren(QMenu))


CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


def test_ctrl_and_shift_select_several_and_open_none(sidebar):
    chosen, deleted = listen(sidebar.chosen), listen(sidebar.deleted)
    view = conversations(sidebar).viewport()
    click(sidebar, middle(sidebar, 1))
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, CTRL, middle(sidebar, 3))
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, CTRL, middle(sidebar, 2))
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, CTRL, middle(sidebar, 2))
    assert chosen == [1]
    sidebar.delete_action.trigger()
    click(sidebar, middle(sidebar, 2))
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, SHIFT, middle(sidebar, 4))
    sidebar.delete_action.trigger()
    assert deleted == [(1, 3), (2, 3, 4)]
    assert chosen == [1, 2]


def test_commands_for_several_at_once(sidebar):
    pinned, exported = listen(sidebar.pinned), listen(sidebar.export_many_asked)
    archived = listen(sidebar.archived)
    shown = conversations(sidebar)
    shown.setFocus()
    QTest.keyClick(shown, Qt.Key.Key_A, CTRL)
    menu = sidebar.menu()
    texts = [one.text() for one in menu.actions() if one.text()]
    assert texts == ["Pin", "Move to", "Archive", "Export 5 conversations…", "Delete"]
    menu.actions()[texts.index("Export 5 conversations…") + 1].trigger()
    menu.deleteLater()
    sidebar.pin_action.trigger()
    sidebar.archive_action.trigger()
    sidebar.export_actions["json"].trigger()
    everything = (7, 1, 2, 3, 4)
    assert pinned == archived == [(everything, True)]
    assert exported == [everything] * 2
    assert not sidebar.rename_action.isEnabled()


def test_a_new_list_keeps_what_is_selected(sidebar):
    deleted = listen(sidebar.deleted)
    shown = conversations(sidebar)
    shown.setFocus()
    shown.go_to(index(sidebar, 1))
    QTest.keyClick(shown, Qt.Key.Key_Down, SHIFT)
    sidebar.set_conversations((conversation(8, "Newer"), *SEVERAL), now=NOW)
    sidebar.set_shown(1)
    sidebar.delete_action.trigger()
    assert deleted == [(1, 2)]


def test_a_folder_opens_and_closes(sidebar):
    opened = listen(sidebar.folder_opened)
    filed = tuple(replace(one, folder=5) if one.id in (2, 3) else one for one in SEVERAL)
    sidebar.set_conversations(filed, (Folder(5, "Work"), Folder(6, "Zoo")), now=NOW)
    assert lines(sidebar) == ["Pinned long ago", "Work", "Parsers", "Soup", "Zoo", "Boats",
                              "New conversation"]  # fmt: skip
    sidebar.setPalette(qt_palette(DARK))
    assert QColor(sidebar.grab().toImage().pixel(2, 2)).name() == DARK.code
    click(sidebar, middle(sidebar, 1))
    assert lines(sidebar) == ["Pinned long ago", "Work", "Zoo", "Boats", "New conversation"]
    shown = conversations(sidebar)
    shown.setFocus()
    QTest.keyClick(shown, Qt.Key.Key_Right)
    QTest.keyClick(shown, Qt.Key.Key_Right)  # open already
    assert len(lines(sidebar)) == 7
    QTest.keyClick(shown, Qt.Key.Key_Down)
    QTest.keyClick(shown, Qt.Key.Key_Left)  # to the folder
    QTest.keyClick(shown, Qt.Key.Key_Left)
    QTest.keyClick(shown, Qt.Key.Key_Return)
    QTest.keyClick(shown, Qt.Key.Key_Space)
    assert opened == [(5, False), (5, True), (5, False), (5, True), (5, False)]


def test_a_folder_is_renamed_and_deleted(sidebar, qtbot):
    renamed, gone = listen(sidebar.folder_renamed), listen(sidebar.folder_deleted)
    deleted = listen(sidebar.deleted)
    sidebar.set_conversations(SEVERAL, (Folder(5, "Work"),), now=NOW)
    sidebar.begin_folder_rename(5)
    editor = part(sidebar, QLineEdit, "New name")
    QTest.keyClicks(editor, "Home")
    QTest.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: renamed == [(5, "Home")])
    shown = conversations(sidebar)
    shown.setFocus()
    shown.go_to(index(sidebar, 1))
    assert not sidebar.pin_action.isEnabled()
    QTest.keyClick(shown, Qt.Key.Key_Delete)
    assert gone == [5]
    assert deleted == []
    begun, asked = listen(sidebar.new_in_folder_asked), listen(sidebar.folder_setup_asked)
    menu = sidebar.folder_menu()
    for action in menu.actions()[:2]:
        action.trigger()
    assert (begun, asked) == ([5], [Folder(5, "Home")])
    menu.deleteLater()


def test_archived_ones_stand_at_the_end_and_are_closed(sidebar):
    archived = listen(sidebar.archived)
    put = tuple(replace(one, archived=one.id in (1, 7)) for one in SEVERAL)
    sidebar.set_conversations(put, now=NOW)
    assert lines(sidebar) == ["Parsers", "Soup", "New conversation", "Archived"]
    click(sidebar, middle(sidebar, 3))
    assert lines(sidebar)[-2:] == ["Pinned long ago", "Boats"]
    shown = conversations(sidebar)
    shown.setFocus()
    shown.go_to(index(sidebar, 5))
    assert sidebar.archive_action.text() == "Unarchive"
    sidebar.archive_action.trigger()
    assert archived == [((1,), False)]


def drop(sidebar, rows, place):
    """Drop the conversations in these rows there."""
    shown = conversations(sidebar)
    data = shown.model().mimeData([index(sidebar, row) for row in rows])
    action, button = Qt.DropAction.MoveAction, Qt.MouseButton.LeftButton
    view, none = shown.viewport(), Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(view, QDragEnterEvent(place, action, data, button, none))
    QApplication.sendEvent(view, QDragMoveEvent(place, action, data, button, none))
    sidebar.grab()
    QApplication.sendEvent(view, QDropEvent(QPointF(place), action, data, button, none))


def test_conversations_are_dragged_into_folders_and_out_of_them(sidebar):
    moved, archived = listen(sidebar.moved), listen(sidebar.archived)
    filed = tuple(
        replace(one, folder=5 if one.id == 2 else None, archived=one.id == 4) for one in SEVERAL
    )
    sidebar.set_conversations(filed, (Folder(5, "Work"),), now=NOW)
    assert lines(sidebar) == ["Pinned long ago", "Work", "Parsers", "Boats", "Soup", "Archived"]
    drop(sidebar, [3, 4], middle(sidebar, 1))  # on the folder's line
    drop(sidebar, [0], middle(sidebar, 2))  # on one that is in it
    drop(sidebar, [2], middle(sidebar, 2))  # where it is already
    drop(sidebar, [2], middle(sidebar, 4))
    drop(sidebar, [2], conversations(sidebar).viewport().rect().bottomLeft() + QPoint(20, -4))
    drop(sidebar, [3], middle(sidebar, 5))
    assert moved == [((1, 3), 5), ((7,), 5), ((2,), None), ((2,), None)]
    assert archived == [((1,), True)]


def test_the_menu_moves_to_a_folder(sidebar):
    moved, wanted = listen(sidebar.moved), listen(sidebar.folder_wanted)
    sidebar.set_conversations(SEVERAL, (Folder(5, "R&D"),), now=NOW)
    menu = sidebar.menu()
    (move,) = (one.menu() for one in menu.actions() if one.text() == "Move to")
    assert isinstance(move, QMenu)
    entries = {one.text(): one for one in move.actions()}
    assert not entries["No folder"].isEnabled()
    entries["R&&D"].trigger()
    entries["New folder"].trigger()
    menu.deleteLater()
    assert moved == [((1,), 5)]
    assert wanted == [(1,)]


def test_new_ones_and_imports_are_requested(sidebar):
    new, imported = listen(sidebar.new_asked), listen(sidebar.import_asked)
    buttons = sidebar.findChildren(QAbstractButton)
    (button,) = (one for one in buttons if one.text() == "New conversation")
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    sidebar.new_action.trigger()
    sidebar.import_action.trigger()
    assert (len(new), len(imported)) == (2, 1)


def test_a_search_is_requested_once_and_its_hits_are_shown(sidebar, qtbot):
    asked, chosen = listen(sidebar.search_changed), listen(sidebar.hit_chosen)
    hits = found(sidebar).model()
    sidebar.search_action.trigger()
    field = search(sidebar)
    assert field.hasFocus()
    QTest.keyClicks(field, " boats ")
    qtbot.waitUntil(lambda: bool(asked))
    assert asked == [("boats", SearchFilter())]
    sidebar.set_hits("boat", HITS)
    assert not found(sidebar).isVisible(), "the answer to an earlier question"
    sidebar.set_hits("boats", HITS)
    assert found(sidebar).isVisible()
    QTest.keyClick(field, Qt.Key.Key_Return)
    QTest.keyClick(field, Qt.Key.Key_Down)
    assert found(sidebar).hasFocus()
    QTest.keyClick(found(sidebar), Qt.Key.Key_Down)
    QTest.keyClick(found(sidebar), Qt.Key.Key_Return)
    assert chosen == [(1, None, "boats"), (2, 9, "boats")]
    marked = [hits.index(row, 0).data(SHOWN) for row in range(2)]
    assert marked == [False, True]
    found(sidebar).grab()
    sidebar.set_hits("boats", HITS)
    assert hits.index(1, 0).data(SHOWN), "the same search again"
    sidebar.set_shown(3)
    assert not hits.index(1, 0).data(SHOWN), "another conversation was opened"
    for _ in range(2):
        QTest.keyClick(found(sidebar), Qt.Key.Key_Up)
    assert field.hasFocus()
    QTest.keyClick(field, Qt.Key.Key_Escape)
    assert conversations(sidebar).isVisible()
    assert field.text() == ""


def test_a_search_is_narrowed_by_age_and_model(sidebar):
    age, model = (part(sidebar, QComboBox, name) for name in ("Filter by age", "Filter by model"))
    assert not age.isVisible()
    asked = listen(sidebar.search_changed)
    search(sidebar).setText("boats")
    assert age.isVisible()
    sidebar.set_targets(("Qwen3", "tiny"))
    model.setCurrentIndex(2)
    model.activated.emit(2)
    age.setCurrentIndex(2)
    sidebar.set_targets(("new", "Qwen3", "tiny"))
    age.activated.emit(2)
    (_, first), (_, second) = asked
    assert first == SearchFilter(None, "tiny")
    assert second.target == "tiny"
    assert timedelta(0) <= datetime.now(UTC) - second.since - timedelta(days=7) < timedelta(hours=1)
    search(sidebar).clear()
    assert not age.isVisible()


def test_a_new_list_keeps_the_scroll_position(sidebar):
    many = tuple(conversation(n, f"Number {n}") for n in range(10, 210))
    sidebar.set_conversations(many, now=NOW)
    shown = conversations(sidebar)
    shown.setCurrentIndex(index(sidebar, 100))
    scrolled = shown.verticalScrollBar().value()
    assert scrolled > 0
    sidebar.set_conversations((conversation(8, "Newer"), *many), now=NOW)
    assert shown.currentIndex().row() == 101
    assert shown.verticalScrollBar().value() == scrolled


def test_an_excerpt_ends_within_its_lines(qapp):
    words = "of the first numbers \U0001f600\U0001f600 and of whatever else there is to add."
    parts = (Excerpt("a question about the **", False), Excerpt("sum", True), Excerpt(words, False))
    whole = "".join(part.text for part in parts)
    for width in range(60, 320, 7):
        layout = excerpt_layout(parts, qapp.font(), width, LIGHT)
        lines = [layout.lineAt(number) for number in range(layout.lineCount())]
        assert len(lines) <= 2, width
        assert all(line.naturalTextWidth() <= width for line in lines), width
        if layout.text() != whole:
            assert layout.text().endswith("\u2026"), width
            assert whole.startswith(layout.text()[:-1]), width
        units = len(layout.text().encode("utf-16-le")) // 2
        assert lines[-1].textStart() + lines[-1].textLength() == units, width
    (bold,) = layout.formats()
    assert whole[bold.start : bold.start + bold.length] == "sum"
    assert bold.format.fontWeight() == QFont.Weight.Bold


def test_a_conversation_of_another_window_is_marked_and_stepped_over(sidebar):
    chosen, wanted = listen(sidebar.chosen), listen(sidebar.window_asked)
    shown = conversations(sidebar)
    sidebar.set_elsewhere({2})
    (marked,) = (
        index(sidebar, row)
        for row in range(shown.model().rowCount())
        if index(sidebar, row).data(ELSEWHERE)
    )
    for role in (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ToolTipRole):
        assert "nother window" in marked.data(role)
    shown.grab()
    assert sidebar.neighbour([1]) == 3
    sidebar.step(+1)
    shown.setCurrentIndex(marked)
    shown.setFocus()
    QTest.keyClick(shown, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert (chosen, wanted) == ([3], [2])
    sidebar.set_elsewhere(())
    assert not marked.data(ELSEWHERE)


def test_shortcuts_of_the_list_work_only_in_it(sidebar):
    context = Qt.ShortcutContext.WidgetShortcut
    of_list = conversations(sidebar).actions()
    assert [one.shortcutContext() for one in of_list] == [context] * 3
    deleted = listen(sidebar.deleted)
    field = search(sidebar)
    field.setFocus()
    QTest.keyClicks(field, "x")
    QTest.keyClick(field, Qt.Key.Key_Delete)
    assert deleted == []
