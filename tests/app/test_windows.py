"""Several windows of one process: what one changes the others show, and nothing typed is lost."""

import gc
import weakref
from concurrent.futures import Future

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.race.dialog import RaceDialog
from app.settings import Pair
from app.sidebar.conversation_list import ConversationList
from app.sidebar.conversation_model import ACTIVITY, ELSEWHERE
from engine.documents.prompt import Sent
from models.errors import Problem
from tests.support.app.made_traces import made_trace
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS, events_file
from tests.support.app.window_use import fill, listed, send, texts

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)
TEXT = "A list of primes: two, three, five, seven, eleven. "


def marked_elsewhere(window):
    model = window.findChild(ConversationList).model()
    rows = [model.index(row, 0) for row in range(model.rowCount())]
    return [index.data() for index in rows if index.data(ELSEWHERE)]


def shown(windows):
    """Which conversation each window shows, by the window's number."""
    return {window.number: window.conversation.shown for window in windows.all}


def use_and_close(window, until):
    """Have something answered in it; what must be gone now."""
    window.conversation.say("go")
    until(lambda: len(texts(window)) == 2 and not window.conversation.busy)
    window.close()
    return [weakref.ref(window), weakref.ref(window.pair_bar), weakref.ref(window.transcript)]


@pytest.fixture
def pair(open_windows, until):
    """Two windows over five conversations, which show 2 and 4."""
    windows = open_windows()
    first = windows.current
    fill(windows.application, 5)
    until(lambda: len(listed(first)) == 5)
    first.sidebar.chosen.emit(2)
    second = windows.open(4)
    until(lambda: first.conversation.record and second.conversation.record)
    until(lambda: windows.application.loader.loaded)
    return windows, first, second


def test_what_one_changes_the_other_shows_at_once(pair, until, tmp_path):
    windows, first, second = pair
    assert listed(first) == listed(second)
    first.sidebar.renamed.emit(4, "Another name")
    until(lambda: "Another name" in listed(second))
    until(lambda: second.windowTitle().startswith("Another name"))
    second.sidebar.pinned.emit((1,), True)
    until(lambda: listed(first)[0] == "Chat 1")
    second.sidebar.folder_wanted.emit((3,))
    until(lambda: "New folder" in listed(first))
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
    path = tmp_path / "one.json"
    first.sidebar_controller.export(1, "json", path)
    until(path.exists)
    second.sidebar_controller.import_files([path])
    until(lambda: listed(first).count("Chat 1") == 2)
    assert shown(windows)[first.number] == 2
    assert "done" in second.notices.texts
    windows.application.titles.titled.emit(5)
    until(lambda: sorted(listed(first)) == sorted(listed(second)))
    windows.application.settings.enter_sends = False
    windows.application.settings_changed.emit()
    assert not first.composer.field.enter_sends
    assert not second.composer.field.enter_sends
    second.menus.actions["larger"].trigger()
    theme = windows.application.theme
    for window in (first, second):
        assert window.composer.field.font().pointSizeF() == theme.points
        around = (window.pair_bar, window.sidebar, window.rounds, window.menuBar())
        interface = theme.interface_font.pointSizeF()
        assert {round(one.font().pointSizeF(), 2) for one in around} == {round(interface, 2)}


def attachments(window):
    return window.composer_controller.documents.attachments.all


def test_a_conversation_is_in_one_window_at_a_time_which_may_be_its_own(pair, until, tmp_path):
    windows, first, second = pair
    first.come_forward()
    until(lambda: windows.current is first)
    first.sidebar.chosen.emit(4)
    assert shown(windows) == {1: 2, 2: 4}
    until(lambda: windows.current is second)
    reached = []
    first.conversation.reached.connect(lambda message, words: reached.append(message))
    second.sidebar.hit_chosen.emit(2, 2, "on")
    until(lambda: reached == [2])
    until(lambda: windows.current is first)
    windows.attention.chosen.emit(4)  # the system's message on an answer
    until(lambda: windows.current is second)
    assert shown(windows) == {1: 2, 2: 4}
    assert (marked_elsewhere(first), marked_elsewhere(second)) == (["Chat 4"], ["Chat 2"])
    path = tmp_path / "notes.txt"
    path.write_text("Some notes.")
    windows.attach(path)  # in the window that was active last
    assert [each.name for each in attachments(second)] == ["notes.txt"]
    assert attachments(first) == ()
    second.menus.actions["next_conversation"].trigger()
    until(lambda: second.conversation.record and second.conversation.record.id == 3)
    second.menus.actions["next_conversation"].trigger()  # past the other window's
    until(lambda: shown(windows) == {1: 2, 2: 1})
    until(lambda: marked_elsewhere(first) == ["Chat 1"])
    windows.attention.chosen.emit(5)
    until(lambda: shown(windows) == {1: 2, 2: 5})
    planned = Future()
    first.conversation.say("to be moved", sent=planned)
    QTest.keyClicks(first.composer.field, "not sent")
    first.menus.actions["open_in_window"].trigger()  # the one that it shows
    third = windows.all[-1]
    until(lambda: third.conversation.record)
    assert shown(windows) == {1: None, 2: 5, 3: 2}
    until(lambda: third.composer.text == "not sent")
    planned.set_result(Sent("to be moved"))
    until(lambda: texts(third)[-2:] == ["to be moved", "served"])
    assert (texts(first), first.composer.text) == ([], "")
    view = first.findChild(ConversationList)
    view.setCurrentIndex(view.model().index(listed(first).index("Chat 5"), 0))
    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    until(lambda: windows.current is second)
    assert len(windows.all) == 3


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", ["deleted", "archived"])
def test_what_is_deleted_or_archived_is_left_in_every_window(pair, until, how):
    windows, first, second = pair
    ids = (2, 3, 4)
    if how == "deleted":
        first.sidebar.deleted.emit(ids)
    else:
        first.sidebar.archived.emit(ids, True)
    until(lambda: "Chat 2" not in listed(second))
    until(lambda: second.conversation.record and second.conversation.record.id in (1, 5))
    until(lambda: first.conversation.record and first.conversation.record.id in (1, 5))
    assert shown(windows)[1] != shown(windows)[2]
    first.sidebar.deleted.emit((1, 5))
    until(lambda: shown(windows) == {1: None, 2: None})
    first.menus.actions["restore"].trigger()
    until(lambda: {"Chat 1", "Chat 5"} <= {*listed(first)} & {*listed(second)})


def test_an_answer_of_a_deleted_conversation_ends(open_windows, until, tmp_path):
    path = events_file(tmp_path, made_trace(TEXT))
    windows = open_windows(f"ready take load take part:9:{path} take rest")
    first = windows.current
    first.conversation.say("go")
    until(lambda: first.conversation.writing and first.conversation.writing.text)
    writing = first.conversation.writing
    second = windows.open()
    second.sidebar.deleted.emit((writing.message.conversation,))
    assert writing.stopping
    until(lambda: shown(windows) == {1: None, 2: None})
    begun, answers = [], windows.application.answers
    answers.begun.connect(begun.append)
    other = first.store.create().result().id
    first.show_conversation(other)
    until(lambda: first.conversation.record)
    first.conversation.say("go")
    second.sidebar.deleted.emit((other,))
    until(lambda: begun and other not in {each.id for each in first.store.conversations().result()})
    until(windows.application.listing.refresh().done)
    assert begun[0] not in answers.unfinished


def test_two_windows_are_answered_at_once(open_windows, until):
    windows = open_windows(
        "ready take load take take as:3 text:second as:2 waiting:0 text:first "
        "as:3 done as:2 done take"
    )
    first, second = windows.current, windows.open()
    until(lambda: windows.application.loader.loaded)
    for window, text in ((first, "one"), (second, "two")):
        send(window, text)
        until(lambda window=window: len(texts(window)) == 2)
    until(lambda: texts(first)[1:] == ["first"] and texts(second)[1:] == ["second"])
    until(lambda: {one.conversation.branch[1].state for one in (first, second)} == {"complete"})


def test_an_answer_goes_on_when_its_window_is_closed(open_windows, until, tmp_path):
    path, closed = events_file(tmp_path, made_trace(TEXT)), tmp_path / "closed"
    windows = open_windows(f"ready take load take text:half wait:{closed} play:{path} serve")
    first, second = windows.current, windows.open()
    answers = windows.application.answers
    until(lambda: windows.application.loader.loaded)
    second.conversation.say("go")
    until(lambda: second.conversation.writing and second.conversation.writing.text)
    until(lambda: listed(first) == ["go"])
    model = first.findChild(ConversationList).model()
    second.close()
    QApplication.processEvents()
    assert windows.all == (first,)
    assert model.index(0, 0).data(ACTIVITY)
    assert first.pair_bar.status_text == "Writing"
    closed.touch()
    until(lambda: not answers.busy)
    assert model.index(0, 0).data(ACTIVITY) is None
    first.sidebar.chosen.emit(1)
    first.store.kept_bytes().result()  # the conversation is read by now, and not yet shown
    first.close()
    until(lambda: texts(first) == ["go", "half" + TEXT])  # the figures are asked for after the end


def test_what_is_sent_at_the_last_moment_is_not_lost(open_windows, until, monkeypatch):
    windows = open_windows()
    first = windows.current
    until(lambda: windows.application.loader.loaded)

    def is_answered(conversation):
        states = windows.application.store.branch(conversation).result()
        return [message.state for message in states] == ["complete"] * 2

    second = windows.open()
    second.composer.set_text("at the last moment")
    second.composer.send()
    second.close()
    until(lambda: listed(first) == ["at the last moment"])
    until(lambda: is_answered(1))
    waits, planned = windows.open(), Future()
    waits.conversation.say("for its documents", sent=planned)
    waits.close()
    planned.set_result(Sent("for its documents"))
    until(lambda: len(listed(first)) == 2 and is_answered(2))
    for conversation, text in ((1, "at the last moment"), (2, "for its documents")):
        first.sidebar.chosen.emit(conversation)
        until(lambda text=text: texts(first) == [text, "served"])
    refusing, refused = windows.open(), Future()
    monkeypatch.setattr(windows.application.store, "ask", lambda *a, **o: refused)
    refusing.composer.set_text("precious")
    refusing.composer.send()
    refusing.close()
    refused.set_exception(Problem("The disk is full.", "Make room."))
    until(lambda: windows.application.settings.window(2).unsent == "precious")
    assert windows.open().composer.text == "precious"


@pytest.mark.slow
def test_a_closed_window_is_gone_and_is_told_nothing(open_windows, until):
    """What all windows share outlasts it: nothing of it may be called any more."""
    windows = open_windows()
    first = windows.current
    parts = use_and_close(windows.open(), until)
    until(lambda: gc.collect() >= 0 and not any(part() for part in parts))
    application = windows.application
    loaded = application.loader.loaded
    problem = Problem("No.", "Wait.")
    application.theme.zoom(1.0)
    application.settings_changed.emit()
    application.loader.chosen.emit()
    application.loader.fetch_began.emit()
    application.loader.fetch_progress.emit(1, 2)
    application.loader.load_requested.emit()
    application.loader.rested.emit()
    application.loader.failed.emit(problem)
    application.loader.loaded_now.emit(loaded)
    application.listing.failed.emit(problem)
    application.engine.hung.emit(9.0)
    application.engine.responsive.emit()
    application.library.inventory.changed.emit()
    application.answers.unsaved.emit(problem)
    application.answers.saving_again.emit()
    first.conversation.say("and on")
    until(lambda: len(texts(first)) == 2 and not first.conversation.busy)
    application.engine.died.emit("For a test.")
    windows.library_controller.reported.emit("A line.")
    assert first.notices.texts["library"] == "A line."


def test_nothing_typed_is_lost(open_windows, until):
    windows = open_windows()
    first = windows.current
    QTest.keyClicks(first.composer.field, "in the first")
    first.menus.actions["new_window"].trigger()
    second = windows.all[-1]
    assert second.composer.text == ""
    QTest.keyClicks(second.composer.field, "in the second")
    second.close()
    third = windows.open()
    assert third.number == 2
    assert third.composer.text == "in the second"
    assert first.composer.text == "in the first"
    first.close()
    fourth = windows.open()
    assert (fourth.number, fourth.composer.text) == (1, "in the first")
    windows.close()
    again = open_windows()
    found = {window.number: window.composer.text for window in again.all}
    assert found == {1: "in the first", 2: "in the second"}
    for window in again.all:
        window.close()
        QApplication.processEvents()
    assert [window.number for window in open_windows().all] == [2]  # it was closed last


def test_windows_that_were_open_at_the_end_are_open_again(open_windows, until):
    windows = open_windows()
    fill(windows.application, 3)
    first = windows.current
    first.sidebar.chosen.emit(1)
    second, third = windows.open(2), windows.open(3)
    until(lambda: all(window.conversation.record for window in windows.all))
    second.menus.actions["provenance"].trigger()
    third.menus.actions["close"].trigger()
    QApplication.processEvents()
    first.menus.actions["quit"].trigger()
    again = open_windows()
    until(lambda: shown(again) == {1: 1, 2: 2})
    until(lambda: all(window.conversation.record for window in again.all))
    assert [window.presenter.provenance for window in again.all] == [False, True]
    settings = again.application.settings
    again.close()
    settings.window(2).conversation = 1
    settings.save()
    once = open_windows()
    until(lambda: shown(once) == {1: 1, 2: None})


@pytest.mark.slow
def test_there_is_one_library_one_race_and_one_end(open_windows, until):
    windows = open_windows("ready take load take rest")
    first, second = windows.current, windows.open()
    until(lambda: windows.application.loader.loaded)
    second.menus.actions["library"].trigger()
    view = windows.library_controller.view
    assert second.isAncestorOf(view)
    first.pair_bar.library_asked.emit()
    assert first.isAncestorOf(view)
    assert second.transcript.isVisible()
    second.menus.actions["library"].trigger()
    second.close()
    QApplication.processEvents()
    first.pair_bar.library_asked.emit()
    assert view.isVisible()
    windows.library_controller.ready.emit(Pair("/models/target"))
    assert "library" in first.notices.texts
    second = windows.open()
    for window in (first, second):
        window.composer.set_text("Which is faster?")
        window.menus.actions["race"].trigger()
        if dialog := window.findChild(RaceDialog):
            dialog.start()
    assert first.findChild(RaceDialog) is not None
    assert second.findChild(RaceDialog) is None
    assert "problem" in second.notices.texts
    first.menus.actions["settings"].trigger()
    second.menus.actions["sampling"].trigger()
    second.menus.actions["quit"].trigger()
    assert not first.isVisible()
    assert not second.isVisible()
    assert windows.application.engine.pid == 0
    assert not windows.application.backups.isActive()


def test_a_queue_goes_on_while_no_window_shows_it(open_windows, until, tmp_path, monkeypatch):
    gate = tmp_path / "gate"
    windows = open_windows(f"ready take load take wait:{gate} text:one done serve")
    window = windows.current
    send(window, "first")
    until(lambda: window.conversation.writing)
    for text in ("second", "third"):
        send(window, text)
    window.menus.actions["new"].trigger()
    gate.touch()
    store = window.store
    answers = windows.application.answers

    def asked():
        return [m.content for m in store.branch(1).result() if m.role == "user"]

    ended = ["complete"] * 6
    until(lambda: [m.state for m in store.branch(1).result()] == ended and not answers.busy)
    for _ in range(2):  # its refresh, and what follows: no message is looked for any more
        until(windows.application.listing.refresh().done)
    assert asked() == ["first", "second", "third"]
    assert store.conversation(1).result().queued == ()
    assert window.conversation.record is None, "and nothing else is shown for it"
    other, finish, saved = store.create().result().id, store.finish_answer, []
    store.keep_queued(1, ("fifth", "sixth", "seventh")).result()
    window.show_conversation(1)
    until(lambda: window.conversation.record)

    def at_the_end(*written, **options):
        """Leave its conversation, or open it, while the end of its answer is stored."""
        stored = finish(*written, **options)
        saved.append(written)
        if len(saved) < 4:
            window.show_conversation(other if len(saved) != 2 else 1)
        return stored

    def after_it():
        if len(saved) == 3:
            window.show_conversation(1)

    monkeypatch.setattr(store, "finish_answer", at_the_end)
    answers.saved.connect(after_it)
    window.conversation.say("fourth")
    until(lambda: len(saved) == 4 and not answers.conversations)
    assert asked()[3:] == ["fourth", "fifth", "sixth", "seventh"]
    until(lambda: window.composer.queued.texts == ())
