"""A person decides whether the model thinks first, and when it has thought enough."""

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton

from app.chat.conversation import DEFAULTS
from engine.events import Done, Prefill, Stats, Text
from engine.request import Request
from engine.stretches import Stretch
from tests.support.app.window_maker import events_file
from tests.support.app.window_use import answered, send, texts

THINKS = "ready take thinks serve"
MAKERS, ON, OFF = "Model default", "On", "Off"


def menu(window):
    return window.composer.thinking.choices_menu()


def choose(window, text):
    (action,) = (action for action in menu(window).actions() if action.text() == text)
    action.trigger()


def answer_now(window):
    buttons = window.composer.findChildren(QPushButton)
    return next(button for button in buttons if button.text() == "Answer now")


def test_what_the_model_offers_can_be_chosen_for_every_answer_of_a_conversation(
    open_window, until, watch
):
    without = open_window()
    until(lambda: without.loader.loaded is not None)
    assert not without.composer.thinking.isVisible()
    without.close()
    window = open_window(THINKS)
    until(lambda: window.composer.thinking.isVisible())
    shown = {action.text(): action.isChecked() for action in menu(window).actions()}
    assert shown == {MAKERS: True, ON: False, OFF: False}
    seen = watch(window.engine)
    send(window, "first")
    until(answered(window, 2))
    choose(window, OFF)
    until(lambda: window.conversation.settings.thinking == "off")
    assert window.composer.thinking.text() == "Thinking: off"
    assert {action.text() for action in menu(window).actions() if action.isChecked()} == {OFF}
    send(window, "second")
    until(answered(window, 4))
    window.menus.actions["regenerate"].trigger()
    until(lambda: len(seen) == 3 and answered(window, 4)())
    assert [one.request.thinking for one in seen] == ["", "off", "off"]
    choose(window, MAKERS)
    until(lambda: window.conversation.record is not None)
    until(lambda: window.conversation.configured[1] is None)  # the defaults again


def test_a_choice_is_that_of_new_conversations_and_outlasts_the_program(open_window, until, watch):
    window = open_window(THINKS)
    send(window, "first")
    until(answered(window, 2))
    window.menus.actions["new"].trigger()
    choose(window, ON)
    assert window.conversation.record is None
    seen = watch(window.engine)
    send(window, "second")
    until(answered(window, 2))
    assert [one.request.thinking for one in seen] == ["on"]
    window.sidebar.chosen.emit(1)
    until(lambda: window.composer.thinking.text() == "Thinking")
    window.sidebar.chosen.emit(2)
    until(lambda: window.composer.thinking.text() == "Thinking: on")
    window.close()
    again = open_window(THINKS)
    until(lambda: again.composer.thinking.text() == "Thinking: on")
    again.menus.actions["new"].trigger()
    assert again.conversation.beginning() == ("", Request(**_fields(thinking="on")))


def _fields(**more):
    kept = {name: getattr(DEFAULTS, name) for name in Request.__dataclass_fields__}
    return kept | more


def test_reasoning_is_ended_by_a_button_that_is_there_as_long_as_it_lasts(
    open_window, until, tmp_path
):
    reasoning, mark = (Stretch("reasoning", 10),), (Stretch("mark", 11), Stretch("content", 8))
    thought = [Prefill("", 4, 4, 0, 0.1), Text("", "Let me see", stretches=reasoning)]
    rest = [Text("", "\n</think>\n\nIt is 4.", stretches=mark), Done("", "stop", Stats())]
    first, then = events_file(tmp_path, thought, name="a"), events_file(tmp_path, rest, name="b")
    window = open_window(f"ready take thinks take play:{first} take as:2 play:{then} serve")
    assert not answer_now(window).isVisible()
    send(window, "2 + 2?")
    until(lambda: answer_now(window).isVisible())
    QTest.keyClicks(window.composer.field, "next")
    answer_now(window).click()
    until(answered(window, 2))
    assert not answer_now(window).isVisible()
    assert window.composer.text == "next"
    until(lambda: texts(window)[-1].endswith("</think>\n\nIt is 4."))
