"""Marks over the text of an answer: what they lie on, what they tell, and what they lead to."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QTextCharFormat
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.documents.answer_words import words_of
from app.documents.word_marks import WordMarks, colour_of_document, line_of_document
from app.markdown.formats import Formats
from app.markdown.streaming import StreamingMarkdown
from app.markdown.view import TextView
from app.theme.palette import DARK, LIGHT
from engine.documents.copied import CopiedSpan, WordIndex
from tests.support.documents.marked_answers import DOCUMENTS

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


def shaded(view):
    """The text of each shade, its line, and that line's colour."""
    return [
        (
            each.cursor.selectedText(),
            each.format.underlineStyle(),
            each.format.underlineColor().name(),
        )
        for each in view.extraSelections()
    ]


def place_of(view, words):
    return view.document().find(words).selectionStart()


def test_each_document_has_its_line_and_colour_and_what_is_missing_is_dotted(make):
    view, marks, asked = make()
    assert shaded(view) == [
        ("The Seller warrants the pumps for 36 months", Underline.SingleUnderline, LIGHT.link),
        (
            "Heights are rounded to the nearest centimetre",
            Underline.DashUnderline,
            LIGHT.bonus,
        ),
        ("Peter Stern", Underline.DotLine, LIGHT.warning),
    ]
    pumps = place_of(view, "pumps")
    assert "contract.pdf, page 3" in marks.tip(pumps)
    assert "not found" in marks.tip(place_of(view, "Stern"))
    assert marks.tip(place_of(view, "says")) == ""
    marks.set_colours(DARK)
    assert [colour for _, _, colour in shaded(view)] == [DARK.link, DARK.bonus, DARK.warning]
    marks.set_shown(False)
    assert (shaded(view), marks.tip(pumps), marks.choose(pumps), asked) == ([], "", False, [])


def test_a_link_that_is_copied_stays_a_link_and_its_tip_says_so(make):
    view, marks, asked = make("[The Seller warrants the pumps for 36 months](https://a.test)")
    opened = list[str]()
    view.link_asked.connect(opened.append)
    plain_view, plain, _ = make()
    place = place_of(view, "pumps")
    assert "Right-click" in marks.tip(place)
    assert "Right-click" not in plain.tip(place_of(plain_view, "pumps"))
    cursor = view.textCursor()
    cursor.setPosition(place + 1)
    point = view.cursorRect(cursor).center() + QPoint(1, 0)
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=point)
    assert (opened, asked) == (["https://a.test"], [])
    assert marks.leads(place)
    assert not plain.leads(place_of(plain_view, "says"))
    assert not plain.leads(place_of(plain_view, "Stern"))


def test_a_click_on_marked_words_asks_for_their_place(make):
    view, _, asked = make()
    for words in ("says", "pumps"):
        cursor = view.textCursor()
        cursor.setPosition(place_of(view, words) + 1)
        point = view.cursorRect(cursor).center() + QPoint(1, 0)
        QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=point)
    (span,) = asked
    assert ANSWER[span.start : span.end].endswith("36 months")
    view.selectAll()
    QTest.mouseRelease(view.viewport(), Qt.MouseButton.LeftButton, pos=point)
    assert len(asked) == 1, "a selection is not a click"


def test_lines_and_colours_tell_many_documents_apart():
    looks = {
        (line_of_document(number), colour_of_document(number, LIGHT)) for number in range(1, 13)
    }
    assert len(looks) == 12
    assert "dot" not in {line for line, _ in looks}
