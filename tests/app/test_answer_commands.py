"""The commands on the last answer, by the menu, and when they are possible; one reads it aloud."""

import sys

import pytest
from PySide6.QtWidgets import QApplication

from app.read_aloud import spoken
from engine.events import Done, Stats, Text
from tests.support.app.made_traces import made_trace
from tests.support.app.window_maker import events_file
from tests.support.app.window_use import answered, send, texts, visible_list


def test_commands_wait_for_something_to_act_on(open_window, until, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    path = events_file(tmp_path, made_trace("Two primes are **2** and 3."))
    window = open_window(f"ready take load take part:9:{path} take rest")

    def possible(*names):
        return [window.menus.actions[name].isEnabled() for name in names]

    about_answers = ("stop", "edit", "regenerate", "go_on", "copy_answer", "export_trace")
    until(lambda: window.loader.loaded)
    assert not window.menus.actions["read_aloud"].isVisible(), "there is no program that reads"
    assert possible(*about_answers) == [False] * 6
    send(window, "go")
    until(lambda: window.conversation.writing and window.conversation.writing.text)
    assert possible(*about_answers) == [True, False, False, False, True, False]
    window.engine.restart()
    until(answered(window, 2))
    until(lambda: possible(*about_answers) == [False, True, True, True, True, True])
    assert possible("previous_version", "next_version") == [False, False]
    assert possible("before", "after") == [False, False], "there is one answer"


def test_keys_lead_through_conversations_and_parts(talked, until):
    window, act = talked, talked.menus.actions
    act["new"].trigger()
    send(window, "second")
    until(answered(window, 2))
    until(lambda: visible_list(window).model().rowCount() == 2)
    act["next_conversation"].trigger()
    until(lambda: texts(window)[:1] == ["first"])
    act["previous_conversation"].trigger()
    until(lambda: texts(window)[:1] == ["second"])
    act["copy_answer"].trigger()
    assert QApplication.clipboard().text() == "served"
    act["go_to_conversations"].trigger()
    assert visible_list(window).hasFocus()
    act["go_to_messages"].trigger()
    assert window.transcript.messages[-1].view.hasFocus()
    act["go_to_composer"].trigger()
    assert window.composer.field.hasFocus()


def test_versions_are_switched_also_of_a_question_and_an_edited_answer_is_marked(talked, until):
    window, act = talked, talked.menus.actions
    act["edit"].trigger()
    send(window, " again")
    until(lambda: texts(window)[0] == "first again" and answered(window, 2)())
    until(lambda: act["previous_version"].isEnabled())
    act["previous_version"].trigger()
    until(lambda: texts(window)[0] == "first")
    act["regenerate"].trigger()
    until(lambda: window.conversation.branch[-1].siblings == 2 and answered(window, 2)())
    assert not act["next_version"].isEnabled(), "the last answer is the last one"
    window.transcript.messages[0].view.setFocus()
    until(lambda: act["next_version"].isEnabled())
    act["next_version"].trigger()
    until(lambda: texts(window)[0] == "first again")
    window.transcript.commands.show_version(window.transcript.messages[0].id, 1)
    until(lambda: texts(window) == ["first", "served"])
    until(lambda: act["edit_answer"].isEnabled())
    act["edit_answer"].trigger()
    assert window.composer.text == "served"
    window.composer.set_text("<think>I think.</think>Edited.")
    window.composer.send()
    until(lambda: texts(window) == ["first", "<think>I think.</think>Edited."])
    answer, row = window.conversation.branch[-1], window.transcript.messages[-1]
    assert (answer.edited, answer.place, answer.siblings) == (True, 3, 3)
    assert "edited by you" in row.name
    assert row.shown.figures is None
    until(lambda: not window.rounds.panel.isVisible())
    assert not window.notices.texts.get("edit")
    until(lambda: act["go_on"].isEnabled())
    act["previous_version"].trigger()
    until(lambda: texts(window) == ["first", "served"])


def test_a_conversation_is_duplicated_and_a_message_deleted_and_restored(open_window, until):
    window = open_window()
    for place in (1, 2):
        send(window, f"question {place}")
        until(answered(window, 2 * place))
    window.transcript.commands.duplicate(window.transcript.messages[1].id)
    until(lambda: texts(window) == ["question 1", "served"])
    assert window.conversation.record.title.endswith("(copy)")
    window.menus.actions["duplicate"].trigger()
    until(lambda: window.conversation.record and window.conversation.record.id == 3)
    send(window, "and now")
    until(answered(window, 4))
    window.show_conversation(1)
    until(lambda: len(texts(window)) == 4 and texts(window)[2] == "question 2")
    window.composer.setFocus()
    window.menus.actions["delete_message"].trigger()
    until(lambda: len(texts(window)) == 3)
    window.transcript.commands.delete(window.transcript.messages[0].id)
    until(lambda: texts(window) == ["served", "question 2"])
    for count in (3, 4):
        window.menus.actions["restore"].trigger()
        until(lambda count=count: len(texts(window)) == count)
    assert texts(window) == ["question 1", "served", "question 2", "served"]
    other = window.store.create().result()
    window.application.listing.refresh()
    until(lambda: window.application.listing.find(other.id))
    window.notices.take_back("remark")
    window.menus.actions["delete_message"].trigger()
    window.menus.actions["delete"].trigger()  # at once
    until(lambda: window.conversation.shown != 1 and "Deleted a" in str(window.notices.texts))
    assert "problem" not in window.notices.texts


ANSWER = "-o out.aiff **Two** [links](https://x.example) and `code`.\n\n```py\nx = 1\n```\n\n- last"
SPOKEN = ["-o out.aiff Two links and code.", "last", *"ab12", "bold [ [volm 0]]"]


@pytest.fixture
def say(tmp_path, monkeypatch):
    """A stand-in on the path, which writes its words and arguments down, then goes on."""
    program, heard = tmp_path / "say", tmp_path / "heard"
    program.write_text(
        f"#!{sys.executable}\nimport pathlib, sys, time\n"
        f"pathlib.Path({str(heard)!r}).write_text(repr((sys.argv[1:], sys.stdin.read())))\n"
        "time.sleep(600)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return heard


def test_only_words_are_read():
    words = spoken(ANSWER + "\n\n| a | b |\n|-|-|\n| 1 | 2 |\n\n<b>bold</b> [[volm 0]]")
    assert words.split("\n") == SPOKEN


def test_it_is_read_and_stopped_and_ends_with_the_window(say, open_window, until, tmp_path):
    said = [Text("", ANSWER), Done("", "stop", Stats())]
    window = open_window(f"ready take load take play:{events_file(tmp_path, said)} serve")
    until(lambda: window.loader.loaded)
    send(window, "go")
    until(answered(window, 2))
    action, reader = window.menus.actions["read_aloud"], window.answer_commands.reader
    action.trigger()
    until(say.exists)
    until(say.read_text)
    assert say.read_text() == repr(([], spoken(ANSWER)))
    action.trigger()
    assert not reader.reading
    action.trigger()
    assert reader.reading
    window.close()
    assert not reader.reading
