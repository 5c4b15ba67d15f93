"""What is written is sent once, kept until then, and what stands in the way is said."""

from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from app.chat.composer import Composer, RoundButton
from app.chat.prompt_edit import CTRL_ENTER


@pytest.fixture
def heard(composer):
    """What the composer said, by signal, from now on."""
    said = {name: [] for name in ("sent", "to_queue", "changed", "stopped", "remedy_asked")}
    for name, values in said.items():
        getattr(composer, name).connect(lambda *value, values=values: values.append(value))
    return SimpleNamespace(**said)


@pytest.fixture
def composer(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    composer = Composer(window)
    composer.resize(600, 120)
    window.show()
    window.activateWindow()
    yield composer
    window.close()


def button(composer):
    return composer.findChild(RoundButton)


def remedy(composer):
    return composer.findChild(QPushButton)


def shown(composer):
    """The texts beside the field."""
    return [label.text() for label in composer.findChildren(QLabel) if label.text()]


def enter(composer):
    QTest.keyClick(composer.field, Qt.Key.Key_Return)


def test_enter_and_the_button_send_and_empty_the_field(composer, heard):
    assert not button(composer).isEnabled()
    QTest.keyClicks(composer.field, "hi ")
    enter(composer)
    enter(composer)
    assert (composer.text, heard.sent) == ("", [("hi ",)])
    assert heard.changed == [("h",), ("hi",), ("hi ",), ("",)]
    composer.set_text(" \n\t ")
    enter(composer)
    assert (composer.text, len(heard.sent)) == (" \n\t ", 1)
    composer.set_text("from before")
    assert button(composer).isEnabled()
    composer.setFocus()
    QTest.keyClick(composer.field, Qt.Key.Key_Tab)
    assert button(composer).hasFocus()
    QTest.keyClick(button(composer), Qt.Key.Key_Space)
    assert composer.field.hasFocus()
    assert heard.sent[1:] == [("from before",)]
    assert len(heard.changed) == 5, "set_text is nothing new to whoever keeps the text"
    composer.set_enter_sends(False)
    for answering in (False, True, False):
        composer.set_answering(answering)
        assert ("Stop" in button(composer).toolTip()) == answering
        assert answering or CTRL_ENTER in button(composer).toolTip()


def test_while_answering_escape_stops_and_enter_queues(composer, heard):
    QTest.keyClick(composer.field, Qt.Key.Key_Escape)
    assert heard.stopped == []
    composer.set_answering(True)
    assert button(composer).accessibleName() == "Stop answer"
    QTest.keyClick(composer.field, Qt.Key.Key_Escape)
    QTest.mouseClick(button(composer), Qt.MouseButton.LeftButton)
    assert len(heard.stopped) == 2
    enter(composer)
    QTest.keyClicks(composer.field, "later")
    enter(composer)
    assert (heard.to_queue, heard.sent, composer.text) == ([("later",)], [], "")
    composer.queued.show_queue(["later"], "Sent later", sends=False)
    assert composer.queued.isVisible()
    composer.queued.show_queue([], "", sends=False)
    assert not composer.queued.isVisible()
    composer.set_answering(False)
    assert button(composer).accessibleName() == "Send message"


def test_what_cannot_be_queued_stays(composer, heard):
    composer.set_answering(True)
    composer.queues = False
    QTest.keyClicks(composer.field, "next")
    enter(composer)
    assert (heard.sent, composer.text) == ([], "next")
    assert "(Esc)" in shown(composer)[-1]
    composer.set_text("next", 3)  # another version of a message, which Esc ends
    QTest.keyClick(composer.field, Qt.Key.Key_Escape)
    enter(composer)
    assert (heard.sent, heard.stopped, composer.text) == ([], [], "next")
    assert "(Esc)" not in shown(composer)[-1]
    composer.set_answering(False)
    assert shown(composer) == []
    enter(composer)
    assert heard.sent == [("next",)]


def test_what_blocks_is_said_with_its_remedy(composer, heard):
    composer.set_text("hi")
    composer.set_blocked("No model is loaded.", remedy="Choose a model…")
    assert shown(composer) == ["No model is loaded."]
    assert not button(composer).isEnabled()
    enter(composer)
    assert (heard.sent, composer.text) == ([], "hi")
    composer.field.refused.emit("Not pasted.")
    assert shown(composer) == ["Not pasted."]
    QTest.keyClicks(composer.field, "!")
    assert shown(composer) == ["No model is loaded."]
    QTest.mouseClick(remedy(composer), Qt.MouseButton.LeftButton)
    assert len(heard.remedy_asked) == 1
    composer.set_blocked("")
    assert shown(composer) == []
    assert not remedy(composer).isVisible()
    enter(composer)
    assert len(heard.sent) == 1


def test_tokens_are_counted_and_warned_of_in_words(composer):
    for used, limit, text in (
        (None, 4096, ""),
        (None, None, ""),
        (12, None, "12 tokens"),
        (900, 1000, "900 of 1,000 tokens"),
        (901, 1000, "⚠ 901 of 1,000 tokens: nearly full"),
        (1000, 1000, "⚠ 1,000 of 1,000 tokens: nearly full"),
        (1001, 1000, "⚠ 1,001 of 1,000 tokens: 1 too many"),
    ):
        composer.set_tokens(500, 501)
        composer.set_tokens(used, limit)
        assert shown(composer) == ([text] if text else [])
    for used, text in ((990, "990 of 1,000 tokens"), (1001, "1,001 of 1,000 tokens: ")):
        composer.set_tokens(used, 1000, leaves_out=True)
        (line,) = shown(composer)
        assert line.startswith(text), "a conversation that goes on is not a warning"
        assert len(line) > len(text) or used < 1000
