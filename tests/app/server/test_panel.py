"""The panel shows the server and its requests, and passes on the user's choices."""

import psutil
import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPushButton, QTabWidget

from app.server.local_server import ServerState
from app.server.panel import ServerPanel
from tests.support.app.window_maker import fake_server
from tests.support.app.window_use import part


@pytest.fixture
def open_panel(open_window, tmp_path, until):
    """Opens a window and the panel over it; the engine and the server take these steps."""

    def open_panel(server, steps="ready take load serve"):
        window = open_window(steps, server=fake_server(tmp_path, server))
        until(lambda: window.loader.loaded)
        window.menus.actions["server"].trigger()
        return window, part(window, ServerPanel)

    return open_panel


def rows(tree):
    """The names, each with the line about it."""
    items = (tree.topLevelItem(place) for place in range(tree.topLevelItemCount()))
    return {item.text(0): item.text(1) for item in items}


def test_the_switch_switches_and_what_is_asked_meanwhile_is_shown(open_panel, until, tmp_path):
    over = tmp_path / "over"
    told = "request:1:writing:Zed request:2:reading:Aider request:3:waiting:<b>Codex</b>"
    window, panel = open_panel(f"listen {told} wait:{over} over take take rest")
    server = window.application.server
    assert not panel.switch.isChecked()
    panel.switch.click()
    until(lambda: panel.requests.topLevelItemCount() == 3)
    assert panel.switch.isChecked()
    assert (panel.line.tone, panel.switch.failed) == ("good", False)
    asked = "/chat/completions \u00b7 tiny \u00b7 "
    assert rows(panel.requests) == {
        "Zed": f"{asked}7 tokens written",
        "Aider": f"{asked}reading 5 tokens",
        "<b>Codex</b>": f"{asked}waiting",
    }
    assert all(name in panel.clients.words for name in ("Zed", "Aider", "Codex"))
    over.touch()
    until(lambda: not rows(panel.requests))
    panel.switch.click()
    until(lambda: server.state is ServerState.OFF)
    assert not panel.switch.isChecked()
    assert panel.line.tone == "muted"


def test_a_death_is_told_and_offers_a_restart(open_panel, until, tmp_path):
    die = tmp_path / "die"
    window, panel = open_panel(f"listen kill -- listen wait:{die} kill -- listen rest")
    server = window.application.server
    panel.switch.click()
    until(lambda: server.state is ServerState.FAILED)
    assert (panel.line.tone, panel.switch.failed) == ("warning", True)
    assert "SIGKILL" in panel.line.text
    assert panel.restart.isVisible()
    panel.restart.click()
    until(lambda: server.state is ServerState.ON)
    assert not panel.restart.isVisible()
    panel.close()
    die.touch()
    until(lambda: "SIGKILL" in window.notices.texts.get("server", ""))
    server.restart()
    until(lambda: server.state is ServerState.ON)
    assert "server" not in window.notices.texts


def test_another_port_and_other_models_start_it_with_them_and_one_that_rests_is_not_loaded(
    open_panel, until
):
    alone = "listen model:loaded:tiny rest"
    several = (
        "listen request:1:waiting model:loaded:tiny model:loading:org/big model:not_loaded:small "
        "rest"
    )
    window, panel = open_panel(f"{alone} -- {alone} -- {several}")
    server = window.application.server
    panel.switch.click()
    until(lambda: [*rows(panel.models)] == ["tiny"])
    assert "--allow" not in psutil.Process(server.pid).cmdline()
    panel.port.setValue(9123)
    panel.port.editingFinished.emit()
    until(lambda: server.status.address.endswith(":9123"))
    assert panel.address.field.text() == "http://127.0.0.1:9123/v1"
    assert window.settings.server_port == 9123
    panel.other_models.click()
    until(lambda: len(rows(panel.models)) == 3)
    assert window.settings.server_models
    assert "--allow" in psutil.Process(server.pid).cmdline()
    assert "2 other models" in panel.line.text
    assert rows(panel.models) == {
        "tiny": "Loaded, 4.20 GB",
        "org/big": "Loading…",
        "small": "Not loaded",
    }
    window.loader.unload()  # which the server does not know
    until(lambda: rows(panel.models)["tiny"] == "Not loaded")
    window.loader.wake()
    until(lambda: rows(panel.models)["tiny"] == "Loaded, 4.20 GB")


def test_lines_are_copied_and_it_is_on_from_the_start_where_that_was_chosen(open_panel, until):
    window, panel = open_panel("listen rest")
    clipboard = QGuiApplication.clipboard()
    panel.address.button.click()
    assert clipboard.text() == "http://127.0.0.1:8737/v1"
    panel.key.button.click()
    key = window.application.server.key
    assert clipboard.text() == key
    for shown in (False, True, False):  # others may look at the screen
        assert (key in panel.key.field.displayText()) == shown
        panel.key.show_button.click()
    names = [panel.programs.itemText(place) for place in range(panel.programs.count())]
    assert {"Zed", "Continue", "Aider", "Codex", "Claude Code", "Xcode"} <= set(names)
    panel.programs.setCurrentIndex(names.index("Aider"))
    panel.programs.activated.emit(names.index("Aider"))
    panel.findChild(QTabWidget).setCurrentIndex(1)
    part(panel, QPushButton, "Copy the lines").click()
    assert all(part in clipboard.text() for part in ("aider", "tiny", key, "127.0.0.1:8737"))
    assert not window.settings.server_at_start
    panel.at_start.click()
    assert window.settings.server_at_start
    window.close()
    again, _ = open_panel("listen rest")
    until(lambda: again.application.server.state is ServerState.ON)
    again.close()
    assert again.application.server.pid == 0, "quitting ends it"


def test_it_says_whether_there_is_a_model(open_panel, until):
    window, panel = open_panel("listen rest", "ready take load take begin take failed serve")
    panel.switch.click()
    until(lambda: panel.line.tone == "good")
    with_model = panel.line.text
    window.loader.unload()
    until(lambda: panel.line.text != with_model)
    assert panel.line.tone == "good", "it is loaded again when it is asked"
    window.loader.wake()
    until(lambda: panel.line.tone == "warning")
