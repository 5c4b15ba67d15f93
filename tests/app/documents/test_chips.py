"""A chip says what a document is, what the model gets of it, and what it lacks."""

from dataclasses import replace
from pathlib import Path

from PySide6 import QtGui
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QTextDocumentFragment
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QPushButton, QVBoxLayout, QWidget

from app.documents.chips import Chip, ChipsArea, DocumentChips, chip_of_sent, shortened
from app.documents.text_dialog import TextDialog
from engine.documents.prompt import Range, SentDocument, sent_from_json

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
