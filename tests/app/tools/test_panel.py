"""The panel shows servers and the page of one, and passes on what a person does there."""

from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QAbstractButton,
    QLabel,
    QLineEdit,
    QListWidget,
    QPlainTextEdit,
    QPushButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.tools.panel import ToolsPanel
from app.tools.server_now import ServerNow
from engine.tools.configuration import Configuration, digest
from engine.tools.protocol import OWN, Offered, Server, State
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)

READ = Offered("files", "read", "", "Reads a file.", '{"type": "object"}', True)
WRITE = Offered("files", "write", "", "Writes.", "{}")
WROTE = replace(WRITE, description="Never overwrites.")
SEEN = {"files": {"read": digest(READ), "write": digest(WROTE)}}
KEY = {"KEY": "secret"}
SETUP = Configuration(
    (Server("files", "npx", ("files",), KEY), Server("git", "uvx")), seen=SEEN, folders=("/notes",)
)
RUNS = State("files", "running", (READ, WRITE), "1.2.0", "Ask before you write.")
OURS = ServerNow(Server(OWN), State(OWN, "running"), SETUP)
FILES = ServerNow(SETUP.servers[0], RUNS, SETUP)
GIT = ServerNow(
    SETUP.servers[1], State("git", "failed", message="There is no uvx."), SETUP, log="no uvx"
)


@pytest.fixture
def panel(qtbot: QtBot) -> ToolsPanel:
    made = ToolsPanel()
    qtbot.addWidget(made)
    made.show_servers([OURS, FILES, GIT])
    made.show()
    return made


def heard(signal: Any) -> list[tuple[object, ...]]:
    """What a signal emits from now on."""
    told: list[tuple[object, ...]] = []
    signal.connect(lambda *values: told.append(values))
    return told


def seen(part: QWidget) -> bool:
    """Whether it is shown once it is laid out."""
    return not part.isHidden()


def entries(panel: ToolsPanel) -> list[str]:
    role = int(Qt.ItemDataRole.AccessibleTextRole)
    return [str(panel.list.item(row).data(role)) for row in range(panel.list.count())]


def test_servers_stand_with_their_states(panel: ToolsPanel) -> None:
    states = [entry.partition(": ")[2] for entry in entries(panel)]
    assert states[1:] == ["1 of 2 on", "There is no uvx"]
    assert panel.chosen == panel.page.server == OWN
    assert seen(panel.page.folders)
    assert not seen(panel.page.remove)
    panel.list.setCurrentRow(1)
    assert panel.chosen == panel.page.server == "files"
    assert not seen(panel.page.folders)
    assert seen(panel.page.remove)
    panel.show_servers([OURS, GIT])
    assert panel.chosen == OWN
    assert panel.list.count() == 2


def test_a_page_that_is_shown_again_keeps_its_place(panel: ToolsPanel) -> None:
    panel.choose("files")
    row = panel.page.tools.rows["read"]
    row.more.click()
    off = replace(FILES, setup=SETUP.switched(READ, on=False))
    panel.show_servers([OURS, off, GIT])
    assert panel.page.tools.rows["read"] is row
    assert seen(row.details)
    assert not row.switch.isChecked()
    panel.choose("git")
    assert not panel.page.tools.rows


def test_what_is_done_on_a_page_is_told(panel: ToolsPanel) -> None:
    panel.choose("files")
    page = panel.page
    for signal, button, told in (
        (page.tools.switched, page.tools.rows["read"].switch, ("read", False)),
        (page.tools.seen, page.tools.rows["write"].fine, ("write",)),
    ):
        emitted = heard(signal)
        button.click()
        assert emitted == [told]
    dropped = heard(page.folders.dropped)
    panel.choose(OWN)
    drop = next(
        one for one in page.folders.findChildren(QPushButton) if "/notes" in one.accessibleName()
    )
    drop.click()
    assert dropped == [("/notes",)]


def test_a_changed_tool_says_so(panel: ToolsPanel) -> None:
    panel.choose("files")
    read, write = (panel.page.tools.rows[name] for name in ("read", "write"))
    assert (seen(read.fine), seen(write.fine)) == (False, True)
    assert [part in write.changed.text for part in ("description", "arguments")] == [True, False]
    of_old = replace(SETUP, seen={"files": {"write": "from another version"}})
    panel.show_servers([replace(FILES, setup=of_old)])
    assert write.changed.text
    panel.show_servers([replace(FILES, setup=SETUP.switched(WRITE, on=True))])
    assert not seen(write.fine)


def test_a_problem_is_shown_until_it_is_over(panel: ToolsPanel) -> None:
    panel.say("The file is damaged. Mend it.")
    assert seen(panel.line)
    panel.say("")
    assert not seen(panel.line)


def test_texts_of_servers_are_text(panel: ToolsPanel) -> None:
    nasty = "<b>bold</b> \u202e" + "x" * 1_000_000
    tool = Offered("files", "<i>t</i>\n\u202e", nasty[:80], nasty, nasty)
    state = State("files", "running", (tool,), nasty[:80], nasty)
    panel.show_servers([replace(FILES, state=state, log=nasty)])
    (row,) = panel.page.tools.rows.values()
    row.more.click()
    assert len(row.details.toPlainText()) <= 20_002
    panel.grab()
    inner = panel.page.tools.widget()
    assert inner is not None
    assert inner.minimumSizeHint().width() <= panel.minimumWidth()
    assert panel.minimumSizeHint().width() <= panel.minimumWidth()
    assert {one.textFormat() for one in panel.findChildren(QLabel) if one.text()} == {
        Qt.TextFormat.PlainText
    }
    shown = [one.text() for one in panel.findChildren(QLabel)]
    shown += [one.toPlainText() for one in panel.findChildren(QPlainTextEdit)]
    assert not any("\u202e" in text for text in (*shown, *entries(panel)))
    assert max(map(len, shown)) <= 20_002


def test_everything_has_a_name_and_is_reached_by_tab(panel: ToolsPanel) -> None:
    panel.choose("files")
    for kind in (QAbstractButton, QLineEdit, QPlainTextEdit, QListWidget):
        for part in panel.findChildren(kind):
            if part.focusPolicy() & Qt.FocusPolicy.TabFocus and part.isVisibleTo(panel):
                interface = QAccessible.queryAccessibleInterface(part)
                assert interface.text(QAccessible.Text.Name), part
    assert not any(one.autoDefault() for one in panel.findChildren(QPushButton))
    assert not panel.isModal()
