"""Whoever looks elsewhere is told when an answer ends, and no one else is; notices offer remedies,
warnings come first, and nothing piles up."""

from types import SimpleNamespace

import pytest
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QSystemTrayIcon, QWidget

from app.attention import Attention
from app.notices import Notices, Offer


@pytest.fixture
def messages(monkeypatch):
    """The system's messages that were shown, and the windows that it was told to point at."""
    shown, alerted = [], []
    for name in ("isSystemTrayAvailable", "supportsMessages"):
        monkeypatch.setattr(QSystemTrayIcon, name, lambda: True)
    monkeypatch.setattr(QSystemTrayIcon, "show", lambda icon: None)
    monkeypatch.setattr(
        QSystemTrayIcon, "showMessage", lambda icon, title, line, *rest: shown.append((title, line))
    )
    monkeypatch.setattr(QApplication, "alert", lambda window, ms: alerted.append((window, ms)))
    return SimpleNamespace(shown=shown, alerted=alerted)


@pytest.fixture
def window(qtbot, monkeypatch):
    window = QWidget()
    qtbot.addWidget(window)
    window.show()
    monkeypatch.setattr(window, "isActiveWindow", lambda: False)
    return window


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_one_who_looks_elsewhere_is_told(begin, window, messages, monkeypatch, platform):
    monkeypatch.setattr("app.attention.sys.platform", platform)
    talk = begin("ready take load serve")
    attention = Attention(talk.answers, windows=lambda: [window], parent=window)
    chosen = []
    attention.chosen.connect(chosen.append)
    talk.ask("Summarize this")
    assert messages.alerted == [(window, 1000)]  # a Mac's icon bounces no longer
    tray = attention.findChild(QSystemTrayIcon)
    if platform == "darwin":  # the icon in the dock is all
        assert (messages.shown, tray) == ([], None)
        return
    assert [title for title, _ in messages.shown] == ["Summarize this"]
    tray.messageClicked.emit()
    assert chosen == [talk.conversation.record.id]


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
    "why", ["the window is active", "the user stopped it", "it is closed", "nobody wants it"]
)
def test_nobody_else_is(begin, window, messages, monkeypatch, why):
    talk = begin("ready take load serve")
    wanted = why != "nobody wants it"
    Attention(talk.answers, windows=lambda: [window], wanted=lambda: wanted, parent=window)
    match why:
        case "the window is active":
            monkeypatch.setattr(window, "isActiveWindow", lambda: True)
        case "the user stopped it":
            talk.answers.hold()
        case "it is closed":
            window.hide()
    talk.conversation.say("hello")
    talk.until_told("begun")
    if why == "the user stopped it":
        talk.conversation.stop()
    talk.until_told("saved")
    assert (messages.shown, messages.alerted) == ([], [])


@pytest.fixture
def notices(qtbot):
    notices = Notices()
    qtbot.addWidget(notices)
    return notices


def test_a_notice_offers_is_settled_dismissed_or_goes_by_itself(notices, qtbot):
    done = []
    notices.say("a", "It broke.", offer=Offer("Mend it", lambda: done.append("mended")))
    notices.say("b", "<b>other</b>", lasting=True)
    notices.say("b", "<i>later</i>", lasting=True)
    assert notices.texts == {"a": "It broke.", "b": "<i>later</i>"}
    labels = {label.textFormat().name for label in notices.findChildren(QLabel)}
    assert labels == {"PlainText"}
    notices.press("a")
    assert done == ["mended"]
    for key in ("b", "b"):
        notices.take_back(key)
    assert notices.texts == {}
    assert notices.isHidden()
    notices.say("d", "Short.", seconds=0.01)
    notices.say("e", "Stays.")
    qtbot.waitUntil(lambda: notices.texts == {"e": "Stays."})
    buttons = notices.findChildren(QAbstractButton)
    next(one for one in reversed(buttons) if one.text() == "Dismiss").click()
    assert notices.texts == {}


def test_one_is_shown_at_a_time_and_warnings_first(notices):
    notices.say("broken", "It broke.", "warning")
    notices.say("asks", "Use it?", offer=Offer("Use it", lambda: None))
    notices.say("news", "Something is new.")
    notices.say("done", "Exported.", "good")
    assert notices.shown == ("asks",)
    more = next(b for b in notices.findChildren(QAbstractButton) if b.text().startswith("3 "))
    assert not more.isHidden()
    notices.take_back("asks")
    assert notices.shown == ("broken",)
    more.click()
    assert notices.shown == ("broken", "news", "done")
    assert more.isHidden()
    notices.take_back("broken")
    notices.take_back("news")
    notices.say("later", "Something else is new.")
    assert notices.shown == ("later",)
    for full in ("store", "problem"):
        notices.say(full, "The disk is full.", "warning")
    assert [*notices.texts][2:] == ["store"]
    notices.say("disk", "The disk is full. The answer is kept in memory.", "warning")
    assert [*notices.texts][2:] == ["disk"]
    notices.say("sent", "It could not be sent.", "warning", of_conversation=True)
    notices.leave_conversation()
    assert {"sent", "disk"} & notices.texts.keys() == {"disk"}
