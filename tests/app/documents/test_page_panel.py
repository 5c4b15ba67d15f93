"""The panel with the place in a document: pages drawn, or the text, and what is marked there;
chips, which say what a document is, what the model gets of it, and what it lacks."""

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from PySide6 import QtGui
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QImage, QTextDocumentFragment
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QPushButton, QVBoxLayout, QWidget

from app.documents.chips import Chip, ChipsArea, DocumentChips, chip_of_sent, shortened
from app.documents.page_panel import PagePanel
from app.documents.text_dialog import TextDialog
from engine.documents import Document, Section
from engine.documents.copied import CopiedPlace, CopiedSpan, WordIndex, find_copied
from engine.documents.page_picture import Box, PagePicture, png
from engine.documents.prompt import Range, SentDocument, sent_from_json
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


COPIES = Path("/copies")
OF_AN_EARLIER_VERSION = (
    '{"text": "It leaks. What leaks?", "documents": [{"number": 1, "name": "plan.txt", '
    '"ranges": [], "passages": 0, "among": 4, "start": 0, "end": 10, "digest": "00", '
    '"notes": 2, "pixels": null}]}'
)


def test_a_sent_document_and_a_picture_that_is_gone():
    assert shortened("short") == "short"
    assert len(shortened("long " * 100)) <= 120
    whole = SentDocument(1, "a.pdf", (Range(0, 0, 1),))
    assert chip_of_sent(whole, COPIES).words == "whole"
    assert chip_of_sent(replace(whole, passages=9, among=140), COPIES).words == "9 passages of 140"
    deleted = chip_of_sent(replace(whole, ranges=()), COPIES)
    assert (deleted.words, deleted.removes) == ("deleted", False)
    (noted,) = sent_from_json(OF_AN_EARLIER_VERSION).documents
    assert chip_of_sent(noted, COPIES).words == "notes on its parts"
    lost = chip_of_sent(SentDocument(2, "a.jpg", (), digest="a" * 64, pixels=(40, 30)), COPIES)
    assert (lost.picture, lost.shows, lost.removes) == (None, False, True)


def test_chips_have_names_tips_menus_and_buttons_that_work_and_tab_goes_over_them(qtbot):
    page = QWidget()
    qtbot.addWidget(page)
    column = QVBoxLayout(page)
    chips, field, after = DocumentChips(removal="Remove"), QLineEdit(), QLineEdit()
    area = ChipsArea(chips)
    for widget in (area, field, after):
        column.addWidget(widget)
    QWidget.setTabOrder(chips, field)
    page.show()
    viewed, removed = list[int](), list[int]()
    chips.view_asked.connect(viewed.append)
    chips.remove_asked.connect(removed.append)
    assert area.isHidden()
    chips.show_chips([Chip("<b>a</b>.pdf", "whole", ("2 pages",)), Chip("b", shows=False)])
    assert not area.isHidden()
    assert chips.chips[0].accessibleName() == "<b>a</b>.pdf, whole, 2 pages"
    first = chips.chips[0]
    assert all("<b>a</b>.pdf" in button.accessibleName() for button in first.buttons)
    assert first.view.isVisibleTo(first)
    assert not chips.chips[1].view.isVisibleTo(chips.chips[1])
    first.view.click()
    chips.buttons[-1].click()
    first.menu().actions()[1].trigger()
    assert (viewed, removed) == ([0], [1, 0])
    sent = DocumentChips(removal="Delete the document…")  # in the menu alone
    qtbot.addWidget(sent)
    sent.show_chips([Chip("a"), Chip("b", removes=False)])
    menus = [[one.isEnabled() for one in chip.menu().actions()] for chip in sent.chips]
    assert menus == [[True, True], [True, False]]
    assert all(button.text() == "View" for button in sent.buttons)
    chips.show_chips([Chip("c")])
    assert chips.chips == [first], "the focus stays where it is"
    assert chips.chips[0].accessibleName().startswith("c")
    for name in ("R&D.pdf", "Anna's <b>.pdf"):
        chips.show_chips([Chip(name)])
        tip = chips.chips[0].toolTip()
        as_html = QtGui.Qt.mightBeRichText(tip)
        assert (QTextDocumentFragment.fromHtml(tip).toPlainText() if as_html else tip) == name
    chips.show_chips([Chip("a"), Chip("b")])
    passed = [chips.buttons[0]]
    while passed[-1] is not after and len(passed) < 9:
        passed[-1].setFocus()
        QTest.keyClick(passed[-1], Qt.Key.Key_Tab)
        passed.append(page.focusWidget())
    assert passed == [*chips.buttons, field, after]
    chips.show_chips([])
    assert area.isHidden()


def test_a_text_is_shown_exactly_as_it_is_and_long_lines_in_several_that_are_not_copied_so(qtbot):
    text = "<b>bold</b>\n\n" + "long " * 10_000 + "\nend"
    dialog = TextDialog("a.pdf", text, remark="As it is.")
    qtbot.addWidget(dialog)
    shown = dialog.view.toPlainText()
    assert shown.replace("\n", "") == text.replace("\n", "")
    assert shown.startswith("<b>bold</b>\n\nlong")
    assert shown.endswith("\nend")
    assert max(map(len, shown.split("\n"))) < 10_000
    assert dialog.view.isReadOnly()
    next(b for b in dialog.findChildren(QPushButton) if "Copy" in b.text()).click()
    assert QGuiApplication.clipboard().text() == text
