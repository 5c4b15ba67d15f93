"""What is typed and not sent is kept, and an edited message comes back into the composer; the user
decides whether the model thinks first, and when it has thought enough."""

from concurrent.futures import Future
from dataclasses import replace
from itertools import product

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel, QPushButton

from app.chat.conversation import DEFAULTS
from app.theme.labels import ShortenedLabel
from engine.documents.prompt import Sent
from engine.events import Done, Prefill, Stats, Text
from engine.stretches import Stretch
from models.errors import Problem
from tests.support.app.window_maker import events_file
from tests.support.app.window_use import answered, part, send, texts
from tests.support.mostly_slow import mostly_slow


def here(window):
    """The conversation that is shown, and not only about to be."""
    return getattr(window.conversation.record, "id", None)


def edit(window, until, which="edit"):
    """Begin to write the next message, and change the first or its answer."""
    until(lambda: window.menus.actions[which].isEnabled())
    QTest.keyClicks(window.composer.field, "kept")
    window.menus.actions[which].trigger()
    QTest.keyClicks(window.composer.field, " and more")
    return window.composer.text


def leave(window, until, how):
    """Leave the conversation, and come back to it."""
    other = window.store.create(title="other").result().id
    if how == "deleted":
        window.sidebar.deleted.emit((1,))
        until(
            lambda: window.conversation.shown != 1 and window.menus.actions["restore"].isEnabled()
        )
        window.menus.actions["restore"].trigger()
    else:
        window.new() if how == "new" else window.show_conversation(other)
        if how == "written late":  # before the other one is there
            QTest.keyClicks(window.composer.field, " late")
        until(lambda: here(window) == (None if how == "new" else other))
        assert (window.composer.text, window.composer_controller.editing) == ("", 0)
        assert "edit" not in window.notices.texts
        window.show_conversation(1)
    until(lambda: here(window) == 1)


@pytest.mark.parametrize("which", ["edit_answer", "edit"])
@pytest.mark.parametrize("how", ["opened", "new", "deleted", "written late", "closed"])
@pytest.mark.quick(1)
def test_an_edit_that_is_left_is_there_again(open_window, talked, until, how, which):
    window = talked
    written, edited = edit(window, until, which), window.composer_controller.editing
    if how == "closed":
        window.close()
        window = open_window()
        until(lambda: window.conversation.record and window.loader.loaded)
    else:
        leave(window, until, how)
    written += " late" if how == "written late" else ""
    assert (window.composer.text, window.composer_controller.editing) == (written, edited)
    assert "edit" in window.notices.texts
    window.composer.send()
    until(lambda: texts(window)[which == "edit_answer"] == written)
    until(answered(window, 2))
    assert window.composer.text == "kept"
    assert "edit" not in window.notices.texts
    leave(window, until, "opened")
    assert (window.composer.text, window.composer_controller.editing) == ("kept", 0)


def test_an_edit_is_there_again_unstored_or_undone(talked, until, monkeypatch):
    window, field = talked, talked.composer.field
    with monkeypatch.context() as disk:
        refuse(window, disk, "keep_unsent").set_exception(FULL)
        written, controller = edit(window, until), window.composer_controller
        leave(window, until, "opened")

    def is_edited():
        assert (window.composer.text, controller.editing) == (written, 1)
        assert "edit" in window.notices.texts

    is_edited()
    for end in (
        lambda: QTest.keyClick(field, Qt.Key.Key_Escape),
        lambda: window.notices.press("edit"),
    ):
        end()
        assert (window.composer.text, controller.editing) == ("kept", 0)
        QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
        is_edited()
    until(lambda: window.menus.actions["edit_answer"].isEnabled())
    window.menus.actions["edit_answer"].trigger()
    assert (window.composer.text, controller.editing) == ("served", 2)
    QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    is_edited()
    window.composer.send()
    until(lambda: texts(window)[0] == written and answered(window, 2)())
    assert window.conversation.branch[0].siblings == 2


def test_an_edit_without_a_change_or_of_a_message_that_is_gone_ends_when_it_is_left(talked, until):
    window = talked
    window.menus.actions["edit"].trigger()
    leave(window, until, "opened")
    assert (window.composer.text, window.composer_controller.editing) == ("", 0)
    written = edit(window, until)
    window.new()
    window.store.delete_message(1).result()
    window.show_conversation(1)
    until(lambda: window.conversation.record)
    assert (window.composer.text, window.composer_controller.editing) == (f"{written}\n\nkept", 0)


def refuse(window, monkeypatch, name="ask"):
    """What refuses the next message once it has an exception."""
    refused = Future()
    monkeypatch.setattr(window.store, name, lambda *arguments, **options: refused)
    return refused


FULL = Problem("The disk is full.", "Make room.")


@pytest.mark.parametrize(
    ("meanwhile", "which"),
    mostly_slow(
        product(["busy", "nothing", "typed", "edited", "left"], ["edit", "edit_answer"]),
        quick=[("busy", "edit"), ("nothing", "edit_answer")],
    ),
)
def test_an_edit_that_is_refused_is_not_lost(talked, until, monkeypatch, which, meanwhile):
    window = talked
    written, composer = edit(window, until, which), window.composer
    edited, left = window.composer_controller.editing, "kept"
    refused = refuse(window, monkeypatch, "ask" if which == "edit" else "edit")
    if meanwhile == "busy":
        window.conversation.say("another", sent=Future())
    composer.send()
    if meanwhile != "busy":
        assert composer.text == "kept"
        if meanwhile == "typed":
            QTest.keyClicks(composer.field, " on")
            left = "kept on"
        elif meanwhile == "edited":
            window.composer_controller.edit(1)
            assert [row.id for row in window.transcript.messages if row.shown.edited] == [1]
            QTest.keyClicks(composer.field, " again")
        elif meanwhile == "left":
            window.new()
        refused.set_exception(FULL)
        until(lambda: "problem" in window.notices.texts)
    monkeypatch.undo()
    if meanwhile == "left":
        assert composer.text == ""
        window.show_conversation(1)
        until(lambda: window.conversation.record)
    if meanwhile == "edited":
        written, edited, left = "first again", 1, f"{written}\n\nkept"
    assert (composer.text, window.composer_controller.editing) == (written, edited)
    QTest.keyClick(composer.field, Qt.Key.Key_Escape)
    assert composer.text == left


@pytest.mark.parametrize(
    ("meanwhile", "first"),
    mostly_slow(
        [*product(["typed", "left", "left and typed"], [False, True]), ("edited", False),
         ("deleted", False)],
        quick=[("typed", True), ("left and typed", False)],
    ),
)  # fmt: skip
def test_a_refused_message_comes_back_where_it_was(
    open_window, until, monkeypatch, meanwhile, first
):
    window = open_window()
    composer, planned = window.composer, Future[Sent]()
    if not first:
        send(window, "first")
        until(answered(window, 2))
    home = window.conversation.shown
    other = window.store.create(title="other").result().id
    with monkeypatch.context() as waits:
        if first:
            planned = refuse(window, waits)
        else:
            documents = window.composer_controller.documents
            waits.setattr(documents, "sent", lambda text: planned)
        send(window, "precious")
    if "left" in meanwhile:
        window.show_conversation(other)
        until(lambda: here(window) == other)
    elif meanwhile == "deleted":
        window.sidebar.deleted.emit((home,))
        until(lambda: window.conversation.shown != home)
    elif meanwhile == "edited":
        window.menus.actions["edit"].trigger()
        QTest.keyClicks(composer.field, " again")
    if "typed" in meanwhile:
        QTest.keyClicks(composer.field, "theirs")
    before = composer.text
    planned.set_exception(FULL)
    until(lambda: window.notices.texts.get("problem") == str(FULL))
    if meanwhile == "typed":
        assert composer.text == "precious\n\ntheirs"
        return
    assert composer.text == before, "it is of another conversation, or of another message"
    if meanwhile == "edited":
        QTest.keyClick(composer.field, Qt.Key.Key_Escape)
    elif meanwhile == "deleted":
        window.menus.actions["restore"].trigger()
    else:
        window.new() if home is None else window.show_conversation(home)
    until(lambda: window.conversation.shown == home == here(window))
    assert composer.text == "precious"


def test_what_is_written_while_a_message_waits_stays(talked, until, monkeypatch):
    window = talked
    planned = Future()
    monkeypatch.setattr(window.composer_controller.documents, "sent", lambda text: planned)
    send(window, "precious")
    leave(window, until, "opened")
    assert window.composer.text == "", "it is not unsent"
    QTest.keyClicks(window.composer.field, "next")
    window.menus.actions["new"].trigger()
    assert window.composer.text == ""
    QTest.keyClicks(window.composer.field, "for the new")
    planned.set_result(Sent("precious"))
    until(lambda: [m.state for m in window.store.branch(1).result()] == ["complete"] * 4)
    window.show_conversation(1)
    until(lambda: window.composer.text == "next")
    assert texts(window)[2:] == ["precious", "served"]
    window.conversation.configure(system_prompt="Be brief.", settings=None)
    until(lambda: window.conversation.configured[0])
    window.menus.actions["new"].trigger()
    assert window.composer.text == "for the new"


def queued(window):
    """The queue, which is the same on the screen, in memory and on the disk."""
    record = window.conversation.record
    assert window.composer.queued.texts == record.queued
    assert window.store.conversation(record.id).result().queued == record.queued
    return record.queued


def press(window, name):
    queue = window.composer.queued
    buttons = (one for one in queue.findChildren(QAbstractButton) if one.isVisibleTo(queue))
    next(one for one in buttons if one.accessibleName() == name).click()


def test_a_queued_message_is_sent_when_the_answer_ends(open_window, until, tmp_path):
    gate = tmp_path / "gate"
    window = open_window(f"ready take load take wait:{gate} text:one done serve")
    send(window, "first")
    until(lambda: window.conversation.writing)
    for text in ("second", "third", "fourth"):
        send(window, text)
    assert queued(window) == ("second", "third", "fourth")
    press(window, "Remove queued message 2")
    assert queued(window) == ("second", "fourth")
    QTest.keyClicks(window.composer.field, "unsent")
    press(window, "Edit queued message 2")
    assert window.composer.text == "fourth\n\nunsent"
    record = window.store.conversation(window.conversation.shown).result()
    assert record.unsent == window.composer.text, "it is nowhere else"
    window.composer.set_text("not sent by others")
    gate.touch()
    until(answered(window, 4))
    assert texts(window) == ["first", "one", "second", "served"]
    assert queued(window) == ()
    assert not window.composer.queued.isVisible()
    assert window.composer.text == "not sent by others"


@pytest.mark.parametrize("how", ["stopped", "closed", "failed"])
@pytest.mark.quick(2)
def test_a_queue_outlasts_what_ends_the_answer(open_window, until, tmp_path, how):
    gate = tmp_path / "gate"
    steps = {
        "failed": f"ready take load take wait:{gate} text:half failed serve",
        "stopped": "ready take load take serve",  # the first message gets no answer
        "closed": "ready take load take rest -- ready take load serve",
    }
    window = open_window(steps[how])
    send(window, "first")
    until(lambda: window.conversation.writing)
    send(window, "second")
    gate.touch()
    if how == "stopped":
        QTest.keyClick(window.composer.field, Qt.Key.Key_Escape)
    elif how == "closed":
        window.close()
        window = open_window()
    until(lambda: len(texts(window)) == 2 and window.conversation.writing is None)
    assert queued(window) == ("second",)
    reason = {"closed": "was interrupted", "failed": "failed", "stopped": "was stopped"}[how]
    labels = window.composer.queued.findChildren(ShortenedLabel)
    until(lambda: any(reason in label.words for label in labels))
    press(window, "Send the first queued message now")
    until(answered(window, 4))
    assert texts(window)[2:] == ["second", "served"]
    assert queued(window) == ()


def test_a_message_that_is_too_long_can_be_attached(open_window, until, monkeypatch):
    monkeypatch.setattr(
        "app.engine_client.token_counter.load_count",
        lambda target: lambda text: 100 * len(text.split()),
    )
    window = open_window()
    until(lambda: window.loader.loaded)
    composer, text = window.composer, "Many words\n" + "word " * 50
    assert not composer.thinking.isVisible(), "this model has no choice"
    composer.field.insertPlainText(text)
    until(lambda: composer.excess == 5200 + 5 - 4096)
    QTest.keyClick(composer.field, Qt.Key.Key_Return)
    assert (composer.text, window.conversation.branch) == (text, ())

    def lines():
        return [label.text() for label in composer.findChildren(QLabel)]

    assert not any("left out" in line for line in lines()), "there are no earlier messages"
    assert not part(composer, QAbstractButton, "Send message").isEnabled()
    buttons = composer.findChildren(QAbstractButton)
    remedy = next(one for one in buttons if one.text().startswith("Attach as"))
    remedy.click()
    attachments = window.composer_controller.documents.attachments
    until(lambda: attachments.ready)
    ((_, document),) = attachments.ready
    assert document.text.split() == text.split(), "nothing is lost"
    assert (composer.text, composer.excess) == ("", 0)
    assert remedy.isHidden()
    window.composer.documents.remove_asked.emit(0)
    for count in (2, 4):  # the second is too long only by all of before, the answer too
        composer.field.insertPlainText("word " * 20)
        until(lambda count=count: any("left out" in line for line in lines()) == (count == 4))
        assert composer.excess == 0
        composer.send()
        until(answered(window, count))


THINKS = "ready take thinks serve"
MAKERS, ON, OFF = "Model default", "On", "Off"


def choices(window):
    """What the menu offers, and whether it is chosen."""
    menu = window.composer.thinking.choices_menu()
    return {action.text(): action.isChecked() for action in menu.actions()}


def choose(window, text):
    menu = window.composer.thinking.choices_menu()
    next(action for action in menu.actions() if action.text() == text).trigger()


def test_a_choice_holds_for_every_answer_and_the_next_run(open_window, until, watch):
    window = open_window(THINKS)
    until(lambda: window.composer.thinking.isVisible())
    assert choices(window) == {MAKERS: True, ON: False, OFF: False}
    seen = watch(window.engine)
    send(window, "first")
    until(answered(window, 2))
    choose(window, OFF)
    until(lambda: window.conversation.settings.thinking == "off")
    assert window.composer.thinking.text() == "Thinking: off"
    assert choices(window) == {MAKERS: False, ON: False, OFF: True}
    send(window, "second")
    until(answered(window, 4))
    window.menus.actions["regenerate"].trigger()
    until(lambda: len(seen) == 3 and answered(window, 4)())
    choose(window, MAKERS)
    until(lambda: window.conversation.record is not None)
    until(lambda: window.conversation.configured[1] is None)  # the defaults again
    window.menus.actions["new"].trigger()
    choose(window, ON)
    assert window.conversation.record is None
    send(window, "third")
    until(answered(window, 2))
    assert [one.request.thinking for one in seen] == ["", "off", "off", "on"]
    for conversation, words in ((1, "Thinking"), (2, "Thinking: on")):
        window.sidebar.chosen.emit(conversation)
        until(lambda words=words: window.composer.thinking.text() == words)
    window.close()
    again = open_window(THINKS)
    until(lambda: again.composer.thinking.text() == "Thinking: on")
    again.menus.actions["new"].trigger()
    assert again.conversation.beginning() == ("", replace(DEFAULTS, thinking="on"))


def test_a_button_ends_reasoning_as_long_as_it_lasts(open_window, until, tmp_path):
    reasoning, mark = (Stretch("reasoning", 10),), (Stretch("mark", 11), Stretch("content", 8))
    thought = [Prefill("", 4, 4, 0, 0.1), Text("", "Let me see", stretches=reasoning)]
    rest = [Text("", "\n</think>\n\nIt is 4.", stretches=mark), Done("", "stop", Stats())]
    first, then = events_file(tmp_path, thought, name="a"), events_file(tmp_path, rest, name="b")
    window = open_window(f"ready take thinks take play:{first} take as:2 play:{then} serve")
    button = part(window.composer, QPushButton, "Answer now")
    assert not button.isVisible()
    send(window, "2 + 2?")
    until(button.isVisible)
    QTest.keyClicks(window.composer.field, "next")
    button.click()
    until(answered(window, 2))
    assert not button.isVisible()
    assert window.composer.text == "next"
    until(lambda: texts(window)[-1].endswith("</think>\n\nIt is 4."))
