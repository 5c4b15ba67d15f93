"""Saved prompts: listed by a slash, saved from the message field, renamed and deleted."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit

from app.chat.prompts import Prompt, prompts_from_json, prompts_to_json

PROMPTS = (Prompt("Translate to German", "Translate:\n\n"), Prompt("Mend", "Mend this: "))


@pytest.fixture
def window(open_window, until):
    window = open_window()
    window.settings.prompts = prompts_to_json(PROMPTS)
    until(lambda: window.loader.loaded)
    return window


def listed(window):
    prompts = window.composer.prompts
    return [] if prompts.isHidden() else [prompts.item(n).text() for n in range(prompts.count())]


def press(window, *keys):
    for key in keys:
        QTest.keyClick(window.composer.field, key)


def test_a_slash_lists_them_and_keys_choose_save_rename_and_delete(window, until):
    field, key = window.composer.field, Qt.Key
    QTest.keyClicks(field, "/")
    assert listed(window) == [prompt.name for prompt in PROMPTS]
    press(window, key.Key_Down, key.Key_Return)
    assert (window.composer.text, listed(window)) == (PROMPTS[1].text, [])
    field.undo()
    assert window.composer.text == "/"
    QTest.keyClicks(field, "GER transl")
    assert listed(window) == [PROMPTS[0].name]
    press(window, key.Key_Up, key.Key_Escape)
    assert listed(window) == []
    press(window, key.Key_Backspace)
    assert listed(window) == [PROMPTS[0].name]
    QTest.keyClicks(field, "/usr")
    assert listed(window) == []
    press(window, key.Key_Return)  # no prompt: it is a message
    assert "/usr" in window.conversation.on_its_way
    written = "Explain it to a child.\n"
    window.composer.set_text(written)
    window.menus.actions["save_prompt"].trigger()
    saved = prompts_from_json(window.settings.prompts)
    assert saved[:2] == PROMPTS
    assert saved[2].text == written
    window.composer.set_text("")
    QTest.keyClicks(window.composer.field, "/expl")
    press(window, Qt.Key.Key_F2)
    QTest.keyClicks(window.composer.prompts.findChild(QLineEdit), "Child")
    QTest.keyClick(window.composer.prompts.findChild(QLineEdit), Qt.Key.Key_Return)
    renamed = Prompt("Child", saved[2].text)
    until(lambda: prompts_from_json(window.settings.prompts) == (*PROMPTS, renamed))
    QTest.keyClick(window.composer.field, Qt.Key.Key_Delete, Qt.KeyboardModifier.ShiftModifier)
    assert prompts_from_json(window.settings.prompts) == PROMPTS
    assert listed(window) == []


def test_a_damaged_line_costs_one_prompt():
    text = prompts_to_json(PROMPTS)
    assert prompts_from_json(text) == PROMPTS
    damaged = text[3:] + "\n[1, 2]\n\x00\n"
    assert prompts_from_json(damaged) == PROMPTS[1:]
    assert prompts_from_json("") == ()
