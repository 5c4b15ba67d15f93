"""What opens over a window: a race that waits for its model, and dialogs without pictures."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QDialog, QDialogButtonBox, QLabel, QPushButton

from app.conversations.records import Entry, ExportedChat
from app.race.dialog import RaceDialog
from app.sampling.dialog import SamplingDialog
from engine.request import Request

NAMES = ("settings", "sampling", "memory", "keys", "explain_rounds", "about", "server", "macs")


def test_a_race_loads_a_model_that_was_unloaded(open_window, until):
    window = open_window()
    until(lambda: window.loader.loaded)
    window.menus.actions["unload"].trigger()
    until(lambda: window.loader.loaded is None)
    window.composer.set_text("Which is faster?")
    window.menus.actions["race"].trigger()
    assert "race" in window.notices.texts
    until(lambda: window.findChild(RaceDialog))
    assert window.loader.loaded is not None
    assert not {"race", "problem"} & window.notices.texts.keys()
    window.findChild(RaceDialog).close()
    until(lambda: window.findChild(RaceDialog) is None)
    loaded = []
    window.loader.loaded_now.connect(loaded.append)
    window.menus.actions["restart"].trigger()
    until(lambda: loaded)
    assert window.findChild(RaceDialog) is None  # it was wanted once


def test_what_waits_is_of_the_conversation_of_before(open_window, until, monkeypatch):
    window = open_window()
    until(lambda: window.loader.loaded)
    said = Entry(None, "user", "Which is faster?"), Entry(0, "assistant", "This one.")
    chat = ExportedChat("Mine", said, leaf=1, settings=Request(max_tokens=7))
    (record,) = window.store.add([chat]).result()
    window.show_conversation(record.id)
    until(lambda: window.conversation.branch)
    window.menus.actions["unload"].trigger()
    until(lambda: window.loader.loaded is None)
    names = []
    monkeypatch.setattr("app.files.ask_to_save", lambda over, title, name, then: names.append(name))
    raced = []
    monkeypatch.setattr(
        window.application.race, "start", lambda lines, request: raced.append(request)
    )
    until(lambda: window.menus.actions["export_trace"].isEnabled())
    window.menus.actions["export_trace"].trigger()
    window.menus.actions["race"].trigger()
    window.new()
    until(lambda: names and window.findChild(RaceDialog))
    window.findChild(RaceDialog).start()
    assert (names, [request.max_tokens for request in raced]) == (["Mine trace.json"], [7])
    window.findChild(RaceDialog).close()
    window.show_conversation(record.id)
    until(lambda: window.conversation.record)
    window.menus.actions["sampling"].trigger()
    other = window.store.create(title="Other").result()
    window.show_conversation(other.id)
    until(lambda: window.conversation.record.id == other.id)
    window.findChild(SamplingDialog).applied.emit("Briefly", None)

    def prompts():
        chats = [window.store.conversation(each.id).result() for each in (record, other)]
        return [chat.system_prompt for chat in chats]

    until(lambda: any(prompts()))
    assert prompts()[1] == ""


@pytest.mark.parametrize("points", [6, 0])
@pytest.mark.quick(1)
def test_every_dialog_fits_is_plain_text_and_can_be_closed(open_window, until, points):
    window = open_window()
    until(lambda: window.loader.loaded)
    for _ in range(points):
        window.menus.actions["larger"].trigger()
    room = window.screen().availableSize()
    for name in (*NAMES, "tools"):
        window.menus.actions[name].trigger()
        (dialog,) = (one for one in window.findChildren(QDialog) if one.isVisible())
        QApplication.processEvents()
        assert dialog.width() <= room.width(), name
        assert dialog.height() < room.height(), name
        assert dialog.minimumSizeHint().height() <= dialog.height(), name
        for box in dialog.findChildren(QDialogButtonBox):
            if box.isVisible():
                assert dialog.rect().contains(box.geometry()), name
        buttons = dialog.findChildren(QPushButton)
        if name in ("settings", "server", "tools"):  # Enter in a field presses nothing there
            assert not any(one.autoDefault() for one in buttons), name
        labels = [one for one in dialog.findChildren(QLabel) if one.text() and not one.buddy()]
        assert {one.textFormat() for one in labels} <= {Qt.TextFormat.PlainText}, name
        if name == "tools":
            dialog.close()
            continue
        words = [button.text().replace("&", "") for button in buttons]
        buttons[words.index("Close" if "Close" in words else "Cancel")].click()
        until(lambda: not any(one.isVisible() for one in window.findChildren(QDialog)))
