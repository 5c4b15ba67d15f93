"""Every command can be reached by the keyboard, and one key means one thing at a time."""

import sys

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QListWidget, QMainWindow, QVBoxLayout, QWidget

from app.chat.prompt_edit import PromptEdit
from app.menus import COMMANDS, Command, KeysDialog, Menus, can_undo

CONTROL = Qt.KeyboardModifier.ControlModifier


class Made:
    """A window with the menus, a field of each kind, and a list."""

    def __init__(self, qtbot):
        self.window = QMainWindow()
        qtbot.addWidget(self.window)
        self.prompt, self.line, self.other = PromptEdit(), QLineEdit(), QListWidget()
        inner = QWidget()
        column = QVBoxLayout(inner)
        for part in (self.prompt, self.line, self.other):
            column.addWidget(part)
        self.window.setCentralWidget(inner)
        self.menus = Menus(self.window, given={})
        self.restored = []
        self.menus.actions["restore"].triggered.connect(lambda: self.restored.append(True))
        self.window.show()
        self.window.activateWindow()
        qtbot.waitUntil(self.window.isActiveWindow)


@pytest.fixture
def made(qtbot):
    return Made(qtbot)


def test_the_keys_are_listed(made):
    commands = [command for command in COMMANDS if isinstance(command, Command)]
    assert set(made.menus.actions) == {command.name for command in commands}
    keys = [key.toString() for one in made.menus.actions.values() for key in one.shortcuts()]
    assert len(set(keys)) == len(keys)
    dialog = KeysDialog(made.menus, made.window)
    groups = [dialog.tree.topLevelItem(row) for row in range(dialog.tree.topLevelItemCount())]
    rows = [group.child(row) for group in groups for row in range(group.childCount())]
    shown = {(row.text(0), row.text(1)) for row in rows}
    assert {("Regenerate last answer", "Ctrl+R"), ("New line", "Shift+Enter")} <= shown


def test_the_window_menu_lists_the_windows(made, qtbot):
    other, hidden = QMainWindow(), QMainWindow()
    for window, title in ((made.window, "Vienna"), (other, "Accra"), (hidden, "Lima")):
        window.setWindowTitle(title)
    qtbot.addWidget(other)
    qtbot.addWidget(hidden)
    other.show()
    (menu,) = (each.menu() for each in made.window.menuBar().actions() if "indow" in each.text())
    for _ in range(2):  # each time again
        menu.aboutToShow.emit()
        listed = {a.text(): a for a in menu.actions() if a.isCheckable()}
        assert list(listed) == ["Accra", "Vienna"]
        assert [a.isChecked() for a in listed.values()] == [False, True]
    listed["Accra"].trigger()
    qtbot.waitUntil(other.isActiveWindow)


def test_ctrl_and_equals_makes_the_text_larger_and_f10_opens_the_first_menu(made):
    larger = []
    made.menus.actions["larger"].triggered.connect(lambda: larger.append(True))
    made.prompt.setFocus()
    QTest.keyClick(made.prompt, Qt.Key.Key_Equal, CONTROL)
    QTest.keyClick(made.prompt, Qt.Key.Key_Plus, CONTROL)
    assert larger == [True, True]
    if sys.platform != "darwin":  # a Mac's menu bar is the system's
        first = made.window.menuBar().actions()[0].menu()
        QTest.keyClick(made.prompt, Qt.Key.Key_F10)
        assert first.isVisible()
        first.close()


def test_undo_is_of_the_field_with_the_focus_and_else_of_the_deletion(made):
    for field, text in ((made.prompt, made.prompt.text), (made.line, made.line.text)):
        field.setFocus()
        QTest.keyClicks(field, "word")
        QTest.keyClick(field, Qt.Key.Key_Z, CONTROL)
        assert text() == ""
        assert made.restored == []
    made.other.setFocus()
    QTest.keyClick(made.other, Qt.Key.Key_Z, CONTROL)
    assert made.restored == [True]
    made.prompt.set_text("as it was kept")  # with nothing to undo
    made.prompt.setFocus()
    QTest.keyClick(made.prompt, Qt.Key.Key_Z, CONTROL)
    assert made.prompt.text() == "as it was kept"
    assert made.restored == [True, True]
    QTest.keyClicks(made.prompt, "word")
    assert can_undo(made.prompt)
    made.prompt.setReadOnly(True)
    assert not any(map(can_undo, (made.prompt, made.other, None)))
