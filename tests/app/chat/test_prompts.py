"""Saved prompts: listed by a slash, saved from the message field, renamed and deleted."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.chat.prompts import Prompt, PromptsDialog, prompts_from_json, prompts_to_json

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


def test_a_slash_lists_them_and_keys_choose(window):
    field, key = window.composer.field, Qt.Key
    QTest.keyClicks(field, "/")
    assert listed(window) == [prompt.name for prompt in PROMPTS]
    press(window, key.Key_Down, key.Key_Return)
    assert (window.composer.text, listed(window)) == (PROMPTS[1].text, [])
    field.undo()
    assert window.composer.text == "/"
    QTest.keyClicks(field, "GER trans")
    assert listed(window) == [PROMPTS[0].name]
    press(window, key.Key_Up, key.Key_Escape)
    assert (window.composer.text, listed(window)) == ("/GER trans", [])
    press(window, key.Key_Backspace)
    assert listed(window) == [PROMPTS[0].name]
    QTest.keyClicks(field, "/usr")
    assert listed(window) == []
    press(window, key.Key_Return)  # no prompt: it is a message
    assert window.conversation.on_its_way == "/GER tran/usr"


def test_the_message_is_saved_as_a_prompt_and_one_can_be_changed(window, until):
    window.composer.set_text("Explain it to a child.\n")
    window.menus.actions["save_prompt"].trigger()
    saved = prompts_from_json(window.settings.prompts)
    assert saved[:2] == PROMPTS
    assert saved[2].text == "Explain it to a child.\n"
    window.menus.actions["prompts"].trigger()
    dialog = window.findChild(PromptsDialog)
    assert dialog.text.toPlainText() == saved[2].text
    dialog.text.setPlainText("Explain it.")
    dialog.names.currentItem().setText("Child")
    dialog.names.setCurrentRow(0)
    dialog.delete.click()
    assert prompts_from_json(window.settings.prompts) == (
        PROMPTS[1],
        Prompt("Child", "Explain it."),
    )
    dialog.close()


def test_a_damaged_line_costs_one_prompt():
    text = prompts_to_json(PROMPTS)
    assert prompts_from_json(text) == PROMPTS
    assert prompts_from_json(text[3:] + "\n[1, 2]\n\x00\n") == PROMPTS[1:]
    assert prompts_from_json("") == ()
