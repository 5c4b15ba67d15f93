"""Servers are written in a field or ticked, and are shown before they run, without their keys."""

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QWidget

from app.tools.server_dialog import ServerDialog
from engine.tools.configuration import Configuration
from engine.tools.configuration import written as saved
from engine.tools.protocol import Server
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)

GIT = Server("git", "uvx", ("mcp-server-git", "--repo", "/my code"), {"TOKEN": "secret"}, "/tmp")
WEB = Server("web", url="https://a.example/mcp", headers={"Authorization": "Bearer secret"})


@pytest.fixture
def parent(qtbot):
    made = QWidget()
    qtbot.addWidget(made)
    return made


def open_dialog(parent, server=None, found=()):
    dialog = ServerDialog(server, found=found, parent=parent)
    made = []
    dialog.accepted.connect(lambda: made.append(dialog.servers))
    dialog.show()
    return dialog, made


def test_a_command_is_shown_before_it_is_accepted(parent):
    dialog, made = open_dialog(parent)
    assert (dialog.line.text, dialog.ok.isEnabled()) == ("", False)
    dialog.text.setPlainText("npx -y 'a server")
    assert (dialog.line.tone, dialog.ok.isEnabled()) == ("warning", False)
    dialog.text.setPlainText("KEY=secret npx -y notes")
    assert "notes: npx -y notes" in dialog.line.text
    assert "secret" not in dialog.line.text
    dialog.ok.click()
    assert made == [(Server("notes", "npx", ("-y", "notes"), {"KEY": "secret"}),)]


def test_spaces_and_line_ends_of_any_kind_stay(parent):
    server = replace(GIT, args=("/my\u00a0code", "one\u2028two"))
    dialog, made = open_dialog(parent, server)
    dialog.ok.click()
    assert made == [(server,)]


def test_servers_are_pasted(parent):
    dialog, made = open_dialog(parent)
    dialog.text.setPlainText(saved(Configuration((GIT, WEB))))
    assert dialog.line.tone != "warning"
    assert all(words in dialog.line.text for words in ("uvx mcp-server-git", WEB.url, "TOKEN"))
    assert "secret" not in dialog.line.text
    dialog.ok.click()
    assert made == [(GIT, WEB)]
    many = tuple(replace(GIT, name=str(number), args=("x" * 1000,)) for number in range(50))
    dialog, made = open_dialog(parent)
    dialog.text.setPlainText(saved(Configuration(many)))
    assert "45 more" in dialog.line.text
    assert len(dialog.line.text) < 1_200


def test_a_server_is_edited_without_its_keys(parent):
    dialog, made = open_dialog(parent, GIT)
    assert not dialog.list.isVisible()
    assert "secret" not in dialog.text.toPlainText()
    dialog.text.setPlainText(dialog.text.toPlainText().replace("/my code", "/other"))
    dialog.ok.click()
    assert made == [(replace(GIT, args=("mcp-server-git", "--repo", "/other")),)]
    dialog, made = open_dialog(parent, GIT)
    dialog.text.clear()
    assert not dialog.ok.isEnabled()
    dialog.text.setPlainText(saved(Configuration((GIT, WEB))))
    assert not dialog.ok.isEnabled()
