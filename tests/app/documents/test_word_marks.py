"""Marks over the text of an answer: what they lie on, what they tell, and what they lead to; and
what is known of its words, as values."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QTextCharFormat
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.documents.answer_words import (
    AnswerWords,
    CopiedDrafts,
    copied_drafts,
    format_place,
    words_of,
)
from app.documents.word_marks import WordMarks, colour_of_document, line_of_document
from app.markdown.formats import Formats
from app.markdown.streaming import StreamingMarkdown
from app.markdown.view import TextView
from app.theme.palette import DARK, LIGHT
from engine.documents import Document, Section
from engine.documents.copied import CopiedPlace, CopiedSpan, WordIndex
from engine.documents.prompt import Attached, write_message
from engine.events import Draft, Source, Verdict
from tests.support.app.made_traces import made_trace
from tests.support.documents.marked_answers import CONTRACT, DOCUMENTS, MANUAL

pytestmark = pytest.mark.qt_log_ignore("not accepted by receiving")

INDEXES = {number: WordIndex(document.text) for number, document in DOCUMENTS.items()}
ANSWER = (
    "- **The Seller** warrants the pumps for 36 months, says “Peter Stern”.\n"
    "- Heights are rounded to the nearest centimetre\n"
)
Underline = QTextCharFormat.UnderlineStyle


@pytest.fixture
def make(qtbot):
    def made(answer=ANSWER):
        view = TextView(Formats(QApplication.font(), LIGHT), StreamingMarkdown())
        qtbot.addWidget(view)
        view.resize(500, 300)
        view.text.append(answer)
        view.text.finish()
        view.text.settle()
        marks, asked = WordMarks(view, LIGHT), list[CopiedSpan]()
        marks.asked.connect(asked.append)
        marks.set_words(words_of(answer, documents=DOCUMENTS, indexes=INDEXES, said=()))
        marks.set_shown(True)
        view.show()
        return view, marks, asked

    return made


def looks(view):
    """The line of each shade, and that line's colour."""
    shades = view.extraSelections()
    return [(s.format.underlineStyle(), s.format.underlineColor().name()) for s in shades]


def place_of(view, words):
    return view.document().find(words).selectionStart()


def click(view, words):
    """Where the mouse was pressed."""
    cursor = view.textCursor()
    cursor.setPosition(place_of(view, words) + 1)
    point = view.cursorRect(cursor).center() + QPoint(1, 0)
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=point)
    return point


def test_each_document_has_its_line_and_colour_and_a_click_on_its_words_asks_for_their_place(make):
    view, marks, asked = make()
    assert [each.cursor.selectedText() for each in view.extraSelections()] == [
        "The Seller warrants the pumps for 36 months",
        "Heights are rounded to the nearest centimetre",
        "Peter Stern",
    ]
    assert looks(view) == [
        *((Underline.SingleUnderline, LIGHT.link), (Underline.DashUnderline, LIGHT.bonus)),
        (Underline.DotLine, LIGHT.warning),
    ]
    assert not any(marks.leads(place_of(view, words)) for words in ("says", "Stern"))
    pumps = place_of(view, "pumps")
    assert "contract.pdf, page 3" in marks.tip(pumps)
    assert "Right-click" not in marks.tip(pumps)
    assert "not found" in marks.tip(place_of(view, "Stern"))
    assert marks.tip(place_of(view, "says")) == ""
    marks.set_colours(DARK)
    assert [colour for _, colour in looks(view)] == [DARK.link, DARK.bonus, DARK.warning]
    for words in ("says", "pumps"):
        point = click(view, words)
    (span,) = asked
    assert ANSWER[span.start : span.end].endswith("36 months")
    view.selectAll()
    QTest.mouseRelease(view.viewport(), Qt.MouseButton.LeftButton, pos=point)
    assert len(asked) == 1, "a selection is not a click"
    marks.set_shown(False)
    assert (looks(view), marks.tip(pumps), marks.choose(pumps), len(asked)) == ([], "", False, 1)
    apart = {(line_of_document(n), colour_of_document(n, LIGHT)) for n in range(1, 13)}
    assert (len(apart), "dot" in dict(apart)) == (12, False), "many documents are told apart"


def test_a_link_that_is_copied_stays_a_link_and_its_tip_says_so(make):
    view, marks, asked = make("[The Seller warrants the pumps for 36 months](https://a.test)")
    opened = list[str]()
    view.link_asked.connect(opened.append)
    place = place_of(view, "pumps")
    assert "Right-click" in marks.tip(place)
    assert marks.leads(place)
    click(view, "pumps")
    assert (opened, asked) == (["https://a.test"], [])


# What is known of the words of an answer, as values

COPY = "The Seller warrants the pumps for 36 months from acceptance"
SENT = write_message("What does it say?", [Attached(1, MANUAL)])
INSIDE = SENT.text.index("harmonic")
QUESTION = SENT.text.index("What does")


def of(answer, *said):
    return words_of(answer, documents=DOCUMENTS, indexes=INDEXES, said=said)


def test_copied_and_missing_words_are_told_with_their_places():
    answer = f"It says: {COPY}, so “Peter Stern” says."
    found = of(answer)
    assert [answer[span.start : span.end] for span in found.copied] == [COPY]
    assert [answer[each.start : each.end] for each in found.missing] == ["Peter Stern"]
    assert of(answer, "What does Peter Stern say?").missing == ()
    (tip,) = found.tips
    assert "contract.pdf, page 3" in tip
    assert f"{COPY}." in tip
    assert "word for word: contract.pdf p. 3" in found.line
    assert "1 not found" in found.line
    (tip,) = of("This agreement is governed by the laws of England and Wales.").tips
    assert [line[0] for line in tip.splitlines()[:2]] == ["A", "C"]
    assert of("Nothing to say.") == AnswerWords()
    assert format_place(CopiedPlace(1, 0, 5), CONTRACT) == "contract.pdf, page 1"
    single = Document("a.txt", "text", "", (Section("lines", 1, "text"),))
    assert format_place(CopiedPlace(1, 0, 4), single) == "a.txt"


def trace(source):
    """Rounds whose drafts are all from there."""
    events = made_trace("one two three four five six seven eight nine ten")
    return [replace(e, source=source) if isinstance(e, Draft) else e for e in events]


def guesses(source):
    return copied_drafts(trace(source), [None, SENT, "result"])


def test_drafts_from_a_document_are_counted_with_their_accepted_tokens():
    events = trace(Source(1, INSIDE))
    drafted = {event.round for event in events if isinstance(event, Draft)}
    verdicts = [e for e in events if isinstance(e, Verdict) and e.round in drafted]
    assert drafted
    counted = guesses(Source(1, INSIDE))
    assert counted == CopiedDrafts(
        sum(len(verdict.judgements) for verdict in verdicts),
        sum(verdict.accepted for verdict in verdicts),
    )
    assert str(counted).startswith(f"{counted.accepted} of {counted.drafted} ")
    assert guesses(Source(2, 0)) == counted, "and those from a result"
    for source in (None, Source(0, INSIDE), Source(7, INSIDE), Source(1, QUESTION)):
        assert guesses(source) == CopiedDrafts()
    assert str(CopiedDrafts()) == ""
