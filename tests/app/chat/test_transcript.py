"""The transcript: order, the newest line kept in sight, frames, the empty page, the draft where its
words will stand."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QBitmap, QColor, QImage, QPainter, QRegion
from PySide6.QtWidgets import QApplication, QLabel, QVBoxLayout, QWidget

from app.chat.draft_ahead import DraftAhead
from app.chat.message_view import Ending, MessageView
from app.chat.transcript import Transcript
from app.conversations.think_tags import stretches_in
from app.markdown.document import REASONING
from app.markdown.streaming import StreamingMarkdown
from app.markdown.view import TextView
from app.rounds.trace import Piece
from app.theme.palette import LIGHT
from tests.support.app.laid_over import laid_over
from tests.support.app.traces import made_round, tree_round
from tests.support.app.window_use import settle

LONG = "A paragraph of some words.\n\n" * 60


@pytest.fixture
def transcript(qtbot, formats):
    made = Transcript(formats)
    qtbot.addWidget(made)
    made.resize(600, 500)
    made.show()
    return made


def at_end(transcript):
    bar = transcript.verticalScrollBar()
    return bar.value() == bar.maximum() > 0


def jump(transcript):
    widgets = transcript.findChildren(QWidget)
    return next(each for each in widgets if each.accessibleName() == "Jump to the latest")


def test_a_stream_is_written_by_frames(transcript, qtbot):
    message = transcript.add("assistant", name="m", text="", ending=None)
    transcript.write_all()
    changes = []
    message.view.document().contentsChange.connect(lambda *_: changes.append(1))
    for _ in range(500):
        transcript.append("word ")
    assert changes == []
    with qtbot.waitSignal(transcript.all_written):
        transcript.append("a **b")
        transcript.append("** c")
    assert len(changes) <= 20
    assert message.view.toPlainText().split() == [*["word"] * 500, "a", "b", "c"]
    assert transcript.streaming is message
    with qtbot.waitSignal(transcript.all_written):
        transcript.show_view(message, replace(message.shown, ending=Ending("cancelled")))
    assert transcript.streaming is None
    transcript.append("late")
    assert message.written.endswith("a **b** c")


def test_it_follows_the_newest_line_only_from_there(transcript, qtbot):
    bar = transcript.verticalScrollBar()

    def grow():
        before = bar.maximum()
        transcript.append(LONG)
        transcript.write_all()
        qtbot.waitUntil(lambda: bar.maximum() > before)

    transcript.add("assistant", name="m", text=LONG, ending=None)
    qtbot.waitUntil(lambda: at_end(transcript))
    grow()
    qtbot.waitUntil(lambda: at_end(transcript))
    assert not jump(transcript).isVisible()
    bar.setValue(200)
    assert not transcript.pinned
    assert jump(transcript).isVisible()
    grow()
    assert bar.value() == 200
    transcript.jump_to_newest()
    assert at_end(transcript)
    assert not jump(transcript).isVisible()
    grow()
    qtbot.waitUntil(lambda: at_end(transcript))
    bar.setValue(0)
    assert not transcript.pinned
    bar.setValue(bar.maximum() - 3)
    assert transcript.pinned


def on_screen(transcript, row):
    """Where a message begins, from the upper edge of what can be seen."""
    return row.widget.mapTo(transcript.viewport(), QPoint()).y()


def test_what_is_in_sight_or_revealed_stays_where_it_is_at_any_width(transcript):
    """Whatever heights the messages above turn out to have."""
    for number in range(200):
        transcript.add("assistant", name="m", text=f"number {number}\n\n" + LONG, ending=Ending())
    transcript.jump_to_newest()
    settle(transcript)
    bar = transcript.verticalScrollBar()
    for step in (300, 300, 700, 2_000, 2_000):
        bar.setValue(bar.value() - step)
        first = transcript.first_in_sight()
        rows = transcript.messages[first : first + 2]
        in_sight = [row for row in rows if row.top < bar.value() + transcript.height()]
        # Of two, the one that is laid out; after a long way neither is.
        seen = next((row for row in in_sight if row.measured), in_sight[0])
        before = seen.top - bar.value()
        settle(transcript)
        assert on_screen(transcript, seen) == before
    row = transcript.messages[50]
    place = row.written.rindex("words")
    places = []
    for _ in range(2):
        transcript.reveal(row, place=place)
        settle(transcript)
        assert transcript.in_sight(row, place)
        places.append(on_screen(transcript, row))
        transcript.jump_to_newest()
        settle(transcript)
        assert not transcript.in_sight(row, place)
    assert places[0] == places[1]
    transcript.reveal(row)
    settle(transcript)
    assert 0 <= on_screen(transcript, row) < 40
    transcript.resize(420, 500)
    settle(transcript)
    assert -40 < on_screen(transcript, row) < 60
    assert row.widget.width() < 400


def test_what_is_out_of_sight_is_taken_down_unless_it_is_selected_and_built_again(transcript):
    for number in range(100):
        transcript.add("user", name="You", text=f"number {number}", ending=Ending())
    transcript.messages[3].show(MessageView(ending=Ending(), branch=(2, 3)))
    transcript.jump_to_newest()
    settle(transcript)
    selected = transcript.messages[-2]
    selected.view.selectAll()
    widget = selected.widget
    for number in (75, 50, 25, 3, 0):
        transcript.reveal(transcript.messages[number])
        settle(transcript)
    assert sum(row.widget is not None for row in transcript.messages) <= 45
    assert selected.widget is widget
    assert transcript.messages[-1].widget is None
    assert "2/3" in {label.text() for label in transcript.findChildren(QLabel)}
    transcript.jump_to_newest()
    settle(transcript)
    assert transcript.messages[-1].view.toPlainText() == "number 99"
    assert at_end(transcript)


def test_of_a_very_long_message_no_more_is_written_than_is_needed(transcript, monkeypatch):
    monkeypatch.setattr("app.chat.transcript._LONGEST_SECONDS", 0.0)
    row = transcript.add("user", name="You", text="words and words\n" * 20_000, ending=Ending())
    transcript.reveal(row, place=20_000)
    assert 20_000 < row.view.document().characterCount() < 100_000
    assert transcript.in_sight(row, 20_000)


def test_tab_goes_from_message_to_message(transcript):
    for number in range(5):
        transcript.add("user", name="You", text=f"number {number}", ending=Ending())
    transcript.messages[3].view.setFocus()  # which builds it first
    settle(transcript)
    part = transcript.messages[0].view
    found = []
    while part is not None and len(found) < 5:
        if isinstance(part, TextView):
            found.append(part.toPlainText())
        part = part.nextInFocusChain()
    assert found == [f"number {number}" for number in range(5)]


def test_a_draft_is_shown_after_the_message_being_written(transcript, qtbot):
    answer = transcript.add("assistant", name="m", text="", ending=None)

    def show_ahead(ahead):
        transcript.show_view(answer, replace(answer.shown, ahead=ahead))

    show_ahead("Reading")
    settle(transcript)
    ahead = answer.widget.findChild(DraftAhead)
    assert ahead.line == "Reading"
    transcript.append("Some words")
    drafted = made_round(1, " more")[0]
    show_ahead(drafted)
    assert ahead.round is None, "the text comes first"
    settle(transcript)
    assert ahead.round == drafted
    height = answer.height
    show_ahead(None)
    settle(transcript)
    assert ahead.isHidden()
    assert answer.height == height
    transcript.show_view(answer, replace(answer.shown, ending=Ending()))
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert answer.widget.findChild(DraftAhead) is None


def test_another_branch(transcript):
    welcome = QLabel("Welcome")
    transcript.set_empty(welcome)
    assert welcome.isVisible()
    first = transcript.add("user", name="You", text="q", ending=Ending())
    assert not welcome.isVisible()
    transcript.add("assistant", name="m", text="a", ending=None)
    transcript.cut(1)
    assert transcript.messages == (first,)
    assert transcript.streaming is None
    transcript.append("late")
    transcript.add("assistant", name="m", text="b", ending=Ending())
    transcript.write_all()
    assert [m.view.toPlainText() for m in transcript.messages] == ["q", "b"]
    transcript.cut(0)
    assert welcome.isVisible()


PIECES = tuple(
    Piece(text, kind, 1, 1, p=0.5, q=0.5, chance=0.5, drafter="d")
    for text, kind in (("a", "accepted"), ("x", "rejected"), ("b", "correction"))
)


def test_a_click_on_a_word_of_the_legend_hides_its_tokens_alone(transcript, qtbot):
    transcript.add("user", name="You", text=LONG, ending=Ending())
    message = transcript.add("assistant", name="m", text="ab", ending=Ending())
    transcript.show_tokens(True)
    transcript.show_view(message, replace(message.shown, pieces=PIECES))

    def shows(text):
        coloured = len(laid_over(message.view.document())) == 2  # all that was written
        return coloured and message.view.toPlainText().replace("\u200a", "") == text

    qtbot.waitUntil(lambda: shows("axb"))
    for text in ("ab", "axb", "ab"):
        qtbot.mouseClick(message.widget.legend.words["rejected"], Qt.MouseButton.LeftButton)
        qtbot.waitUntil(lambda text=text: shows(text))
    message.fold()  # far from the part in sight, and back
    transcript.write_all()
    transcript.show_view(message, replace(message.shown, pieces=PIECES))
    transcript.write_all()
    assert message.view.toPlainText() == "ab"
    assert transcript.add("assistant", name="m", text="later", ending=Ending()).shown.tokens


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
    page.ahead.show_round(None)
    assert page.picture() == before


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
