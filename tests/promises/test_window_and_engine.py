"""The window on the real engine, with a tiny model that it makes itself."""

import os
import signal

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest

from app.engine_client.engine_process import host_command
from app.race.race import RaceResult
from engine.conversation.stats import tally
from engine.request import Request, Sampling
from tests.support.app.attached import attach, chips, file_in
from tests.support.app.traces import text_of
from tests.support.app.window_maker import make_window
from tests.support.app.window_use import let_go

WITHOUT_END = Request(sampling=Sampling(logit_bias={256: -1000.0}), max_tokens=20)


@pytest.fixture
def window(plain_application, tiny_folder, tmp_path):
    window = make_window(plain_application, tmp_path, host_command(), target=tiny_folder)
    window.show()
    window.begin()
    yield window
    window.close()
    let_go(window.application, window)


def ask(window, text):
    window.composer.set_text(text)
    window.composer.send()


@pytest.mark.slow
def test_an_answer_that_was_cut_goes_on(window, until):
    until(lambda: window.loader.loaded)
    window.conversation.configure(system_prompt="", settings=WITHOUT_END)
    ask(window, "Tell me a story.")
    until(lambda: len(window.conversation.branch) == 2 and not window.answers.busy)
    first = window.conversation.branch[-1]
    until(lambda: window.answers.writing(first.id) is None)
    shown = window.transcript.messages[-1].widget
    begun = shown.written
    shown.view.setFocus()
    shown.view.moveCursor(QTextCursor.MoveOperation.End)
    QTest.keyClick(shown.view, Qt.Key.Key_Down)
    for _ in range(8):  # at most: the buttons before it
        if window.focusWidget() is not shown.go_on:
            QTest.keyClick(window.focusWidget(), Qt.Key.Key_Right)
    assert window.focusWidget() is shown.go_on
    QTest.keyClick(shown.go_on, Qt.Key.Key_Space)
    until(lambda: window.conversation.branch[-1].id != first.id and not window.answers.busy)
    second = window.conversation.branch[-1]
    until(lambda: window.answers.writing(second.id) is None)
    shown = window.transcript.messages[-1].widget
    assert shown.written == window.store.message(second.id).result().content
    assert shown.written.startswith(begun)
    assert len(shown.written) > len(begun) > 0
    assert shown.go_on.isVisible()  # it was cut again
    trace = window.store.trace(second.id).result()
    assert tally(trace).committed == 40
    assert text_of(trace) == shown.written
    assert window.store.message(first.id).result().content == begun


def read_a_document_once(window, until, folder):
    """Whatever is asked of it, and however often."""
    brief = Request(sampling=Sampling(), max_tokens=4)
    window.conversation.configure(system_prompt="", settings=brief)
    attach(window, until, file_in(folder, "plan.txt", "The roof of the house leaks. " * 8))
    counted = chips(window)[0].partition(" tokens")[0]
    assert "about" not in counted, "its tokens are counted, and not estimated"

    def stats(act, *, messages):
        before = window.conversation.branch[-1].id if window.conversation.branch else 0
        act()
        until(lambda: len(window.conversation.branch) == messages)
        until(lambda: window.conversation.branch[-1].id != before and not window.answers.busy)
        answer = window.conversation.branch[-1].id
        until(lambda: window.answers.writing(answer) is None)
        return tally(window.store.trace(answer).result())

    first = stats(lambda: ask(window, "What leaks?"), messages=2)
    assert first.reused_tokens == 0
    second = stats(lambda: ask(window, "And?"), messages=4)
    assert second.reused_tokens >= first.prompt_tokens
    sent = window.conversation.branch[0].sent
    edited = window.conversation.branch[2].id
    third = stats(lambda: window.conversation.edit(edited, "Where?"), messages=4)
    assert third.reused_tokens >= first.prompt_tokens
    answer = window.conversation.branch[-1].id
    again = stats(lambda: window.conversation.regenerate(answer), messages=4)
    assert again.reused_tokens >= third.prompt_tokens - 1
    assert window.conversation.branch[0].sent == sent
    question = window.conversation.branch[0].id
    other = stats(lambda: window.conversation.edit(question, "Why does it leak?"), messages=2)
    assert other.reused_tokens > 200, "all of the document"


def test_a_document_an_answer_a_death_another_and_a_race(window, until, tmp_path):
    until(lambda: window.loader.loaded)
    read_a_document_once(window, until, tmp_path)
    window.new()
    window.conversation.configure(system_prompt="", settings=WITHOUT_END)
    ask(window, "Tell me a story.")
    until(lambda: len(window.conversation.branch) == 2 and not window.answers.busy)
    first = window.conversation.branch[-1]
    until(lambda: window.answers.writing(first.id) is None)
    first = window.store.message(first.id).result()
    assert first.state == "length"
    assert first.target == window.settings.starter_name == "llama"
    trace = window.store.trace(first.id).result()
    assert tally(trace).committed == 20
    assert first.content == window.transcript.messages[-1].written

    window.conversation.configure(
        system_prompt="", settings=Request(sampling=WITHOUT_END.sampling, max_tokens=3000)
    )
    until(lambda: window.conversation.settings.max_tokens == 3000)
    ask(window, "A long one.")
    until(lambda: window.conversation.writing and len(window.conversation.writing.text) > 50)
    assert window.engine.pid > 0
    os.kill(window.engine.pid, signal.SIGKILL)
    until(lambda: not window.answers.busy)
    second = window.conversation.branch[-1]
    until(lambda: window.answers.writing(second.id) is None)
    kept = window.store.message(second.id).result()
    assert kept.state == "failed"
    assert kept.content == window.transcript.messages[-1].written != ""

    until(lambda: window.loader.loaded is not None)
    ends = []
    window.application.race.finished.connect(ends.append)
    window.application.race.start(window.conversation.asked("Again."), WITHOUT_END)
    until(lambda: ends)
    assert isinstance(ends[0], RaceResult)
    assert ends[0].difference is None
    assert 0 < ends[0].tokens <= 20
    until(lambda: window.loader.loaded and window.loader.loaded.drafter == "auto")
