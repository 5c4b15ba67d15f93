"""The button for tools: which may be called here, and what runs without asking."""

import pytest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from app.chat.tools_button import ToolsButton, rule_of
from engine.tools.turn import Permissions
from tests.support.app.fake_tools import ADD, READ, WRITE

TOOLS = (READ, WRITE, ADD)


@pytest.fixture
def button(qtbot: QtBot) -> ToolsButton:
    button = ToolsButton()
    qtbot.addWidget(button)
    button.permitted.connect(lambda chosen: button.show_tools(TOOLS, chosen, set_up=True))
    button.show_tools(TOOLS, Permissions(), set_up=True)
    return button


def submenu(button: ToolsButton, name: str) -> QMenu:
    menus = [action.menu() for action in button.choices_menu().actions()]
    return next(menu for menu in menus if isinstance(menu, QMenu) and name in menu.title())


def choose(button: ToolsButton, name: str, place: int) -> None:
    submenu(button, name).actions()[place].trigger()


def test_it_is_not_shown_if_no_tools_are_set_up(button: ToolsButton) -> None:
    assert not button.isHidden()
    button.show_tools((), Permissions(), set_up=True)
    assert not button.isHidden(), "the way to the settings"
    button.show_tools((), Permissions(), set_up=False)
    assert button.isHidden()


def test_what_is_allowed_of_a_tool_can_be_changed_and_taken_back(button: ToolsButton) -> None:
    choose(button, "read_file", 1)
    choose(button, "add", 2)
    rules = [rule_of(tool, button.permissions) for tool in TOOLS]
    assert rules == ["always", "ask", "never"]
    assert "2" in button.text()
    assert [a.isChecked() for a in submenu(button, "read_file").actions()] == [False, True, False]
    choose(button, "read_file", 0)
    choose(button, "add", 0)
    assert button.permissions == Permissions()


def test_all_can_be_switched_off_and_asked_about_again(button: ToolsButton) -> None:
    asked: list[bool] = []
    button.settings_asked.connect(lambda: asked.append(True))
    off, again, settings = [a for a in button.choices_menu().actions() if a.text()][-3:]
    assert not again.isEnabled()
    off.trigger()
    assert all(rule_of(tool, button.permissions) == "never" for tool in TOOLS)
    again = [a for a in button.choices_menu().actions() if a.text()][-2]
    again.trigger()
    assert button.permissions == Permissions()
    settings.trigger()
    assert asked


def test_a_trusted_tool_that_only_reads_runs_unasked_or_is_off(button: ToolsButton) -> None:
    believed = Permissions(trusted=frozenset(("files",)))
    button.show_tools(TOOLS, believed, set_up=True)
    assert len(submenu(button, "read_file").actions()) == 2
    assert len(submenu(button, "write_file").actions()) == 3
