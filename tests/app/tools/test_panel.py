"""The panel shows rows and all that is said of one, and passes on what the user ticks; servers
are shown before they run, without their keys."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from app.tools.panel import ToolsPanel
from app.tools.server_dialog import ServerDialog
from app.tools.server_rows import Place, Row
from engine.tools.configuration import Configuration
from engine.tools.configuration import written as saved
from engine.tools.protocol import OWN, Server
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)

FOLDER, READ, FILES, GIT = (
    Place(OWN, "folder", "/notes"),
    Place("files", "tool", "read"),
    Place("files"),
    Place("git"),
)


def row(place, *, on=None, warns=False, text=""):
    return Row(place, place.name or place.server, f"Of {place}", lambda: text, on, warns)


OURS = (row(Place(OWN), text="Ours"), row(FOLDER))
OF_FILES = (row(FILES, on=True, text="Files"), row(READ, on=False, text="Reads"))
OF_GIT = (row(GIT, on=False, warns=True, text="Git"),)


@pytest.fixture
def panel(qtbot):
    made = ToolsPanel()
    qtbot.addWidget(made)
    made.show_rows((*OURS, *OF_FILES, *OF_GIT))
    made.show()
    return made


def choose(panel, place):
    panel.tree.setCurrentItem(panel.items[place])


def enabled(panel):
    return tuple(one.isEnabled() for one in (panel.restart, panel.edit, panel.remove))


def test_rows_that_are_shown_again_keep_their_place(panel):
    for place, text, can in (
        (Place(OWN), "Ours", (False, False, False)),
        (FOLDER, "", (False, False, True)),
        (FILES, "Files", (True, True, True)),
        (GIT, "Git", (False, True, True)),
    ):
        choose(panel, place)
        assert panel.chosen == place
        assert (panel.text.toPlainText(), enabled(panel)) == (text, can)
    choose(panel, READ)
    item, of_server = panel.items[READ], panel.items[FILES]
    of_server.setExpanded(False)
    assert item.parent() is of_server
    panel.show_rows((*OURS, OF_FILES[0], row(READ, on=True, text="Now"), *OF_GIT))
    assert panel.items[READ] is item
    assert not of_server.isExpanded()
    assert item.checkState(0) == Qt.CheckState.Checked
    assert panel.text.toPlainText() == "Now"
    panel.show_rows((*OURS, OF_FILES[0]))
    assert panel.chosen == FILES, "its server, as it is gone"
    panel.show_rows(OURS)
    assert panel.chosen == Place(OWN)
    assert [*panel.items] == [Place(OWN), FOLDER]


def test_ticks_are_passed_on_and_only_the_users(panel, qtbot):
    ticked = []
    panel.ticked.connect(lambda place, on: ticked.append((place, on)))
    panel.show_rows((*OURS, row(FILES, on=False), *OF_GIT))
    assert ticked == []
    choose(panel, FILES)
    qtbot.keyClick(panel.tree, Qt.Key.Key_Space)
    choose(panel, Place(OWN))
    qtbot.keyClick(panel.tree, Qt.Key.Key_Space)
    assert ticked == [(FILES, True)]


def test_texts_of_servers_are_text(panel):
    nasty = "<b>bold</b> \u202e" + "x" * 1_000_000
    place = Place("files", "tool", "<i>t</i>\n\u202e")
    panel.show_rows((*OURS, *OF_FILES, Row(place, place.name, nasty, lambda: nasty, True)))
    choose(panel, place)
    panel.line.say("<b>bold</b> \u202e")
    assert panel.line.isVisible()
    panel.grab()
    assert panel.minimumSizeHint().width() <= panel.minimumWidth()
    assert {one.textFormat() for one in panel.findChildren(QLabel)} == {Qt.TextFormat.PlainText}
    item = panel.items[place]
    shown = [item.text(0), item.text(1), item.toolTip(0), panel.text.toPlainText()]
    shown += [one.text() for one in panel.findChildren(QLabel)]
    assert not any("\u202e" in text for text in shown)
    assert "\n" not in "".join((item.text(0), item.text(1)))
    assert item.toolTip(0) == "&lt;i&gt;t&lt;/i&gt;"
    assert max(map(len, shown)) <= 20_000


# The dialog in which servers are written

UVX = Server("git", "uvx", ("mcp-server-git", "--repo", "/my code"), {"TOKEN": "secret"}, "/tmp")
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
    server = replace(UVX, args=("/my\u00a0code", "one\u2028two"))  # spaces of any kind stay
    dialog, made = open_dialog(parent, server)
    dialog.ok.click()
    assert made == [(server,)]


def test_servers_are_pasted(parent):
    dialog, made = open_dialog(parent)
    dialog.text.setPlainText(saved(Configuration((UVX, WEB))))
    assert dialog.line.tone != "warning"
    assert all(words in dialog.line.text for words in ("uvx mcp-server-git", WEB.url, "TOKEN"))
    assert "secret" not in dialog.line.text
    dialog.ok.click()
    assert made == [(UVX, WEB)]


def test_a_server_is_edited_without_its_keys(parent):
    dialog, made = open_dialog(parent, UVX)
    assert not dialog.list.isVisible()
    assert "secret" not in dialog.text.toPlainText()
    dialog.text.setPlainText(dialog.text.toPlainText().replace("/my code", "/other"))
    dialog.ok.click()
    assert made == [(replace(UVX, args=("mcp-server-git", "--repo", "/other")),)]
    dialog, made = open_dialog(parent, UVX)
    dialog.text.clear()
    assert not dialog.ok.isEnabled()
    dialog.text.setPlainText(saved(Configuration((UVX, WEB))))
    assert not dialog.ok.isEnabled()
