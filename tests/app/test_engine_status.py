"""Every window tells what is the matter with the engine, also one that is opened later."""

from dataclasses import replace

from PySide6.QtWidgets import QLabel

from app.engine_client.engine_process import Patience
from engine.events import Done, Stats
from models.errors import Problem
from tests.support.app.window_use import answered, send, texts


def test_an_engine_that_dies_is_told_and_comes_back(open_window, until):
    window = open_window("ready take load take text:half kill -- ready take load serve")
    send(window, "go")
    until(answered(window, 2))
    assert texts(window)[1] == "half"
    shown = " ".join(label.text() for label in window.transcript.findChildren(QLabel))
    assert "The engine died" in shown
    until(lambda: window.loader.loaded)
    window.menus.actions["regenerate"].trigger()
    until(lambda: answered(window, 2)() and texts(window)[1] == "served")


def test_an_engine_that_hangs_can_be_restarted(open_window, until):
    patience = Patience(answering_seconds=0.5)
    window = open_window(
        "ready take load take text:half hang -- ready take load serve", patience=patience
    )
    send(window, "go")
    until(lambda: texts(window)[1:] == ["half"] and "silence" in window.notices.texts)
    window.notices.press("silence")
    until(answered(window, 2))
    assert texts(window)[1] == "half"
    until(lambda: window.loader.loaded)


def test_an_engine_that_cannot_start_blocks_sending_with_a_remedy(open_window, until):
    window = open_window("exit:3 -- exit:3 -- exit:3 -- ready take load serve")
    until(lambda: window.composer.blocked)
    send(window, "go")
    assert texts(window) == []
    assert window.composer.text == "go"
    window.application.readiness.try_again()
    until(lambda: window.loader.loaded)
    assert window.composer.blocked == ""


def test_a_remark_about_the_machine_stands_in_the_panel_alone(open_window, until):
    window = open_window()
    until(lambda: window.loader.loaded)
    loaded, remark = window.loader.loaded, window.rounds.panel.remark
    assert loaded is not None
    for text in ("It is slow.", ""):
        window.loader.loaded_now.emit(replace(loaded, remark=text))
        assert remark.words == text
        assert remark.isHidden() == (text == "")
        assert not window.notices.texts
    window.engine.happened.emit(Done("g", "stop", Stats(), remark="It drafts no more."))
    assert remark.words == "It drafts no more."


def test_a_window_that_is_opened_later_shows_why_nothing_can_be_sent(open_windows, until):
    windows = open_windows("ready take failed take load serve")
    first = windows.current
    until(lambda: first.composer.blocked)
    second = windows.open()
    assert second.composer.blocked == first.composer.blocked
    assert second.pair_bar.status == "failed"
    assert second.pair_bar.status_text == first.pair_bar.status_text
    second.pair_bar.retry_asked.emit()
    until(lambda: windows.application.loader.loaded)
    third = windows.open()
    for window in windows.all:
        assert window.composer.blocked == ""
        assert window.pair_bar.status == "loaded"
    third.menus.actions["unload"].trigger()
    until(lambda: windows.application.loader.resting)
    fourth = windows.open()
    until(lambda: first.pair_bar.status == "empty")
    assert fourth.pair_bar.status_text == first.pair_bar.status_text


def test_notices_about_the_engine_are_in_every_window(open_windows, until):
    windows = open_windows()
    first = windows.current
    until(lambda: windows.application.loader.loaded)
    windows.application.engine.hung.emit(9.0)
    second = windows.open()
    assert first.notices.texts.keys() == second.notices.texts.keys() == {"silence"}
    windows.application.engine.responsive.emit()
    assert first.notices.texts.keys() == second.notices.texts.keys() == set()
    second.conversation.failed.emit(Problem("It cannot be done.", "Do otherwise."))
    assert "problem" in second.notices.texts
    assert "problem" not in first.notices.texts
