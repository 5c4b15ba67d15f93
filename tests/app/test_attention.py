"""Whoever looks elsewhere is told when an answer ends, and nobody else is."""

import pytest
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from app.attention import Attention


class Messages:
    """Stands in for the system's messages."""

    def __init__(self, monkeypatch):
        self.shown = []
        self.alerted = []
        monkeypatch.setattr(QSystemTrayIcon, "isSystemTrayAvailable", lambda: True)
        monkeypatch.setattr(QSystemTrayIcon, "supportsMessages", lambda: True)
        monkeypatch.setattr(QSystemTrayIcon, "show", lambda icon: None)
        monkeypatch.setattr(
            QSystemTrayIcon,
            "showMessage",
            lambda icon, title, line, *rest: self.shown.append((title, line)),
        )
        monkeypatch.setattr(
            QApplication, "alert", lambda window, ms: self.alerted.append((window, ms))
        )


@pytest.fixture
def messages(monkeypatch):
    return Messages(monkeypatch)


@pytest.fixture
def window(qtbot, monkeypatch):
    window = QWidget()
    qtbot.addWidget(window)
    window.show()
    monkeypatch.setattr(window, "isActiveWindow", lambda: False)
    return window


def test_one_who_looks_elsewhere_is_told(begin, window, messages):
    talk = begin("ready take load serve")
    attention = Attention(talk.answers, windows=lambda: [window], parent=window)
    chosen = []
    attention.chosen.connect(chosen.append)
    talk.ask("Summarize this")
    assert [title for title, _ in messages.shown] == ["Summarize this"]
    assert messages.alerted == [(window, 1000)]  # a Mac's icon bounces no longer
    attention.findChild(QSystemTrayIcon).messageClicked.emit()
    record = talk.conversation.record
    assert chosen == [record.id]


def test_on_a_mac_the_icon_in_the_dock_is_all(begin, window, messages, monkeypatch):
    monkeypatch.setattr("app.attention.sys.platform", "darwin")
    talk = begin("ready take load serve")
    attention = Attention(talk.answers, windows=lambda: [window], parent=window)
    talk.ask("Summarize this")
    assert messages.alerted == [(window, 1000)]
    assert messages.shown == []
    assert attention.findChild(QSystemTrayIcon) is None


def test_several_that_end_together_are_told_of_together(begin, window, messages):
    talk = begin("ready take load take text:half failed serve")
    attention = Attention(talk.answers, windows=lambda: [window], parent=window)
    chosen = []
    attention.chosen.connect(chosen.append)
    for title in ("One", "Two"):
        talk.conversation.new()
        talk.ask(title)
    talk.ask("And?")
    record = talk.conversation.record
    title, lines = messages.shown[-1]
    assert "2" in title, "conversations"
    assert [line.partition(": ")[0] for line in lines.splitlines()] == ["One", "Two"]
    assert lines.splitlines()[0].endswith(messages.shown[0][1]), "it failed"
    attention.findChild(QSystemTrayIcon).messageClicked.emit()
    assert chosen == [record.id], "the one that ended last"
    talk.ask("Three")
    assert messages.shown[-1][0] == "Two", "of the same conversation, and alone"


@pytest.mark.parametrize(
    "why", ["the window is active", "the person stopped it", "it is closed", "nobody wants it"]
)
def test_nobody_else_is(begin, window, messages, monkeypatch, why):
    talk = begin("ready take load serve")
    wanted = why != "nobody wants it"
    Attention(talk.answers, windows=lambda: [window], wanted=lambda: wanted, parent=window)
    match why:
        case "the window is active":
            monkeypatch.setattr(window, "isActiveWindow", lambda: True)
        case "the person stopped it":
            talk.answers.hold()
        case "it is closed":
            window.hide()
    talk.conversation.say("hello")
    talk.until_told("begun")
    if why == "the person stopped it":
        talk.conversation.stop()
    talk.until_told("saved")
    assert (messages.shown, messages.alerted) == ([], [])
