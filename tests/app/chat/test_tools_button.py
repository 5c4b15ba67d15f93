"""The button for tools: which are enabled, and which run without asking."""

import pytest

from app.chat.menu_buttons import ToolsButton
from engine.tools.turn import Permissions
from tests.support.app.fake_tools import ADD, READ, WRITE

TOOLS = (READ, WRITE, ADD)


@pytest.fixture
def button(qtbot):
    button = ToolsButton()
    qtbot.addWidget(button)
    button.permitted.connect(lambda chosen: button.show_tools(TOOLS, chosen, set_up=True))
    button.show_tools((), Permissions(), set_up=False)
    assert button.isHidden()
    for tools in ((), TOOLS):
        button.show_tools(tools, Permissions(), set_up=True)
        assert not button.isHidden(), "the way to the settings"
    return button


def action(button, name):
    """The entry of a fresh menu whose text begins so."""
    return next(one for one in button.choices_menu().actions() if one.text().startswith(name))


def test_a_tool_is_switched_off_here_and_asked_about_when_it_is_on_again(button):
    key = ("files", "read_file")
    button.show_tools(TOOLS, Permissions(always=frozenset({key})), set_up=True)
    entry = action(button, "read_file")
    assert entry.isChecked()
    assert entry.text() != action(button, "write_file").text().replace("write", "read")
    entry.trigger()
    assert button.permissions == Permissions(never=frozenset({key}))
    assert not action(button, "read_file").isChecked()
    assert "2" in button.text()
    action(button, "read_file").trigger()
    assert button.permissions == Permissions()
    assert action(button, "read_file").text() == "read_file"


def test_all_can_be_switched_off_and_asked_about_again(button):
    asked = []
    button.settings_asked.connect(lambda: asked.append(True))
    assert not action(button, "Ask before every").isEnabled()
    never = Permissions(never=frozenset({(ADD.server, ADD.name)}))
    button.show_tools(TOOLS[:2], never, set_up=True)  # the server of the third does not run
    action(button, "Turn all off").trigger()
    assert button.permissions.never == {(tool.server, tool.name) for tool in TOOLS}
    assert not action(button, "Turn all off").isEnabled()
    keys = frozenset((tool.server, tool.name) for tool in TOOLS[:2])
    button.show_tools(TOOLS, Permissions(always=keys - {("files", "write_file")}), set_up=True)
    action(button, "Ask before every").trigger()
    assert button.permissions == Permissions()
    action(button, "Set up tools").trigger()
    assert asked


def test_a_trusted_tool_that_only_reads_runs_unasked(button):
    button.show_tools(TOOLS, Permissions(trusted=frozenset(("files",))), set_up=True)
    texts = [action(button, tool.name).text() == tool.name for tool in TOOLS]
    assert texts == [False, True, True]
    action(button, "read_file").trigger()
    assert button.permissions == Permissions(never=frozenset({("files", "read_file")}))
