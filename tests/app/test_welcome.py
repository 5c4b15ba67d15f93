"""The first page has questions to begin with, and says how far the model is."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPushButton

from app.settings import Pair
from app.welcome import EXAMPLES


@pytest.fixture
def window(open_window, until):
    window = open_window()
    until(lambda: window.pair_bar.status == "loaded")
    return window


def texts(window):
    return [label.text() for label in window.welcome.findChildren(QLabel)]


def test_an_example_is_sent_and_unsent_text_stays(window, until):
    window.composer.set_text("not yet")
    for card, (title, question) in zip(window.welcome.examples, EXAMPLES, strict=True):
        assert card.accessibleName() == f"{title}: {question}"
    card = window.welcome.examples[1]
    QTest.mouseClick(card, Qt.MouseButton.LeftButton)
    until(lambda: window.conversation.branch)
    assert window.conversation.branch[0].content == EXAMPLES[1][1] == card.question
    assert window.composer.text == "not yet"
    window.composer.set_blocked("The engine stopped.")
    window.welcome.examples[2].setFocus()
    QTest.keyClick(window.welcome.examples[2], Qt.Key.Key_Space)
    assert window.composer.text == EXAMPLES[2][1]  # it waits for the user
    field = window.composer.field
    QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert window.composer.text == "not yet"


def test_an_example_in_a_stored_conversation_leaves_its_unsent_text_on_the_disk(window, until):
    id = window.store.create().result().id
    window.show_conversation(id)
    until(lambda: window.conversation.record)
    QTest.keyClicks(window.composer.field, "not yet")
    window.composer_controller.leave()
    QTest.mouseClick(window.welcome.examples[1], Qt.MouseButton.LeftButton)
    until(lambda: window.conversation.branch)
    assert window.store.conversation(id).result().unsent == window.composer.text == "not yet"


def test_a_question_has_its_lines_and_more_is_offered_and_told(window, qtbot):
    card = window.welcome.examples[3]
    window.resize(window.minimumSizeHint().width(), 900)
    qtbot.waitUntil(lambda: card.width() < 230)
    assert card.height() >= card.heightForWidth(card.width()) > card.sizeHint().height()
    assert any(".\n" in text for text in texts(window))
    window.resize(1280, 900)
    qtbot.waitUntil(lambda: not any(".\n" in text for text in texts(window)))
    window.settings.theme = "light" if window.theme.dark else "dark"
    window.theme.refresh()
    title, colour = card.findChild(QLabel), QColor(window.theme.colours.text)
    qtbot.waitUntil(lambda: title.palette().color(title.foregroundRole()) == colour)
    buttons = {button.text(): button for button in window.welcome.findChildren(QPushButton)}
    with qtbot.waitSignal(window.welcome.explanation_asked):
        buttons["What am I looking at?"].click()
    window.loader.fetch_progress.emit(46_435_520, 92_871_040)
    assert any("46.4 of 92.9 MB" in text for text in texts(window))
    window.loader.pair = Pair("/models/Tiny-Q4.gguf")
    window.loader.fetch_began.emit()
    (said,) = (text for text in texts(window) if "Tiny" in text)
    assert "starter" not in said
