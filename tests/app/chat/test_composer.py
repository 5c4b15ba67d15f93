"""What is written is sent once, kept until then, and what stands in the way is said."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from app.chat.composer import Composer, RoundButton
from app.chat.prompt_edit import CTRL_ENTER
from app.theme.palette import DARK


class Heard:
    """What the composer said."""

    def __init__(self, composer):
        self.sent = []
        self.changed = []
        self.stops = 0
        self.remedies = 0
        composer.sent.connect(self.sent.append)
        composer.changed.connect(self.changed.append)
        composer.stopped.connect(self._on_stop)
        composer.remedy_asked.connect(self._on_remedy)

    def _on_stop(self):
        self.stops += 1

    def _on_remedy(self):
        self.remedies += 1


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


@pytest.fixture
def heard(composer):
    return Heard(composer)


def button(composer):
    found = composer.findChild(RoundButton)
    return found


def remedy(composer):
    found = composer.findChild(QPushButton)
    return found


def shown(composer):
    """The texts beside the field."""
    return [label.text() for label in composer.findChildren(QLabel) if label.text()]


def enter(composer):
    QTest.keyClick(composer.field, Qt.Key.Key_Return)


def test_enter_sends_and_empties_the_field(composer, heard):
    QTest.keyClicks(composer.field, "hi ")
    enter(composer)
    enter(composer)
    assert heard.sent == ["hi "]
    assert composer.text == ""
    assert heard.changed == ["h", "hi", "hi ", ""]
    assert "Enter" in button(composer).toolTip()
    composer.set_enter_sends(False)
    for answering in (False, True, False):
        composer.set_answering(answering)
        assert ("Stop" in button(composer).toolTip()) == answering
        assert answering or CTRL_ENTER in button(composer).toolTip()


def test_the_button_sends_and_knows_when_there_is_nothing(composer, heard):
    assert not button(composer).isEnabled()
    composer.set_text("from before")
    assert button(composer).isEnabled()
    QTest.mouseClick(button(composer), Qt.MouseButton.LeftButton)
    assert heard.sent == ["from before"]
    assert heard.changed == [""], "set_text is nothing new to whoever keeps the text"


def test_blank_text_is_not_sent(composer, heard):
    composer.set_text(" \n\t ")
    enter(composer)
    assert heard.sent == []
    assert composer.text == " \n\t "


def test_while_answering_the_button_and_escape_stop(composer, heard):
    QTest.keyClick(composer.field, Qt.Key.Key_Escape)
    assert heard.stops == 0
    composer.set_answering(True)
    assert button(composer).accessibleName() == "Stop answer"
    QTest.keyClick(composer.field, Qt.Key.Key_Escape)
    QTest.mouseClick(button(composer), Qt.MouseButton.LeftButton)
    assert heard.stops == 2
    composer.set_answering(False)
    assert button(composer).accessibleName() == "Send message"


def test_while_answering_a_message_is_queued(composer, heard):
    queued = []
    composer.to_queue.connect(queued.append)
    composer.set_answering(True)
    enter(composer)
    QTest.keyClicks(composer.field, "later")
    enter(composer)
    assert (queued, heard.sent, composer.text) == (["later"], [], "")
    composer.queued.show_queue(queued, "Sent later", sends=False)
    assert composer.queued.isVisible()
    composer.queued.show_queue([], "", sends=False)
    assert not composer.queued.isVisible()


def test_what_cannot_be_queued_stays(composer, heard):
    composer.set_answering(True)
    composer.queues = False
    QTest.keyClicks(composer.field, "next")
    enter(composer)
    assert heard.sent == []
    assert composer.text == "next"
    assert "(Esc)" in shown(composer)[-1]
    composer.set_answering(False)
    assert shown(composer) == []
    enter(composer)
    assert heard.sent == ["next"]


def test_what_blocks_is_said_with_its_remedy(composer, heard):
    composer.set_text("hi")
    composer.set_blocked("No model is loaded.", remedy="Choose a model…")
    assert shown(composer) == ["No model is loaded."]
    assert not button(composer).isEnabled()
    enter(composer)
    assert heard.sent == []
    assert composer.text == "hi"
    QTest.mouseClick(remedy(composer), Qt.MouseButton.LeftButton)
    assert heard.remedies == 1
    composer.set_blocked("")
    assert shown(composer) == []
    assert not remedy(composer).isVisible()
    enter(composer)
    assert heard.sent == ["hi"]


def test_what_blocks_comes_back_after_another_line(composer):
    composer.set_blocked("The engine is loading.")
    composer.field.refused.emit("Not pasted.")
    assert shown(composer) == ["Not pasted."]
    QTest.keyClicks(composer.field, "x")
    assert shown(composer) == ["The engine is loading."]


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


def test_a_conversation_that_goes_on_is_no_warning(composer):
    for used, text in ((990, "990 of 1,000 tokens"), (1001, "1,001 of 1,000 tokens: ")):
        composer.set_tokens(used, 1000, leaves_out=True)
        (line,) = shown(composer)
        assert line.startswith(text)
        assert len(line) > len(text) or used < 1000


def test_the_keyboard_reaches_everything(composer):
    composer.set_text("hi")
    composer.setFocus()
    assert composer.field.hasFocus()
    QTest.keyClick(composer.field, Qt.Key.Key_Tab)
    assert button(composer).hasFocus()
    QTest.keyClick(button(composer), Qt.Key.Key_Space)
    assert composer.text == ""
    assert composer.field.hasFocus()


def test_it_follows_a_dark_window(composer):
    palette = QPalette()
    palette.setColor(QPalette.ColorRole.Window, QColor(DARK.paper))
    composer.setPalette(palette)
    assert composer.field.palette().text().color().name() == DARK.text
    assert QColor(composer.grab().toImage().pixel(300, 20)).name() == DARK.paper
