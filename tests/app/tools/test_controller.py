"""What the user sets up in the panel is run, kept, and there again after a restart."""

import json
import os
import signal
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QMessageBox, QPushButton

from app.tools.panel import ToolsPanel
from app.tools.server_dialog import ServerDialog
from app.tools.server_rows import Place
from engine.tools.protocol import OWN, Server
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS, fake_tools_host, toolbox
from tests.support.app.window_use import part

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)


@pytest.fixture
def open_panel(open_window, until, tmp_path):
    """Opens a window and the panel over it; the process of tools takes these steps."""

    def open_panel(tools="ready serve", **servers):
        if servers:
            have = {name: {"command": command} for name, command in servers.items()}
            (tmp_path / "tools.json").write_text(json.dumps({"mcpServers": have}))
        window = open_window(tools=toolbox(tmp_path, fake_tools_host(tmp_path, tools)))
        until(lambda: len(window.application.tools.configuration.servers) == len(servers))
        panel = panel_of(window)
        until(lambda: window.application.tools.process.state(OWN).state == "running")
        return window, panel

    return open_panel


def panel_of(window):
    """The panel, which is opened."""
    window.menus.actions["tools"].trigger()
    return part(window, ToolsPanel)


def kept(folder):
    path = folder / "tools.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def dialog_of(panel, until):
    until(lambda: panel.findChildren(ServerDialog))
    return panel.findChildren(ServerDialog)[-1]


def choose(panel, place):
    panel.tree.setCurrentItem(panel.items[place])


def tick(panel, place, until, *, on=True):
    """Tick a row as soon as it is there, as the user does."""
    until(lambda: place in panel.items)
    choose(panel, place)
    wished = Qt.CheckState.Checked if on else Qt.CheckState.Unchecked
    assert panel.items[place].checkState(0) != wished
    QTest.keyClick(panel.tree, Qt.Key.Key_Space)
    QApplication.processEvents()


def test_what_was_written_into_the_file_is_kept_and_read_when_the_user_looks(
    open_panel, until, tmp_path
):
    window, panel = open_panel(files="files")
    tools = window.application.tools
    until(lambda: Place("files", "tool", "read") in panel.items)
    have = {name: {"command": "files"} for name in ("files", "mine")}
    (tmp_path / "tools.json").write_text(json.dumps({"mcpServers": have}))
    tick(panel, Place("files", "tool", "read"), until)
    until(lambda: tools.problem or "slipstream" in kept(tmp_path))
    assert [server.name for server in tools.configuration.servers] == ["files", "mine"]
    assert not tools.offered()
    tick(panel, Place("files", "tool", "read"), until)
    until(lambda: "slipstream" in kept(tmp_path))
    assert kept(tmp_path)["mcpServers"] == have
    assert tools.problem is None
    path = tmp_path / "tools.json"
    for text, names in (
        ("{ damaged", ["files", "mine"]),
        ('{"mcpServers": {"a": {"command": "a"}}}', ["a"]),
    ):
        panel.close()
        until(lambda: not window.findChildren(ToolsPanel))
        path.write_text(text)
        window.menus.actions["tools"].trigger()
        until(lambda damaged=text[-1] == "d": (tools.problem is not None) == damaged)
        assert [server.name for server in tools.configuration.servers] == names
        (panel,) = window.findChildren(ToolsPanel)
    assert not (tmp_path / "tools.damaged.json").exists()


def test_a_server_of_which_tools_are_on_has_failed_and_is_restarted(open_window, until, tmp_path):
    have = {name: {"command": "broken"} for name in ("git", "unused")}
    switched = {"servers": {"git": {"tools": {"log": "digest"}}}}
    (tmp_path / "tools.json").write_text(json.dumps({"mcpServers": have, "slipstream": switched}))
    box = toolbox(tmp_path, fake_tools_host(tmp_path, "ready serve"))
    window = open_window(tools=box)
    until(lambda: box.set_up)
    box.look()
    until(lambda: all(box.process.state(name).state == "failed" for name in have))
    assert "git" in window.notices.texts["tools"]
    assert "unused" not in window.notices.texts["tools"]
    panel = panel_of(window)
    choose(panel, Place("git"))
    until(lambda: "Install it" in panel.text.toPlainText())
    states = []
    box.process.changed.connect(lambda: states.append(box.process.state("git").state))
    panel.restart.click()
    until(lambda: states[-2:] == ["starting", "failed"])


def test_servers_are_added_edited_switched_off_removed_and_found(
    open_panel, until, tmp_path, monkeypatch
):
    window, panel = open_panel()
    tools = window.application.tools
    for number in (1, 2):
        panel.add.click()
        dialog = dialog_of(panel, until)
        dialog.text.setPlainText(f"notes --number {number}")
        dialog.ok.click()
        until(lambda: not panel.findChildren(ServerDialog))
    assert [server.name for server in tools.configuration.servers] == ["notes", "notes 2"]
    assert panel.chosen == Place("notes 2")
    tick(panel, Place("notes 2", "tool", "write"), until)
    choose(panel, Place("notes 2"))
    panel.edit.click()
    dialog = dialog_of(panel, until)
    dialog.text.setPlainText('{"notes 2": {"command": "notes", "env": {"KEY": "a secret"}}}')
    dialog.ok.click()
    assert tools.configuration.servers[1] == Server("notes 2", "notes", env={"KEY": "a secret"})
    assert "KEY" in panel.text.toPlainText()
    assert "secret" not in panel.text.toPlainText()
    until(tools.offered)
    tick(panel, Place("notes 2"), until, on=False)
    assert tools.offered() == ()
    assert Place("notes 2", "tool", "write") not in panel.items
    panel.remove.click()
    part(panel.findChild(QMessageBox), QPushButton, "Remove").click()
    assert panel.chosen == Place(OWN)
    until(lambda: [*kept(tmp_path).get("mcpServers", {})] == ["notes"])
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for path, text in (
        (".cursor/mcp.json", '{"mcpServers": {"odd": 5, "web": {"url": "https://a.example/mcp"}}}'),
        (".lmstudio/mcp.json", "{ damaged"),
    ):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text)
    panel.add.click()
    dialog = dialog_of(panel, until)
    assert dialog.list.topLevelItemCount() == 1
    item = dialog.list.topLevelItem(0)
    assert "Cursor" in item.text(1)
    item.setCheckState(0, Qt.CheckState.Checked)
    dialog.ok.click()
    assert [one.name for one in window.application.tools.configuration.servers] == ["notes", "web"]


def test_nothing_runs_before_the_user_looks_and_a_renamed_server_keeps_its_command(
    open_window, until, tmp_path
):
    have = {name: {"command": name} for name in ("files", "git")}
    (tmp_path / "tools.json").write_text(json.dumps({"mcpServers": have}))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "tools-files.log").write_text("-- started\nIt complains.\n")
    window = open_window(tools=toolbox(tmp_path, fake_tools_host(tmp_path, "ready serve")))
    tools = window.application.tools
    until(lambda: tools.set_up)
    assert tools.process.pid == 0
    window.menus.actions["settings"].trigger()
    part(window, QPushButton, "Set up tools").click()
    until(lambda: tools.process.state("files").state == "running")
    assert tools.offered() == ()
    panel = panel_of(window)
    choose(panel, Place("files"))
    until(lambda: "It complains." in panel.text.toPlainText())
    panel.edit.click()
    dialog = dialog_of(panel, until)
    dialog.text.setPlainText(dialog.text.toPlainText().replace('"files": ', '"documents": '))
    dialog.ok.click()
    servers = tools.configuration.servers
    assert {(one.name, one.command) for one in servers} == {("git", "git"), ("documents", "files")}
    assert panel.chosen == Place("documents")


def test_what_is_on_is_offered_until_it_has_changed_and_again_after_a_restart(
    open_panel, open_window, until, tmp_path
):
    steps = "ready serve -- ready serve:other"
    window, panel = open_panel(steps, files="files")
    tools = window.application.tools
    place = Place("files", "tool", "read")
    tick(panel, place, until)
    tick(panel, Place("files", "trust"), until)
    assert [(tool.server, tool.name) for tool in tools.offered()] == [("files", "read")]
    assert tools.trusted() == {"files"}
    os.kill(tools.process.pid, signal.SIGKILL)
    until(lambda: place in panel.items and "Changed" in panel.items[place].text(1))
    choose(panel, place)
    assert "Changed" in panel.text.toPlainText()
    assert "Reads other." in panel.text.toPlainText()
    assert panel.items[place].checkState(0) == Qt.CheckState.Unchecked
    assert tools.offered() == ()
    assert "read" in window.notices.texts["tools"], "the panel may be closed"
    tick(panel, place, until)
    assert "tools" not in window.notices.texts
    assert "Changed" not in panel.text.toPlainText()
    window.close()
    assert tools.process.pid == 0, "quitting ends it"
    box = toolbox(tmp_path, fake_tools_host(tmp_path, steps))
    again = open_window(tools=box).application.tools
    until(again.offered)
    assert [tool.name for tool in again.offered()] == ["read"]
    assert again.trusted() == {"files"}


def test_a_damaged_file_is_said_and_kept_and_folders_are_chosen(open_panel, until, tmp_path):
    (tmp_path / "tools.json").write_text("{ damaged")
    window, panel = open_panel()
    until(lambda: "tools.json" in panel.line.words)
    tick(panel, Place(OWN, "tool", "read"), until)
    assert panel.line.words == ""
    until(lambda: (tmp_path / "tools.damaged.json").exists() and kept(tmp_path))
    assert (tmp_path / "tools.damaged.json").read_text() == "{ damaged"
    tools = window.application.tools
    panel.folder.click()
    (asked,) = panel.findChildren(QFileDialog)
    asked.fileSelected.emit(str(tmp_path))
    asked.reject()
    assert tools.configuration.folders == (str(tmp_path),)
    until(lambda: tmp_path.name in str(kept(tmp_path)))
    choose(panel, Place(OWN, "folder", str(tmp_path)))
    panel.remove.click()
    assert tools.configuration.folders == ()
