"""The commands on the last answer, by the menu, and when they are possible."""

from PySide6.QtWidgets import QApplication

from tests.support.app.made_traces import made_trace
from tests.support.app.window_maker import events_file
from tests.support.app.window_use import answered, send, texts, visible_list


def test_commands_wait_for_something_to_act_on(open_window, until, tmp_path):
    path = events_file(tmp_path, made_trace("Two primes are **2** and 3."))
    window = open_window(f"ready take load take part:9:{path} take rest")

    def possible(*names):
        return [window.menus.actions[name].isEnabled() for name in names]

    about_answers = ("stop", "edit", "regenerate", "go_on", "copy_answer", "export_trace")
    until(lambda: window.loader.loaded)
    assert possible(*about_answers) == [False] * 6
    send(window, "go")
    until(lambda: window.conversation.writing and window.conversation.writing.text)
    assert possible(*about_answers) == [True, False, False, False, True, False]
    window.engine.restart()
    until(answered(window, 2))
    until(lambda: possible(*about_answers) == [False, True, True, True, True, True])
    assert possible("previous_version", "next_version") == [False, False]
    assert possible("before", "after") == [False, False], "there is one answer"


def test_keys_lead_through_conversations_and_versions(talked, until):
    window = talked
    window.menus.actions["regenerate"].trigger()
    until(lambda: window.conversation.branch[-1].siblings == 2 and answered(window, 2)())
    act = window.menus.actions
    until(lambda: act["previous_version"].isEnabled())
    assert not act["next_version"].isEnabled()
    act["previous_version"].trigger()
    until(lambda: window.conversation.branch[-1].place == 1)
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
