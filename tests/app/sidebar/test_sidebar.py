"""Everything in the sidebar can be done by keyboard, and says what it wants done once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QDragEnterEvent, QDragMoveEvent, QDropEvent, QTextDocument
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QLineEdit, QMenu, QWidget

from app.conversations.records import Conversation, Excerpt, Filing, Folder, Hit, SearchFilter, Undo
from app.sidebar.conversation_list import ConversationList, FlatList
from app.sidebar.conversation_model import (
    ELSEWHERE,
    HIT,
    SECTION,
    SHOWN,
    ConversationModel,
    HitModel,
)
from app.sidebar.conversation_rows import line_box
from app.sidebar.sidebar import Sidebar
from app.theme.palette import DARK
from app.theme.style import qt_palette
from tests.support.app.window_use import part

NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)


def conversation(number, title, *, days=0, pinned=False):
    """Return a conversation whose last message came `days` days ago."""
    then = NOW - timedelta(days=days)
    return Conversation(number, title, pinned, "", None, "", None, then, then)


SEVERAL = (
    conversation(7, "Pinned long ago", days=90, pinned=True),
    conversation(1, "Boats"),
    conversation(2, "Parsers"),
    conversation(3, "Soup", days=2),
    conversation(4, "", days=400),
)
NEWER = (SEVERAL[0], conversation(8, "Newer"), *SEVERAL[1:])
HITS = (
    Hit(1, None, "Boats", (Excerpt("Boats", True),)),
    Hit(2, 9, "Parsers", (Excerpt("no ", False), Excerpt("boats", True), Excerpt(" here", False))),
)
WORK = (Folder(5, "Work"),)
SIGNALS = (
    "chosen", "hit_chosen", "new_asked", "window_asked", "renamed", "pinned", "archived", "deleted",
    "undone", "moved", "folder_wanted", "new_in_folder_asked", "folder_setup_asked",
    "folder_opened", "folder_renamed", "folder_deleted", "export_asked", "export_many_asked",
    "import_asked", "search_changed",
)  # fmt: skip
CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
NONE, LEFT = Qt.KeyboardModifier.NoModifier, Qt.MouseButton.LeftButton
UP, DOWN, RETURN = Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Return


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


@pytest.fixture
def said(sidebar):
    """All that the sidebar wants done, in order: the signal's name, and its values."""
    heard = []
    for name in SIGNALS:
        getattr(sidebar, name).connect(lambda *values, name=name: heard.append((name, *values)))
    return heard


def conversations(sidebar):
    return part(sidebar, ConversationList)


def search(sidebar):
    return part(sidebar, QLineEdit, "Search all conversations")


def index(sidebar, row):
    return conversations(sidebar).model().index(row, 0)


def focus(sidebar, row=None):
    conversations(sidebar).setFocus()
    if row is not None:
        conversations(sidebar).go_to(index(sidebar, row))


def press(sidebar, *keys, modifier=NONE):
    for key in keys:
        QTest.keyClick(conversations(sidebar), key, modifier)


def middle(sidebar, row):
    """Of the title in a row."""
    shown = conversations(sidebar)
    return line_box(shown.visualRect(index(sidebar, row)), shown.font()).center()


def click(sidebar, place, modifier=NONE):
    place = middle(sidebar, place) if isinstance(place, int) else place
    QTest.mouseClick(conversations(sidebar).viewport(), LEFT, modifier, place)


def lines(sidebar):
    model = conversations(sidebar).model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def entries(menu):
    """The actions of a menu, by their texts."""
    menu.deleteLater()
    return {one.text(): one for one in menu.actions() if one.text()}


def test_a_click_or_enter_chooses_and_a_heading_or_an_arrow_does_not(sidebar, said):
    click(sidebar, 2)
    heading = conversations(sidebar).visualRect(index(sidebar, 3)).topLeft()
    click(sidebar, heading + QPoint(20, 4))
    focus(sidebar)
    press(sidebar, DOWN)
    assert said == [("chosen", 2)]
    press(sidebar, RETURN)
    part(sidebar, QAbstractButton, "New conversation").click()
    sidebar.new_action.trigger()
    sidebar.import_action.trigger()
    assert said[1:] == [("chosen", 3), ("new_asked",), ("new_asked",), ("import_asked",)]


def test_names_are_edited_in_place_and_a_new_list_waits_meanwhile(sidebar, said, qtbot):
    focus(sidebar)
    press(sidebar, Qt.Key.Key_F2)
    editor = part(sidebar, QLineEdit, "New title")
    assert (editor.text(), editor.selectedText()) == ("Boats", "Boats")
    QTest.keyClicks(editor, "Ships")
    QTest.keyClick(editor, RETURN)
    qtbot.waitUntil(lambda: said == [("renamed", 1, "Ships")])  # and nothing is opened
    assert index(sidebar, 1).data() == "Ships"
    qtbot.waitUntil(lambda: not conversations(sidebar).findChildren(QLineEdit))
    sidebar.begin_rename(2)
    editor = part(sidebar, QLineEdit, "New title")
    QTest.keyClicks(editor, "Zig")
    sidebar.set_conversations(NEWER, WORK, now=NOW)
    assert (editor.text(), len(lines(sidebar))) == ("Zig", 5)
    QTest.keyClick(editor, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: len(lines(sidebar)) == 7)
    assert lines(sidebar)[4] == "Parsers"
    sidebar.begin_folder_rename(5)
    editor = part(sidebar, QLineEdit, "New name")
    QTest.keyClicks(editor, "Home")
    QTest.keyClick(editor, RETURN)
    qtbot.waitUntil(lambda: said[1:] == [("folder_renamed", 5, "Home")])


def test_a_deletion_can_be_undone_or_its_undo_closed(sidebar, said):
    bar = sidebar.undo_bar
    focus(sidebar)
    press(sidebar, Qt.Key.Key_Delete)
    assert said == [("deleted", (1,))]
    assert (bar.isVisible(), sidebar.restore_action.isEnabled()) == (False, False)
    said.clear()
    first, second, many = (
        Undo(tuple(Filing(id, None, False, None) for id in ids)) for ids in ((1,), (2,), (1, 2, 3))
    )
    sidebar.offer_undo(first, "Deleted")
    sidebar.offer_undo(second, "Deleted")
    assert bar.isVisible()
    assert "Parsers" in bar.text
    sidebar.restore_action.trigger()
    assert "Parsers" not in bar.text
    part(bar, QAbstractButton, "Undo").click()
    assert said == [("undone", second), ("undone", first)]
    assert (bar.isVisible(), sidebar.restore_action.isEnabled()) == (False, False)
    for failed in (second, first):
        bar.put_back(failed)
    sidebar.restore_action.trigger()
    assert said[2:] == [("undone", second)], "the last change is still the first"
    sidebar.offer_undo(many, "Moved")
    assert "3 " in bar.text
    part(sidebar, QAbstractButton, "Close").click()
    assert not bar.isVisible()


def test_commands_are_about_the_current_line_until_the_list_is_left(sidebar, said):
    sidebar.pin_action.trigger()  # the list has no focus: the one that is shown
    focus(sidebar, 0)
    assert [*entries(sidebar.menu())] == [
        "Open in a new window", "Rename", "Duplicate", "Unpin", "Move to", "Archive",
        "Export", "Delete",
    ]  # fmt: skip
    sidebar.pin_action.trigger()
    sidebar.export_actions["json"].trigger()
    search(sidebar).setFocus(Qt.FocusReason.MouseFocusReason)
    sidebar.pin_action.trigger()
    assert said == [
        ("pinned", (1,), True), ("pinned", (7,), False), ("export_asked", 7, "json"),
        ("pinned", (1,), True),
    ]  # fmt: skip
    said.clear()
    new = conversation(99, title="New")
    conversations(sidebar).go_to(index(sidebar, 3))
    for shown in (None, 99):  # it comes to be listed later
        sidebar.set_shown(shown)
        assert conversations(sidebar).selectedIndexes() == []
    sidebar.set_conversations((SEVERAL[0], new, *SEVERAL[1:]), now=NOW)
    sidebar.pin_action.trigger()
    (selected,) = conversations(sidebar).selectedIndexes()
    assert selected.data() == "New"
    sidebar.set_conversations((), now=NOW)
    assert not sidebar.export_actions["json"].isEnabled()
    sidebar.rename_action.trigger()
    sidebar.delete_action.trigger()
    assert said == [("pinned", (99,), True)]


def test_the_menu_is_about_the_line_pointed_at(sidebar, said, qtbot):
    line, width = middle(sidebar, 2), conversations(sidebar).viewport().width()
    for opening in (
        lambda: click(sidebar, QPoint(width - 10, line.y())),  # its sign
        lambda: conversations(sidebar).customContextMenuRequested.emit(line),
    ):
        said.clear()
        opening()
        (menu,) = (one for one in sidebar.findChildren(QMenu) if one.parent() is sidebar)
        menu.setActiveAction(next(one for one in menu.actions() if one.text() == "Pin"))
        QTest.keyClick(menu, RETURN)
        assert said == [("pinned", (2,), True)]
        qtbot.waitUntil(lambda: not sidebar.findChildren(QMenu))


def test_several_are_selected_and_commands_are_about_all_of_them(sidebar, said):
    focus(sidebar, 1)
    press(sidebar, DOWN, modifier=SHIFT)
    sidebar.set_conversations(NEWER, now=NOW)  # in row 1
    sidebar.set_shown(1)
    sidebar.delete_action.trigger()
    click(sidebar, 2)
    for row in (4, 3, 3):
        click(sidebar, row, CTRL)
    sidebar.delete_action.trigger()
    click(sidebar, 3)
    click(sidebar, 5, SHIFT)
    sidebar.delete_action.trigger()
    assert said == [
        ("deleted", (1, 2)), ("chosen", 1), ("deleted", (1, 3)), ("chosen", 2),
        ("deleted", (2, 3, 4)),
    ]  # fmt: skip
    said.clear()
    press(sidebar, Qt.Key.Key_A, modifier=CTRL)
    menu = sidebar.menu()
    exporting = "Export 6 conversations…"
    texts = [one.text() for one in menu.actions() if one.text()]
    assert texts == ["Pin", "Move to", "Archive", exporting, "Delete"]
    entries(menu)[exporting].trigger()
    sidebar.pin_action.trigger()
    sidebar.archive_action.trigger()
    sidebar.export_actions["json"].trigger()
    every = (7, 8, 1, 2, 3, 4)
    exported = ("export_many_asked", every)
    assert said == [exported, ("pinned", every, True), ("archived", every, True), exported]
    assert not sidebar.rename_action.isEnabled()


def test_a_folder_opens_and_closes_and_has_commands_of_its_own_like_the_archive(sidebar, said):
    filed = tuple(replace(one, folder=5) if one.id in (2, 3) else one for one in SEVERAL)
    sidebar.set_conversations(filed, (*WORK, Folder(6, "Zoo")), now=NOW)
    assert lines(sidebar) == ["Pinned long ago", "Work", "Parsers", "Soup", "Zoo", "Boats",
                              "New conversation"]  # fmt: skip
    sidebar.setPalette(qt_palette(DARK))
    assert QColor(sidebar.grab().toImage().pixel(2, 2)).name() == DARK.code
    click(sidebar, 1)
    assert lines(sidebar) == ["Pinned long ago", "Work", "Zoo", "Boats", "New conversation"]
    focus(sidebar)
    press(sidebar, Qt.Key.Key_Right, Qt.Key.Key_Right)  # open already
    assert len(lines(sidebar)) == 7
    press(sidebar, DOWN, Qt.Key.Key_Left, Qt.Key.Key_Left, RETURN, Qt.Key.Key_Space)
    assert said == [("folder_opened", 5, opened) for opened in (False, True) * 2 + (False,)]
    said.clear()
    assert not sidebar.pin_action.isEnabled()
    press(sidebar, Qt.Key.Key_Delete)
    menu = sidebar.folder_menu()
    for action in menu.actions()[:2]:
        action.trigger()
    menu.deleteLater()
    closed = ("folder_setup_asked", replace(WORK[0], open=False))
    assert said == [("folder_deleted", 5), ("new_in_folder_asked", 5), closed]
    said.clear()
    put = tuple(replace(one, archived=one.id in (1, 7)) for one in SEVERAL)
    sidebar.set_conversations(put, now=NOW)
    assert lines(sidebar) == ["Parsers", "Soup", "New conversation", "Archived"]
    click(sidebar, 3)
    assert lines(sidebar)[-2:] == ["Pinned long ago", "Boats"]
    focus(sidebar, 5)
    assert sidebar.archive_action.text() == "Unarchive"
    sidebar.archive_action.trigger()
    assert said == [("archived", (1,), False)]


def drop(sidebar, rows, place):
    place = middle(sidebar, place) if isinstance(place, int) else place
    shown = conversations(sidebar)
    data = shown.model().mimeData([index(sidebar, row) for row in rows])
    how = (Qt.DropAction.MoveAction, data, LEFT, NONE)
    for event in (QDragEnterEvent(place, *how), QDragMoveEvent(place, *how)):
        QApplication.sendEvent(shown.viewport(), event)
    sidebar.grab()
    QApplication.sendEvent(shown.viewport(), QDropEvent(QPointF(place), *how))


def test_conversations_are_moved_by_the_menu_and_dragged(sidebar, said):
    sidebar.set_conversations(SEVERAL, (Folder(5, "R&D"),), now=NOW)
    menu = sidebar.menu()
    folders = {one.text(): one for one in entries(menu)["Move to"].menu().actions()}
    assert not folders["No folder"].isEnabled()
    folders["R&&D"].trigger()
    folders["New folder"].trigger()
    assert said == [("moved", (1,), 5), ("folder_wanted", (1,))]
    said.clear()
    filed = tuple(
        replace(one, folder=5 if one.id == 2 else None, archived=one.id == 4) for one in SEVERAL
    )
    sidebar.set_conversations(filed, WORK, now=NOW)
    assert lines(sidebar) == ["Pinned long ago", "Work", "Parsers", "Boats", "Soup", "Archived"]
    below = conversations(sidebar).viewport().rect().bottomLeft() + QPoint(20, -4)
    for rows, place, wanted in (
        ((3, 4), 1, [("moved", (1, 3), 5)]),  # on the folder's line
        ((0,), 2, [("moved", (7,), 5)]),  # on one that is in it
        ((2,), 2, []),  # where it is already
        ((2,), 4, [("moved", (2,), None)]),
        ((2,), below, [("moved", (2,), None)]),
        ((3,), 5, [("archived", (1,), True)]),
    ):
        drop(sidebar, rows, place)
        assert said == wanted, place
        said.clear()


def test_a_search_is_requested_once_and_its_hits_are_shown(sidebar, said, qtbot):
    found = part(sidebar, FlatList, "Found")
    hits = found.model()
    sidebar.search_action.trigger()
    field = search(sidebar)
    assert field.hasFocus()
    QTest.keyClicks(field, " boats ")
    qtbot.waitUntil(lambda: said == [("search_changed", "boats", SearchFilter())])
    sidebar.set_hits("boat", HITS)
    assert not found.isVisible(), "the answer to an earlier question"
    sidebar.set_hits("boats", HITS)
    assert found.isVisible()
    for widget, key in ((field, RETURN), (field, DOWN), (found, DOWN), (found, RETURN)):
        QTest.keyClick(widget, key)
    assert found.hasFocus()
    assert said[1:] == [("hit_chosen", 1, None, "boats"), ("hit_chosen", 2, 9, "boats")]
    marked = [hits.index(row, 0).data(SHOWN) for row in range(2)]
    assert marked == [False, True]
    found.grab()
    sidebar.set_hits("boats", HITS)
    assert hits.index(1, 0).data(SHOWN), "the same search again"
    sidebar.set_shown(3)
    assert not hits.index(1, 0).data(SHOWN), "another conversation was opened"
    for _ in range(2):
        QTest.keyClick(found, UP)
    assert field.hasFocus()
    QTest.keyClick(field, Qt.Key.Key_Escape)
    assert conversations(sidebar).isVisible()
    assert field.text() == ""


def test_a_search_is_narrowed_by_age_and_model(sidebar, said):
    age, model = (part(sidebar, QComboBox, name) for name in ("Filter by age", "Filter by model"))
    assert not age.isVisible()
    search(sidebar).setText("boats")
    assert age.isVisible()
    sidebar.set_targets(("Qwen3", "tiny"))
    model.setCurrentIndex(2)
    model.activated.emit(2)
    age.setCurrentIndex(2)
    sidebar.set_targets(("new", "Qwen3", "tiny"))
    age.activated.emit(2)
    (_, _, first), (_, _, second) = said
    assert (first, second.target) == (SearchFilter(None, "tiny"), "tiny")
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


def test_a_conversation_of_another_window_is_marked_and_stepped_over(sidebar, said):
    rows = range(len(lines(sidebar)))
    sidebar.set_elsewhere({2})
    (marked,) = (index(sidebar, row) for row in rows if index(sidebar, row).data(ELSEWHERE))
    for role in (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ToolTipRole):
        assert "window" in marked.data(role)
    conversations(sidebar).grab()
    assert sidebar.neighbour([1]) == 3
    sidebar.step(+1)
    conversations(sidebar).setCurrentIndex(marked)
    focus(sidebar)
    press(sidebar, RETURN, modifier=SHIFT)
    assert said == [("chosen", 3), ("window_asked", 2)]
    sidebar.set_elsewhere(())
    assert not marked.data(ELSEWHERE)


def test_shortcuts_of_the_list_work_only_in_it(sidebar, said):
    context = Qt.ShortcutContext.WidgetShortcut
    of_list = conversations(sidebar).actions()
    assert [one.shortcutContext() for one in of_list] == [context] * 3
    field = search(sidebar)
    field.setFocus()
    QTest.keyClicks(field, "x")
    QTest.keyClick(field, Qt.Key.Key_Delete)
    assert [one for one in said if one[0] != "search_changed"] == []


@pytest.fixture
def model(qapp):
    model = ConversationModel()
    model.set_conversations(SEVERAL, NOW)
    return model


def test_a_screen_reader_gets_what_is_drawn_and_a_tooltip_a_title_that_looks_like_html(model):
    accessible, hostile = Qt.ItemDataRole.AccessibleTextRole, "a\n\u202eb\x1b <div> c"
    several = list(SEVERAL)
    several.insert(3, conversation(9, "Late", days=1))
    several[-1:-1] = [conversation(10, "Sea", days=6.5), conversation(11, "Ships", days=20)]
    model.set_conversations((*several, conversation(5, hostile, days=401)), NOW)
    model.set_shown(1)
    rows = [model.index(row, 0) for row in range(9)]
    assert [(model.data(row, SECTION), model.data(row, accessible)) for row in rows] == [
        ("Pinned", "Pinned long ago, pinned"),
        ("Today", "Boats, shown"),
        ("", "Parsers"),
        ("Yesterday", "Late"),
        ("Past week", "Soup"),
        ("", "Sea"),
        ("Past month", "Ships"),
        ("Older", "New conversation"),
        ("", "a b <div> c"),
    ]
    shown = QTextDocument()
    shown.setHtml(model.data(rows[-1], Qt.ItemDataRole.ToolTipRole))
    assert shown.toPlainText().splitlines()[0] == "a b <div> c"
    hits = HitModel()
    message = Hit(1, 5, "Boats", (Excerpt("the\n", False), Excerpt("sea", True)))
    hits.set_hits((message, Hit(1, None, "Boats", (Excerpt("Boats", True),))))
    lines = [hits.data(hits.index(row, 0), accessible) for row in (0, 1)]
    assert lines == ["Boats: the sea", "Boats"]
    assert hits.data(hits.index(0, 0), HIT) == message


def test_a_new_title_is_emitted_unless_it_is_the_same_and_the_same_list_resets_nothing(model):
    told, resets = [], []
    model.renamed.connect(lambda *renamed: told.append(renamed))
    model.modelReset.connect(lambda: resets.append(1))
    model.set_conversations(SEVERAL, NOW)
    index = model.index_of(2)
    for title in ("", "  \n", "Parsers"):
        assert not model.setData(index, title)
    assert told == resets == []
    assert model.setData(index, "  Zig \n parsers ")
    assert model.data(index) == "Zig parsers"
    assert told == [(2, "Zig parsers")]
    model.set_conversations(SEVERAL[::-1], NOW)
    assert resets == [1]
    model.set_conversations(SEVERAL[::-1], NOW + timedelta(days=5))  # the headings change
    assert resets == [1, 1]
