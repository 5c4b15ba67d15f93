"""Keys of an open conversation scroll it, write into the composer and choose saved prompts."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit

from app.chat.prompts import Prompt, prompts_from_json, prompts_to_json
from app.conversations.records import Entry, ExportedChat
from tests.support.app.window_use import answered, send, texts, visible_list

KEY, CONTROL = Qt.Key, Qt.KeyboardModifier.ControlModifier
LONG = "\n\n".join(f"Paragraph {number}." for number in range(60))


@pytest.fixture
def window(open_window, until):
    """A window with a long conversation, at its end."""
    window = open_window()
    entries = [
        Entry(number - 1 if number else None, "assistant" if number % 2 else "user", LONG)
        for number in range(4)
    ]
    (record,) = window.store.add([ExportedChat("Long", tuple(entries), leaf=3)]).result()
    window.show_conversation(record.id)
    until(lambda: len(texts(window)) == 4)
    window.transcript.write_all()
    until(lambda: value(window) > 1000)
    return window


def value(window):
    return window.transcript.verticalScrollBar().value()


def scrolls(window, at):
    """Check all keys at a widget, from the end of the conversation to its start and back."""
    bar = window.transcript.verticalScrollBar()
    end, page = bar.maximum(), window.transcript.viewport().height()
    QTest.keyClick(at, KEY.Key_PageUp)
    assert end - page < value(window) < end - page // 2
    assert not window.transcript.pinned
    QTest.keyClick(at, KEY.Key_PageDown)
    assert value(window) == bar.maximum()
    assert window.transcript.pinned
    for start, stop, modifier in (
        (KEY.Key_Home, KEY.Key_End, Qt.KeyboardModifier.NoModifier),
        (KEY.Key_Home, KEY.Key_End, CONTROL),
        (KEY.Key_Up, KEY.Key_Down, CONTROL),
    ):
        QTest.keyClick(at, start, modifier)
        assert value(window) == 0
        QTest.keyClick(at, stop, modifier)
        assert value(window) == bar.maximum()


def test_keys_scroll_from_a_message_and_from_the_composer_where_only_pages_do_once_it_has_words(
    window,
):
    field = window.composer.field
    window.composer.setFocus()
    scrolls(window, field)
    view = window.transcript.messages[-1].view
    view.setFocus()
    scrolls(window, view)
    QTest.keyClick(view, KEY.Key_Home, Qt.KeyboardModifier.ShiftModifier)
    assert window.transcript.pinned, "Shift selects text"
    end = value(window)
    field.setFocus()
    QTest.keyClicks(field, "some words")
    QTest.keyClick(field, KEY.Key_Home)
    assert (field.textCursor().position(), value(window)) == (0, end)
    QTest.keyClick(field, KEY.Key_PageUp)
    assert value(window) < end
    above = value(window)
    window.composer.set_text("line\n" * 30)
    QTest.keyClick(field, KEY.Key_PageUp)
    assert value(window) == above, "a message that scrolls itself does"


def test_letters_belong_into_the_composer_also_after_a_click_on_a_conversation(window, until):
    view = window.transcript.messages[-1].view
    view.setFocus()
    QTest.keyClicks(view, "hi there")
    assert window.composer.field.hasFocus()
    assert window.composer.text.startswith("h")
    window.composer.set_text("")
    send(window, "new")
    until(answered(window, 6))
    window.menus.actions["new"].trigger()
    window.application.listing.refresh()
    listed = visible_list(window)
    until(lambda: listed.model().rowCount() == 1)
    line = listed.visualRect(listed.model().index(0, 0))
    QTest.mouseClick(
        listed.viewport(),
        Qt.MouseButton.LeftButton,
        pos=QPoint(line.center().x(), line.bottom() - 8),
    )
    until(lambda: len(texts(window)) == 6)
    assert window.composer.field.hasFocus()
    listed.setFocus()
    QTest.keyClick(listed, KEY.Key_Return)
    assert listed.hasFocus(), "the keyboard stays in the list"


PROMPTS = (Prompt("Translate to German", "Translate:\n\n"), Prompt("Mend", "Mend this: "))


def test_a_slash_lists_prompts_and_keys_choose_save_rename_and_delete_them(open_window, until):
    window = open_window()
    window.settings.prompts = prompts_to_json(PROMPTS)
    until(lambda: window.loader.loaded)
    field, key, prompts = window.composer.field, Qt.Key, window.composer.prompts

    def listed():
        names = [prompts.item(n).text() for n in range(prompts.count())]
        return [] if prompts.isHidden() else names

    def press(*keys):
        for each in keys:
            QTest.keyClick(field, each)

    QTest.keyClicks(field, "/")
    assert listed() == [prompt.name for prompt in PROMPTS]
    press(key.Key_Down, key.Key_Return)
    assert (window.composer.text, listed()) == (PROMPTS[1].text, [])
    field.undo()
    assert window.composer.text == "/"
    QTest.keyClicks(field, "GER transl")
    assert listed() == [PROMPTS[0].name]
    press(key.Key_Up, key.Key_Escape)
    assert listed() == []
    press(key.Key_Backspace)
    assert listed() == [PROMPTS[0].name]
    QTest.keyClicks(field, "/usr")
    assert listed() == []
    press(key.Key_Return)  # no prompt: it is a message
    assert "/usr" in window.conversation.on_its_way
    written = "Explain it to a child.\n"
    window.composer.set_text(written)
    window.menus.actions["save_prompt"].trigger()
    saved = prompts_from_json(window.settings.prompts)
    assert saved[:2] == PROMPTS
    assert saved[2].text == written
    window.composer.set_text("")
    QTest.keyClicks(field, "/expl")
    press(key.Key_F2)
    line = prompts.findChild(QLineEdit)
    QTest.keyClicks(line, "Child")
    QTest.keyClick(line, key.Key_Return)
    renamed = Prompt("Child", saved[2].text)
    until(lambda: prompts_from_json(window.settings.prompts) == (*PROMPTS, renamed))
    QTest.keyClick(field, key.Key_Delete, Qt.KeyboardModifier.ShiftModifier)
    assert prompts_from_json(window.settings.prompts) == PROMPTS
    assert listed() == []


def test_a_damaged_line_costs_one_prompt():
    text = prompts_to_json(PROMPTS)
    assert prompts_from_json(text) == PROMPTS
    damaged = text[3:] + "\n[1, 2]\n\x00\n"
    assert prompts_from_json(damaged) == PROMPTS[1:]
    assert prompts_from_json("") == ()
