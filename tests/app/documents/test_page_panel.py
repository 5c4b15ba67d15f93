"""The panel with the place in a document: pages drawn, or the text, and what is marked there."""

from pathlib import Path
from threading import Event

import pytest
from PySide6.QtGui import QImage

from app.documents.page_panel import PagePanel
from engine.documents import Document, Section
from engine.documents.copied import CopiedPlace, CopiedSpan, WordIndex, find_copied
from engine.documents.page_picture import Box, PagePicture, png
from engine.documents.reading import Cancelled
from models.errors import Problem
from tests.support.documents.marked_answers import CONTRACT, DOCUMENTS, MANUAL

WORDS = "liquidated damages of 0.5 % of the price"


class Drawer:
    """Draws pages of the `copied` without a file; remembers what it was asked for."""

    def __init__(self):
        self.copied = [CONTRACT]
        self.asked = []
        self.problem = None
        self.go_on = Event()
        self.go_on.set()

    def __call__(self, path, number, *, spans, width, cancelled):
        self.asked.append((path, number, list(spans)))
        assert self.go_on.wait(30)
        if cancelled():
            raise Cancelled
        if self.problem is not None:
            raise self.problem
        height = 4 * width // 3
        picture = png(
            b"\xff" * (3 * width * height), width=width, height=height, row_bytes=3 * width
        )
        return PagePicture(picture, width, height, (Box(0, 100, height - 90, 300, height - 60),))


@pytest.fixture
def drawer():
    return Drawer()


@pytest.fixture
def panel(qtbot, drawer):
    made = PagePanel(drawer, lambda each: Path("copy.pdf") if each in drawer.copied else None)
    qtbot.addWidget(made)
    made.resize(400, 300)
    made.show()
    yield made
    drawer.go_on.set()
    made.close_all()


def span_of(words, documents=DOCUMENTS):
    (span,) = find_copied(words, {n: WordIndex(each.text) for n, each in documents.items()})
    return span


def test_a_page_is_drawn_with_the_words_boxed_and_in_sight(panel, drawer, qtbot):
    panel.show_span(span_of(WORDS), DOCUMENTS)
    qtbot.waitUntil(lambda: panel.page.picture is not None)
    ((path, number, ((start, end),)),) = drawer.asked
    assert (path, number) == (Path("copy.pdf"), 2)
    assert CONTRACT.sections[1].text[start:end] == WORDS
    assert "contract.pdf, page 2" in panel.heading.text()
    assert panel.page.verticalScrollBar().value() > 0
    drawn = panel.page.grab().toImage().convertToFormat(QImage.Format.Format_Grayscale8)
    assert set(bytes(drawn.constBits())) > {255}, "the paper is white, the box is not"


def test_without_pages_the_text_is_shown_and_marked_of_a_very_long_one_a_part(panel, drawer):
    assert panel.place is None
    assert not panel.page.isVisible()
    assert not panel.text.isVisible()
    drawer.copied.clear()
    words = "words that are 4 of a kind"
    filler = "filler\n" * 20_000
    long = Document("long.txt", "text", "", (Section("lines", 1, f"{filler}{words}\n{filler}"),))
    for looked_for, documents, most in (
        ("a strong wind can\nchange the level", DOCUMENTS, len(MANUAL.sections[1].text)),
        (WORDS, DOCUMENTS, len(CONTRACT.sections[1].text)),  # whose file is gone
        (words, {1: long}, 100_000),
    ):
        panel.show_span(span_of(looked_for, documents), documents)
        assert panel.text.isVisible()
        assert len(looked_for) < len(panel.text.toPlainText()) <= most
        (mark,) = panel.text.extraSelections()
        assert mark.cursor.selectedText().replace("\u2029", "\n") == looked_for
    assert drawer.asked == []
    panel.clear()
    assert panel.place is None


def test_where_a_page_cannot_be_drawn_or_is_late_the_text_is_shown(panel, drawer, qtbot):
    drawer.problem = Problem("The file is damaged.", "Save it again.")
    panel.show_span(span_of(WORDS), DOCUMENTS)
    qtbot.waitUntil(panel.text.isVisible)
    assert "The file is damaged." in panel.remark.text()
    panel.show_span(span_of("Heights are rounded to the nearest centimetre"), DOCUMENTS)
    assert not panel.remark.isVisible()
    drawer.problem = None
    drawer.go_on.clear()
    drawer.asked.clear()
    panel.show_span(span_of(WORDS), DOCUMENTS)
    qtbot.waitUntil(lambda: len(drawer.asked) == 1)  # whose picture is late, and dropped
    panel.show_span(span_of("Heights are rounded to the nearest centimetre"), DOCUMENTS)
    drawer.go_on.set()
    qtbot.wait(50)
    assert panel.page.picture is None
    assert panel.text.isVisible()


def test_one_goes_through_all_places_and_words_across_two_pages_are_on_the_first(
    panel, drawer, qtbot
):
    span = span_of("this agreement is governed by the laws of England and Wales")
    panel.show_span(span, DOCUMENTS)
    assert panel.place == span.places[0]
    panel.step(-1)
    assert panel.place == span.places[0]
    panel.step(1)
    assert panel.place == span.places[1]
    assert "report.docx" in panel.heading.text()
    panel.step(1)
    assert panel.place == span.places[1]
    qtbot.waitUntil(lambda: drawer.asked)
    drawer.asked.clear()
    first, second = CONTRACT.starts[:2]
    place = CopiedPlace(1, second - 30, second + 20)
    panel.show_span(CopiedSpan(0, 50, (place,)), DOCUMENTS)
    qtbot.waitUntil(panel.page.isVisible)
    ((_, number, ((start, end),)),) = drawer.asked
    assert (number, end) == (1, len(CONTRACT.sections[0].text))
    assert start == place.start - first
