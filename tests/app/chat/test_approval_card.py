"""The card that asks about a call: decisions, arguments that fit, and what stays."""

import json
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QWidget

from app.chat.approval_card import Approval, ApprovalCard, in_tab_order
from engine.tools.steps import StepCall

CALL = StepCall("a_0", "read_file", '{"path": "notes.md"}', "files", "read_file")


def needs_a_path(arguments):
    return "" if '"path": "' in arguments else "path: it is missing"


APPROVAL = Approval(CALL, read_only=True, repeats=False, among=2, fault=needs_a_path)


@pytest.fixture
def window(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(600, 500)
    return window


@pytest.fixture
def card(window):
    card = ApprovalCard()
    card.setParent(window)
    card.resize(500, 300)
    window.show()
    card.show()
    card.show_approval(APPROVAL)
    return card


def test_each_button_decides_with_the_arguments_as_they_are(card):
    decided = []
    card.decided.connect(lambda *values: decided.append(values))
    card.arguments.setPlainText('{"path": "other.md"}')
    for button in card.buttons.values():
        button.click()
    ways = ("once", "refuse", "always", "never")
    assert decided == [("a_0", way, '{"path": "other.md"}') for way in ways]


def test_no_character_of_the_arguments_is_lost_or_hidden(card):
    decided = []
    card.decided.connect(lambda *values: decided.append(values))
    given = {"path": "\u200f1\xa0000\u2028\U000e0067."}
    arguments = json.dumps(given, ensure_ascii=False)
    card.show_approval(replace(APPROVAL, call=replace(CALL, id="a_1", arguments=arguments)))
    assert card.arguments.toPlainText().isascii()
    card.buttons["once"].click()
    assert json.loads(decided[-1][-1]) == given


def test_arguments_that_do_not_fit_cannot_run(card):
    assert card.fault.isHidden()
    card.arguments.setPlainText("{}")
    enabled = {way for way, button in card.buttons.items() if button.isEnabled()}
    assert enabled == {"refuse", "never"}
    assert "path" in card.fault.words
    card.arguments.setPlainText('{"path": "x"}')
    assert all(button.isEnabled() for button in card.buttons.values())
    assert card.fault.isHidden()


def test_what_a_person_wrote_stays_until_another_call_is_asked_about(card):
    card.arguments.setPlainText('{"path": "mine.md"}')
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


def test_keys_reach_all_of_it_and_return_presses_only_a_button_with_the_focus(card, window):
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
