"""What is typed and not sent is kept, and an edited message comes back into the composer."""

import pytest
from PySide6.QtTest import QTest

from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS, Open, Until
from tests.support.app.window_use import answered, send, texts, visible_list

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)


def test_the_context_is_counted_with_the_answer(
    open_window: Open, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = open_window()
    counted: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        window.composer_controller.tokens, "count", lambda texts, *, written: counted.append(texts)
    )
    send(window, "hello")
    until(lambda: counted and counted[-1] == ("", "hello", "served", ""))


def test_editing_sends_another_version(open_window: Open, until: Until) -> None:
    window = open_window()
    send(window, "first")
    until(answered(window, 2))
    QTest.keyClicks(window.composer.field, "kept")
    window.menus.actions["edit"].trigger()
    assert window.composer.text == "first"
    assert "edit" in window.notices.texts
    send(window, " and more")
    until(lambda: texts(window)[0] == "first and more" and answered(window, 2)())
    assert window.conversation.branch[0].siblings == 2
    assert window.composer.text == "kept"
    assert "edit" not in window.notices.texts
    widget = window.transcript.messages[0].widget
    assert widget is not None
    widget.branch_asked.emit(1)
    until(lambda: texts(window)[0] == "first")


def test_an_edit_can_be_given_up(open_window: Open, until: Until) -> None:
    window = open_window()
    send(window, "first")
    until(answered(window, 2))
    QTest.keyClicks(window.composer.field, "kept")
    window.menus.actions["edit"].trigger()
    window.notices.press("edit")
    assert window.composer.text == "kept"
    assert not window.composer_controller.editing


def test_each_conversation_keeps_what_is_unsent(open_window: Open, until: Until) -> None:
    window = open_window()
    send(window, "first")
    until(answered(window, 2))
    QTest.keyClicks(window.composer.field, "for the first")
    window.menus.actions["new"].trigger()
    assert window.composer.text == ""
    QTest.keyClicks(window.composer.field, "for the new")
    visible = visible_list(window)
    until(lambda: visible.model().rowCount() == 1)
    window.sidebar.chosen.emit(1)
    until(lambda: window.composer.text == "for the first")
    window.menus.actions["new"].trigger()
    assert window.composer.text == "for the new"


def test_what_is_typed_for_a_new_conversation_survives_news_of_another(
    open_window: Open, until: Until
) -> None:
    window = open_window()
    send(window, "first")
    until(answered(window, 2))
    record = window.conversation.record
    assert record is not None
    window.menus.actions["new"].trigger()
    QTest.keyClicks(window.composer.field, "for the new")
    window.show_conversation(record.id)
    until(lambda: window.conversation.record)
    window.conversation.configure(system_prompt="Be brief.", settings=None)
    until(lambda: window.conversation.configured[0])
    window.menus.actions["new"].trigger()
    assert window.composer.text == "for the new"
