"""Finding in the open conversation: what is found, counted, marked and led to."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QVBoxLayout, QWidget

from app.chat import finder
from app.chat.finder import Finder
from app.chat.message_view import Ending
from app.chat.transcript import Transcript
from app.conversations.think_tags import stretches_in

FILLER = "A paragraph of some words.\n\n" * 15


class Conversation(QWidget):
    """A transcript with its bar."""

    def __init__(self, formats):
        super().__init__()
        self.transcript = Transcript(formats)
        self.finder = Finder(self.transcript)
        column = QVBoxLayout(self)
        column.addWidget(self.finder.bar)
        column.addWidget(self.transcript)
        self.resize(600, 500)
        self.show()

    def say(self, text):
        return self.transcript.add(
            "assistant", name="m", text=text, stretches=stretches_in(text), ending=Ending()
        )

    def find(self, text):
        self.finder.open()
        self.finder.bar.field.setText(text)
        self.settle()

    @property
    def count(self):
        """The number of hits, as it is shown."""
        return self.finder.bar.findChild(QLabel).text()

    def settle(self):
        for _ in range(3):
            QApplication.processEvents()
            self.transcript.write_all()
            while self.finder.looking:
                QApplication.processEvents()

    @property
    def at(self):
        """The hit that the user is at: the message's number, and its text there."""
        return [
            (number, row.written[mark.start : mark.end])
            for number, row in enumerate(self.transcript.messages)
            for mark in row.shown.marks
            if mark.current
        ]


@pytest.fixture
def conversation(qtbot, formats, monkeypatch):
    monkeypatch.setattr(finder, "_ONE_MESSAGE_SECONDS", 60.0)  # the machine may be busy
    made = Conversation(formats)
    qtbot.addWidget(made)
    return made


def test_all_hits_are_reached_from_where_the_user_is_and_escape_leaves_no_mark(conversation):
    for number in range(100):
        conversation.say(FILLER + (f"the **nee**dle {number}\n" if number % 10 == 3 else ""))
    conversation.transcript.jump_to_newest()
    conversation.settle()
    conversation.find("NEEDLE")
    assert conversation.finder.hits == 10
    built = [row for row in conversation.transcript.messages if row.widget is not None]
    assert len(built) < 20
    # Nothing is from what is in sight on; so the search begins at the beginning.
    assert conversation.at == [(3, "nee**dle")]
    assert conversation.count.startswith("1 of 10")
    on, shift = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier
    for modifier, expected in ((on, 13), (on, 23), (shift, 13), (shift, 3), (shift, 93)):
        QTest.keyClick(conversation.finder.bar.field, Qt.Key.Key_Return, modifier)
        conversation.settle()
        ((number, _),) = conversation.at
        row = conversation.transcript.messages[number]
        assert conversation.transcript.in_sight(row, row.written.index("nee"))
        assert number == expected
    assert conversation.count.startswith("10 of 10")
    QTest.keyClick(conversation.finder.bar.field, Qt.Key.Key_Return)
    conversation.settle()
    assert conversation.count.startswith("1 of 10"), "and round"
    marked = conversation.transcript.messages[3]
    conversation.find("other")
    assert (conversation.count, marked.shown.marks) == ("None", ())
    conversation.find("needle")
    assert len(marked.shown.marks) == len(marked.view.extraSelections()) == 1
    QTest.keyClick(conversation.finder.bar.field, Qt.Key.Key_Escape)
    assert not conversation.finder.bar.isVisible()
    assert (marked.shown.marks, marked.view.extraSelections()) == ((), [])
    conversation.transcript.reveal(conversation.transcript.messages[50])
    conversation.settle()
    conversation.find("needle")
    assert conversation.at == [(53, "nee**dle")]
    QTest.keyClick(conversation.finder.bar.field, Qt.Key.Key_Escape)
    # Words of a search elsewhere are marked as well.
    row = conversation.transcript.messages[43]
    assert conversation.finder.show_words(row, "needle wor")
    conversation.settle()
    assert conversation.transcript.in_sight(row, row.written.index("nee"))  # the rarest
    assert {row.written[mark.start : mark.end] for mark in row.shown.marks} == {"wor", "nee**dle"}
    marks = row.shown.marks
    assert conversation.finder.show_words(row, '"needle wor"')  # that search looks for no quotes
    assert row.shown.marks == marks
    assert not conversation.finder.show_words(row, "nothing")
    assert not conversation.finder.show_words(row, "")
    assert row.shown.marks == ()


def test_hits_are_marked_in_code_in_tables_and_in_folded_reasoning_which_unfolds(conversation):
    row = conversation.say("needle\n\n```py\nneedle = 1\n```\n\n|needle|\n|-|\n|a needle|\n")
    conversation.find("needle")
    marked = [selection.cursor.selectedText() for selection in row.view.extraSelections()]
    assert marked == ["needle"] * 4
    row = conversation.say(f"<think>{FILLER}the pin\n\n{FILLER}</think>\n\nSo it is.")
    conversation.settle()
    assert "pin" not in row.view.toPlainText()
    conversation.find("pin")
    assert conversation.at == [(1, "pin")]
    assert "pin" in row.view.toPlainText()
    assert conversation.transcript.in_sight(row, row.written.index("pin"))
    assert [s.cursor.selectedText() for s in row.view.extraSelections()] == ["pin"]


def test_an_answer_that_grows_is_followed(conversation, until):
    conversation.say("one")
    growing = conversation.transcript.add("assistant", name="m", text="", ending=None)
    conversation.find("one")
    assert conversation.finder.hits == 1
    for piece in ("a *o", "n*", "e and one"):
        conversation.transcript.append(piece)
    until(lambda: conversation.finder.hits == 3)
    assert [growing.written[m.start : m.end] for m in growing.shown.marks] == ["on*e", "one"]
    assert conversation.at == [(0, "one")]
    conversation.transcript.show_view(growing, replace(growing.shown, ending=Ending()))
    conversation.settle()
    assert conversation.finder.hits == 3


def test_another_branch_is_searched(conversation, until, monkeypatch):
    conversation.say("one")
    gone = [conversation.say("one one"), conversation.say("two")]
    conversation.find("one")
    conversation.finder.step(1)
    assert conversation.count.startswith("2 of 3")
    with monkeypatch.context() as slow:
        slow.setattr("app.chat.finder._SLICE_SECONDS", -1.0)
        conversation.finder.bar.field.setText("two")
    conversation.transcript.cut(2)
    QApplication.processEvents()  # before the rest is written
    conversation.finder.bar.field.setText("one")
    conversation.finder.step(1)
    conversation.transcript.cut(1)
    conversation.finder.step(1)
    assert conversation.at == [(0, "one")]
    assert [row.widget for row in gone] == [None, None]
    conversation.say("none")
    until(lambda: conversation.finder.hits == 2)
