"""Every command can be reached by the keyboard, and one key means one thing at a time; a report
of a problem gets the doctor's facts."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QDesktopServices
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QLineEdit,
    QListWidget,
    QMainWindow,
    QVBoxLayout,
    QWidget,
)

from app.about import AboutDialog, ProblemReport, open_path
from app.chat.prompt_edit import PromptEdit
from app.menus import COMMANDS, Command, KeysDialog, Menus, can_undo
from models.errors import Problem
from tests.support.app.fake_commands import FakeCommandRunner

CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def made(qtbot):
    """A window with the menus, a field of each kind, and a list."""
    window, inner, restored = QMainWindow(), QWidget(), []
    qtbot.addWidget(window)
    prompt, line, other = PromptEdit(), QLineEdit(), QListWidget()
    column = QVBoxLayout(inner)
    for part in (prompt, line, other):
        column.addWidget(part)
    window.setCentralWidget(inner)
    menus = Menus(window, given={})
    menus.actions["restore"].triggered.connect(lambda: restored.append(True))
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    return SimpleNamespace(
        window=window, prompt=prompt, line=line, other=other, menus=menus, restored=restored
    )


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


ANSWER = {
    "usable": False,
    "lines": [
        {"name": "mlx", "fact": "0.32.4", "remedy": ""},
        {"name": "BLAS", "fact": "none", "remedy": "Install OpenBLAS."},
    ],
}
FACTS = "mlx: 0.32.4\nBLAS: none\n  -> Install OpenBLAS."


@pytest.mark.parametrize("end", ["well", "with something wrong", "without an answer"])
def test_the_doctors_facts_are_copied_also_where_something_is_wrong(qapp, end):
    commands, copied, problems = FakeCommandRunner(), [], []
    report = ProblemReport(commands, parent=qapp)
    report.copied.connect(copied.append)
    report.failed.connect(problems.append)
    report.begin()
    doctor = commands.asked("doctor", "--json", "--no-pair")
    if end != "without an answer":
        doctor.tell(ANSWER)
    if end == "well":
        doctor.answer(ANSWER)
    else:
        doctor.fail("The doctor exited.", "Try again.")
    if end == "without an answer":
        assert (copied, len(problems)) == ([], 1)
    else:
        assert (copied, problems) == ([FACTS], [])
        assert QApplication.clipboard().text() == FACTS


def test_the_help_menu_shows_folder_and_log(open_window, until, monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(
        QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()) or True
    )
    window = open_window()
    until(lambda: window.pair_bar.status == "loaded")
    for name in ("data_folder", "log", "readme"):
        window.menus.actions[name].trigger()
    places = window.store.path.parent, window.engine.log_path, Path(__file__).parents[2]
    assert opened == [str(places[0]), str(places[1]), str(places[2] / "README.md")]
    window.menus.actions["about"].trigger()
    (about,) = window.findChildren(AboutDialog)
    about.reject()
    for path in (None, tmp_path / "missing"):
        with pytest.raises(Problem):
            open_path(path)
