"""A draft is painted where its words would stand, and nothing of the text moves for it."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QBitmap, QColor, QImage, QPainter, QRegion
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.chat.draft_ahead import DraftAhead
from app.conversations.think_tags import stretches_in
from app.markdown.document import REASONING
from app.markdown.streaming import StreamingMarkdown
from app.markdown.view import TextView
from app.theme.palette import LIGHT
from tests.support.app.traces import made_round, tree_round


def around(mask):
    """The smallest rectangle with all pixels that a mask of Qt's leaves."""
    return QRegion(QBitmap.fromImage(mask)).boundingRect()


def different(before, after):
    """The smallest rectangle with all pixels that differ."""
    difference = QImage(before)
    with QPainter(difference) as painter:
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Difference)
        painter.drawImage(0, 0, after)
    return around(difference.createMaskFromColor(QColor("black").rgb()))


class Page(QWidget):
    """A text with room below it, and the draft ahead of it."""

    def __init__(self, formats, text):
        super().__init__()
        self.now = 50.0
        self.view = TextView(formats, StreamingMarkdown())
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 8, 12, 60)
        column.addWidget(self.view)
        column.addStretch(1)
        self.ahead = DraftAhead(self.view, LIGHT, over=self, clock=lambda: self.now)
        self.resize(420, 260)
        self.show()
        self.write(text)

    def write(self, text):
        self.view.text.set_stretches(stretches_in(self.view.text.given + text))
        self.view.text.append(text)
        while self.view.step():
            pass
        self.layout().activate()
        self.ahead.follow()

    def picture(self):
        return self.grab().toImage()

    def painted(self, colour):
        """The smallest rectangle with all pixels of this colour."""
        wanted = QColor(colour).rgb()
        return around(self.picture().createMaskFromColor(wanted, Qt.MaskMode.MaskOutColor))


@pytest.fixture
def make(qtbot, formats):
    def made(text):
        page = Page(formats, text)
        qtbot.addWidget(page)
        return page

    return made


def test_a_draft_stands_after_the_last_word_and_nothing_moves(make):
    page = make("Some words of an answer that goes on for more than a line, and then some")
    before, size = page.picture(), page.view.size()
    page.ahead.show_round(made_round(1, " more", " words")[0])
    changed = different(before, page.picture())
    last = page.view.line_of(len(page.view.text.given) - 1)
    line = last.toRect().translated(page.view.pos())
    assert changed.top() >= line.top() - 2
    assert changed.left() > line.left(), "after the last word"
    assert page.view.size() == size
    assert page.childAt(line.center()) is not page.ahead, "the text has the pointer"
    page.ahead.show_round(None)
    assert page.picture() == before
    page = make("\u05e9\u05dc\u05d5\u05dd")  # from right to left
    text = page.picture()
    word = different(make("").picture(), text)
    page.ahead.show_round(made_round(1, " \u05e2\u05d5\u05dc\u05dd")[0])
    assert different(text, page.picture()).right() <= word.left() + 2


@pytest.mark.parametrize(
    ("text", "draft"),
    [
        ("Some words.", (" HH",)),
        ("Some words.", ("\n", "\n", "HH")),
        ("Some words.\n", ("\nHH",)),
        ("Some words.\n\n", ("HH",)),
        ("Some words.\n", ("HH",)),
        ("", ("\n\n", "HH")),
        ("# Head\n\n", ("HH",)),
        ("- item\n\n", ("HH",)),
        ("```\nx = 1\n", ("\nHH",)),
        ("```\nx = 1\n\n", ("HH",)),
        ("```\nx = 1\n```\n", ("\n", "HH")),
        ("| a | b |\n|-|-|\n| c | d |\n\n", ("HH",)),
    ],
)
def test_it_stands_where_it_will_settle(make, text, draft):
    page = make(text)
    page.ahead.show_round(made_round(1, *draft)[0])
    drafted = page.painted(LIGHT.faded)
    settled = make(text + "".join(draft)).painted(LIGHT.text)
    assert drafted.isValid()
    assert abs(drafted.bottom() - settled.bottom()) <= (2 if text.startswith("|") else 1)


def test_a_rejected_draft_is_struck_in_red_and_folds_away(make):
    page = make("The sky")
    _, judged = made_round(1, " is", " was", " not", accepted=1)
    page.write(" is")
    page.ahead.show_round(judged)
    assert page.painted(LIGHT.rejected).isValid()
    page.now += 0.3
    half = different(make("The sky is").picture(), page.picture())
    page.now += 1.0
    assert half.isValid()
    assert not different(make("The sky is").picture(), page.picture()).isValid()
    page.ahead.calm = True
    page.ahead.show_round(judged)
    page.now += 5.0
    assert page.painted(LIGHT.rejected).isValid(), "with less motion it stays"


def test_of_a_tree_the_best_branch_is_shown_and_nothing_where_it_is_accepted_or_folded(make):
    page = make("The")
    drafted = tree_round(1, (" sky", -1, 0.9), (" sea", -1, 0.1), (" is", 0, 0.9), path=())[0]
    page.ahead.show_round(drafted)
    assert page.ahead.isVisible()
    best = page.picture()
    page.ahead.show_round(made_round(1, " sky", " is")[0])
    assert page.picture() == best
    page.ahead.show_round(made_round(1, " is", " blue", accepted=2)[1])
    assert page.ahead.isHidden()
    page = make("<think>Some thoughts")
    page.ahead.show_round(made_round(1, " more")[0])
    assert page.ahead.isVisible()
    page.view.text.fold(REASONING)
    page.write("")
    assert page.ahead.isHidden()
