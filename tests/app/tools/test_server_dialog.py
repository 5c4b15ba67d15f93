"""Servers are added by hand, from JSON and from other programs, and their keys stay hidden."""

import shlex
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from app.tools.server_dialog import SecretField, ServerDialog, shown, typed
from engine.tools.configuration import Configuration
from engine.tools.configuration import written as saved
from engine.tools.protocol import Server
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)

GIT = Server("git", "uvx", ("mcp-server-git", "--repo", "/my code"), {"TOKEN": "secret"}, "/tmp")
WEB = Server("web", url="https://a.example/mcp", headers={"Authorization": "Bearer secret"})


@pytest.fixture
def parent(qtbot: QtBot) -> QWidget:
    made = QWidget()
    qtbot.addWidget(made)
    return made


def open_dialog(
    parent: QWidget, server: Server | None = None, **found: Sequence[Server]
) -> tuple[ServerDialog, list[tuple[Server, ...]]]:
    dialog = ServerDialog(server, found=found, parent=parent)
    made: list[tuple[Server, ...]] = []
    dialog.made.connect(made.append)
    dialog.show()
    return dialog, made


def test_a_server_is_typed_as_in_a_terminal(parent: QWidget) -> None:
    dialog, made = open_dialog(parent)
    form = dialog.form
    assert not dialog.ok.isEnabled()
    form.name.setText(" notes ")
    form.runs.textEdited.emit("npx -y 'a server' \"~/My Notes")
    assert not dialog.ok.isEnabled()
    form.runs.textEdited.emit("npx -y 'a server' ~/Notes")
    form.pairs[0][0].setText("KEY")
    form.pairs[0][1].setText("v a l")
    dialog.ok.click()
    assert made == [(Server("notes", "npx", ("-y", "a server", "~/Notes"), {"KEY": "v a l"}),)]


def test_an_address_has_headers(parent: QWidget) -> None:
    dialog, made = open_dialog(parent)
    dialog.form.name.setText("web")
    dialog.form.runs.textEdited.emit(WEB.url)
    dialog.form.pairs[0][0].setText("Authorization")
    dialog.form.pairs[0][1].setText("Bearer secret")
    dialog.ok.click()
    assert made == [(WEB,)]


@pytest.mark.parametrize("server", [GIT, WEB])
def test_what_is_edited_and_left_alone_stays_as_it_is(parent: QWidget, server: Server) -> None:
    dialog, made = open_dialog(parent, server, Claude=[GIT])
    assert dialog.tabs.count() == 1
    dialog.ok.click()
    assert made == [(server,)]


def test_keys_are_dots_unless_a_person_is_at_them(parent: QWidget, qtbot: QtBot) -> None:
    server = replace(GIT, args=("--api-key", "a-secret-key", "--repo", "/my code"))
    dialog, made = open_dialog(parent, server)
    key = dialog.form.pairs[0][1]
    for field in dialog.findChildren(QLineEdit):
        assert "secret" not in field.displayText()
    dialog.activateWindow()
    key.setFocus()
    qtbot.waitUntil(key.hasFocus)
    assert key.displayText() == "secret"
    dialog.form.name.setFocus()
    qtbot.waitUntil(lambda: not key.hasFocus())
    assert "secret" not in key.displayText()
    assert isinstance(key, SecretField)
    dialog.form.runs.setFocus()
    qtbot.waitUntil(dialog.form.runs.hasFocus)
    assert "--api-key a-secret-key" in dialog.form.runs.text()
    QTest.keyClicks(dialog.form.runs, " --more")
    dialog.form.name.setFocus()
    qtbot.waitUntil(lambda: not dialog.form.runs.hasFocus())
    assert "secret" not in dialog.form.runs.text()
    dialog.ok.click()
    assert made == [(replace(server, args=(*server.args, "--more")),)]


def test_servers_are_pasted(parent: QWidget) -> None:
    dialog, made = open_dialog(parent)
    dialog.tabs.setCurrentIndex(1)
    assert (dialog.line.text, dialog.ok.isEnabled()) == ("", False)
    dialog.paste.setPlainText("{")
    assert (dialog.line.tone, dialog.ok.isEnabled()) == ("warning", False)
    dialog.paste.setPlainText(saved(Configuration((GIT, WEB))))
    assert dialog.line.tone != "warning"
    assert all(words in dialog.line.text for words in ("uvx mcp-server-git", WEB.url, "TOKEN ••••"))
    assert "secret" not in dialog.line.text
    dialog.ok.click()
    assert made == [(GIT, WEB)]
    many = tuple(replace(GIT, name=str(number), args=("x" * 1000,)) for number in range(50))
    dialog, made = open_dialog(parent)
    dialog.tabs.setCurrentIndex(1)
    dialog.paste.setPlainText(saved(Configuration(many)))
    assert "45 more" in dialog.line.text
    assert len(dialog.line.text) < 1_000


def test_servers_are_copied_from_other_programs(parent: QWidget) -> None:
    dialog, made = open_dialog(parent, Claude=[GIT], Cursor=[WEB])
    assert dialog.tabs.currentIndex() == 2
    assert not dialog.ok.isEnabled()
    assert not any("secret" in dialog.list.item(row).text() for row in range(2))
    dialog.list.item(1).setCheckState(Qt.CheckState.Checked)
    dialog.ok.click()
    assert made == [(WEB,)]


def test_nothing_is_offered_from_nowhere(parent: QWidget) -> None:
    dialog, made = open_dialog(parent)
    assert dialog.tabs.count() == 2
    dialog.reject()
    assert made == []


@given(st.text(min_size=1), st.lists(st.text()))
def test_a_command_is_read_as_it_is_typed(command: str, arguments: list[str]) -> None:
    assert shlex.split(typed(Server("a", command, tuple(arguments)))) == [command, *arguments]


def test_keys_are_named_and_not_shown() -> None:
    assert typed(Server("empty")) == ""
    for server in (GIT, WEB):
        assert "secret" not in shown(server)
        assert "••••" in shown(server)
