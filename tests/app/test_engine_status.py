"""Every window tells what is the matter with the engine, also one that is opened later; what all
windows share begins once, and ends with the last window."""

import sys
from dataclasses import replace

from PySide6.QtWidgets import QApplication, QLabel

from app.commands import CommandRunner
from app.engine_client.engine_process import Patience
from engine.events import Done, Stats
from models.answers import ANSWERS, Opened
from models.errors import Problem
from tests.support.app.window_use import answered, send, texts
from tests.support.children import children_with


def test_an_engine_that_dies_or_hangs_is_told_and_comes_back_or_has_no_model(open_window, until):
    window = open_window(
        "ready take load take text:half kill -- ready take load take text:half hang "
        "-- ready take load rest -- ready take failed serve",
        patience=Patience(answering_seconds=0.5),
    )
    send(window, "go")
    until(answered(window, 2))
    assert texts(window)[1] == "half"
    shown = " ".join(label.text() for label in window.transcript.findChildren(QLabel))
    assert "SIGKILL" in shown
    until(lambda: window.loader.loaded)
    window.menus.actions["regenerate"].trigger()
    until(lambda: "silence" in window.notices.texts)
    assert texts(window)[1:] == ["half"]
    window.notices.press("silence")
    until(answered(window, 2))
    assert texts(window)[1] == "half"
    until(lambda: window.loader.loaded)
    problems = []
    window.loader.failed.connect(problems.append)
    window.engine.restart()
    until(lambda: problems)
    assert window.loader.problem is problems[0]
    assert window.pair_bar.status == "failed"


def test_an_engine_that_cannot_start_blocks_sending_with_a_remedy(open_window, until):
    window = open_window("exit:3 -- exit:3 -- exit:3 -- ready take load serve")
    until(lambda: window.composer.blocked)
    send(window, "go")
    assert texts(window) == []
    assert window.composer.text == "go"
    window.application.readiness.try_again()
    until(lambda: window.loader.loaded)
    assert window.composer.blocked == ""


def test_every_window_tells_of_the_engine_also_one_that_is_opened_later(open_windows, until):
    windows = open_windows("ready take failed take load serve")
    first = windows.current
    until(lambda: first.composer.blocked)
    second = windows.open()
    assert second.composer.blocked == first.composer.blocked
    assert second.pair_bar.status == "failed"
    assert second.pair_bar.status_text == first.pair_bar.status_text
    second.pair_bar.retry_asked.emit()
    until(lambda: windows.application.loader.loaded)
    windows.application.engine.hung.emit(9.0)
    third = windows.open()
    for window in windows.all:
        assert window.composer.blocked == ""
        assert window.pair_bar.status == "loaded"
        assert "silence" in window.notices.texts
    windows.application.engine.responsive.emit()
    assert not any(window.notices.texts for window in windows.all)
    loaded, remark = windows.application.loader.loaded, third.rounds.panel.remark
    for text in ("It is slow.", ""):  # about the machine: the panel alone has it
        windows.application.loader.loaded_now.emit(replace(loaded, remark=text))
        assert (remark.words, remark.isHidden()) == (text, not text)
    windows.application.engine.happened.emit(Done("g", "stop", Stats(), remark="It drafts less."))
    assert remark.words == "It drafts less."
    assert not any(window.notices.texts for window in windows.all)
    second.conversation.failed.emit(Problem("It cannot be done.", "Do otherwise."))
    assert [[*window.notices.texts] for window in windows.all] == [[], ["problem"], []]
    third.menus.actions["unload"].trigger()
    until(lambda: windows.application.loader.resting)
    fourth = windows.open()
    until(lambda: first.pair_bar.status == "empty")
    assert fourth.pair_bar.status_text == first.pair_bar.status_text


def test_it_begins_once_and_a_closed_window_asks_nothing(open_window, until, monkeypatch):
    # A backup that was due five minutes later ended as a traceback.
    window = open_window("ready take load take")
    until(lambda: window.loader.loaded)
    assert window.application.backups.isActive()
    begun = []
    monkeypatch.setattr(window.loader, "begin", lambda: begun.append(None))
    window.application.begin()
    assert (window.application.begun, begun) == (True, [])
    window.close()
    assert not window.application.backups.isActive()


def test_a_model_that_is_prepared_at_the_end_starts_no_engine(open_window, until):
    # The engine was started again behind the window that had been closed.
    line = ANSWERS.to_json(Opened("/models/tiny"))
    answer = f"print({line!r}, flush=True); sys.stdin.read()"
    command = (sys.executable, "-c", f"import sys; {answer}")
    window = open_window(loading=CommandRunner(command))
    until(lambda: window.engine.pid)
    window.close()
    assert window.engine.pid == 0
    assert children_with(command[2]) == []
    QApplication.processEvents()
    assert window.engine.pid == 0
