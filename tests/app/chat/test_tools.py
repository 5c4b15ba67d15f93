"""The card that asks about a call, and the button that says which tools are asked about."""

import json
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QWidget

from app.chat.approval_card import Approval, ApprovalCard, in_tab_order
from app.chat.menu_buttons import ToolsButton
from engine.tools.steps import StepCall
from engine.tools.turn import Permissions
from tests.support.app.fake_tools import ADD, READ, WRITE

CALL = StepCall("a_0", "read_file", '{"path": "notes.md"}', "files", "read_file")


def needs_a_path(arguments):
    return "" if '"path": "' in arguments else "path: it is missing"


APPROVAL = Approval(CALL, read_only=True, repeats=False, among=2, fault=needs_a_path)


@pytest.fixture
def card(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(600, 500)
    card = ApprovalCard()
    card.setParent(window)
    card.resize(500, 300)
    window.show()
    card.show()
    card.show_approval(APPROVAL)
    yield card
    window.close()


def test_each_button_decides_with_all_characters_of_the_arguments_none_of_them_hidden(card):
    decided = []
    card.decided.connect(lambda *values: decided.append(values))
    card.arguments.setPlainText('{"path": "other.md"}')
    for button in card.buttons.values():
        button.click()
    ways = ("once", "refuse", "always", "never")
    assert decided == [("a_0", way, '{"path": "other.md"}') for way in ways]
    given = {"path": "\u200f1\xa0000\u2028\U000e0067."}
    arguments = json.dumps(given, ensure_ascii=False)
    card.show_approval(replace(APPROVAL, call=replace(CALL, id="a_1", arguments=arguments)))
    assert card.arguments.toPlainText().isascii()
    card.buttons["once"].click()
    assert json.loads(decided[-1][-1]) == given


def test_arguments_that_do_not_fit_cannot_run_and_stay_until_another_call_is_asked_about(card):
    assert card.fault.isHidden()
    card.arguments.setPlainText("{}")
    enabled = {way for way, button in card.buttons.items() if button.isEnabled()}
    assert enabled == {"refuse", "never"}
    assert "path" in card.fault.words
    card.arguments.setPlainText('{"path": "mine.md"}')
    assert all(button.isEnabled() for button in card.buttons.values())
    assert card.fault.isHidden()
    card.show_approval(replace(APPROVAL, among=1))
    assert card.arguments.toPlainText() == '{"path": "mine.md"}'
    card.show_approval(replace(APPROVAL, call=replace(CALL, id="a_1")))
    assert "notes.md" in card.arguments.toPlainText()


def test_no_name_is_active_content(card):
    nasty = replace(CALL, tool="<img src=x>\u202e\nread", server="<b>files</b>")
    card.show_approval(replace(APPROVAL, call=nasty))
    labels = card.findChildren(QLabel)
    assert all(label.textFormat() == Qt.TextFormat.PlainText for label in labels)
    assert not any("\u202e" in label.text() or "\n" in label.text() for label in labels)


def test_keys_reach_all_of_it_and_return_presses_only_a_button_with_the_focus(card):
    window = card.parentWidget()
    before = QWidget(window)
    before.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    before.show()
    in_tab_order(card, before)
    decided = []
    card.decided.connect(lambda id, way, arguments: decided.append(way))
    before.setFocus()
    QTest.keyClick(before, Qt.Key.Key_Return)
    assert not decided
    reached = []
    for _ in range(5):
        focus = window.focusWidget()
        QTest.keyClick(focus, Qt.Key.Key_Tab)
        reached.append(window.focusWidget())
    assert reached == [card.arguments, *card.buttons.values()]
    QTest.keyClick(card.buttons["never"], Qt.Key.Key_Return)
    assert decided == ["never"]
    card.show_approval(replace(APPROVAL, call=replace(CALL, id="a_1")))
    assert window.focusWidget() is not card.buttons["never"], "the next call is not decided too"


def test_arguments_are_seen_whole_up_to_a_height(card, qtbot):
    arguments = '{"path": "' + "x " * 150 + '"}'
    card.show_approval(replace(APPROVAL, call=replace(CALL, id="a_1", arguments=arguments)))
    bar = card.arguments.verticalScrollBar()
    for width in (500, 400):
        card.resize(width, 600)
        qtbot.waitUntil(lambda: bar.maximum() == 0)
    arguments = '{"path": "' + "x\\n" * 200 + '"}'
    card.show_approval(replace(APPROVAL, call=replace(CALL, id="a_2", arguments=arguments)))
    assert card.arguments.height() < 400


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
    button.show_tools(TOOLS, Permissions(trusted=frozenset(("files",))), set_up=True)
    texts = [action(button, tool.name).text() == tool.name for tool in TOOLS]
    assert texts == [False, True, True], "trusted, it reads unasked"
    action(button, "read_file").trigger()
    assert button.permissions == Permissions(never=frozenset({key}))
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
