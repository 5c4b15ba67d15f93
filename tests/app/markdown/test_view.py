"""The view gives no resource and opens no link; wide code and tables scroll by themselves."""

import pytest
from PySide6.QtCore import QPoint, QPointF, QSize, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QImage, QTextDocument, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QScrollBar

from app.markdown.formats import Formats
from app.markdown.links import ask_to_open
from app.markdown.page import RejectedSpan
from app.theme.palette import DARK


@pytest.fixture
def canary(tmp_path):
    """A picture that would be as high as a house, were it shown."""
    path = tmp_path / "canary.png"
    picture = QImage(10, 3_000, QImage.Format.Format_RGB32)
    assert picture.save(str(path))
    return path


def test_asked_for_a_resource_it_gives_nothing(show, canary):
    view = show("text")
    for name in (QUrl.fromLocalFile(str(canary)), str(canary), QUrl("http://127.0.0.1/")):
        assert [view.loadResource(kind, name) for kind in (1, 3, 4)] == [b""] * 3
        picture = view.loadResource(QTextDocument.ResourceType.ImageResource.value, name)
        assert picture.size() == QSize(1, 1)
    view.document().setHtml(f"<img src='{canary}'>")  # as if the writer had let it through
    assert view.document().size().height() < 3_000


def test_a_link_is_only_asked_about(show, monkeypatch):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    view = show("[good.org](https://b\u00fccher.example/a%20b?q=<x>)")
    asked = []
    view.link_asked.connect(asked.append)
    view.anchorClicked.emit(QUrl(view.document().find("good").charFormat().anchorHref()))
    assert asked == ["https://xn--bcher-kva.example/a%20b?q=%3Cx%3E"]
    assert opened == []
    assert view.toPlainText() == "good.org"


def test_the_question_shows_the_address(show):
    view = show("")
    opened = []
    address = f"https://a.b.{'c' * 200}.d/<b>e</b>"
    for button in ("Cancel", "Open"):
        question = ask_to_open(view, address, opening=opened.append)
        lines = question.informativeText().split("\n")
        assert ("".join(lines), len(max(lines, key=len))) == (address, 60)
        assert question.textFormat().name == "PlainText"
        assert question.defaultButton().text() != "Open"
        assert opened == []
        next(b for b in question.buttons() if b.text().replace("&", "") == button).click()
    assert opened == [address]
    endless = ask_to_open(view, f"{address}{'f' * 9_000}g", opening=pytest.fail)
    *_, cut, before, end = endless.informativeText().split("\n")
    assert (cut, len(before), end[-1:]) == ("\u2026", 60, "g")
    for other in ("file:///etc/passwd", "javascript:x", "/etc", "", "httpx://"):
        assert ask_to_open(view, other, opening=pytest.fail) is None


WIDE = "wide = " + " + ".join(f"name_{number}" for number in range(40))
TEXT = f"before\n\n```python\n{WIDE}\nshort\n```\n\n- item\n  ```\n  {WIDE}\n  ```\n\nend"


def bars(view):
    found = view.viewport().findChildren(QScrollBar)
    return sorted((bar for bar in found if bar.isVisible()), key=QScrollBar.y)


def placed(view):
    """The view, laid out as it is now."""
    view.text.settle()
    view.place_buttons()
    return view


def block(view, text):
    return view.document().find(text).block()


def left(view, text):
    """Where the line with this text begins, as it was painted last."""
    view.grab()
    return block(view, text).layout().lineAt(0).x()


def wheel(view, at, across, down=0):
    event = QWheelEvent(
        QPointF(at),
        view.mapToGlobal(QPointF(at)),
        QPoint(across, down),
        QPoint(across, down),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    view.wheelEvent(event)
    return event


def test_each_block_scrolls_by_itself_by_bar_wheel_and_cursor(show):
    view = placed(show(TEXT))
    first, second = bars(view)
    assert block(view, "wide").layout().lineCount() == 1
    begin = left(view, "wide")
    first.setValue(first.maximum())
    assert left(view, "wide") == left(view, "short") == begin - first.maximum()
    assert left(view, "python") == begin
    assert second.value() == 0
    line = block(view, "wide").layout().lineAt(0)
    assert line.x() + line.naturalTextWidth() <= view.width()  # its end is in sight
    first.setValue(0)
    assert left(view, "wide") == begin
    # What is under the pointer is what is seen.
    inside = view.cursorRect(view.document().find("wide")).center()
    point = inside + QPoint(20, 0)
    before = view.position_at(point)
    first.setValue(100)
    view.grab()
    assert view.position_at(point + QPoint(-100, 0)) == before
    assert view.position_at(point) > before
    first.setValue(0)
    assert wheel(view, inside, -50).isAccepted()
    ignored = ((view, inside, 0, -50), (view, QPoint(5, 5), -50), (first, QPoint(5, 3), 0, -50))
    assert not any(wheel(*turned).isAccepted() for turned in ignored)  # the page scrolls
    assert first.value() == 50
    first.setValue(0)
    view.setTextCursor(view.document().find("wide"))
    QTest.keyClick(view, Qt.Key.Key_End, Qt.KeyboardModifier.ShiftModifier)
    view.grab()
    assert first.value() > 0
    assert 0 <= view.cursorRect().right() <= view.width()
    assert "name_39" in view.textCursor().selectedText()
    QTest.keyClick(view, Qt.Key.Key_Home, Qt.KeyboardModifier.ShiftModifier)
    assert first.value() == second.value() == 0
    assert view.horizontalScrollBar().maximum() == 0
    assert bars(placed(show("```\nshort\n```"))) == [], "it fits"


def test_bars_follow_what_changes_and_a_scrolled_block_stays_scrolled(show, formats):
    begun = f"```\n{WIDE}\nshort\n```"
    view = placed(show(begun))

    def widest():
        return bars(placed(view))[0].maximum()

    before = widest()
    view.text.set_rejected([RejectedSpan(begun.index("wide") + 4, "no " * 9, 0)])
    assert widest() > before
    view.text.set_rejected([])
    assert widest() == before
    view.set_formats(Formats(formats.font, DARK))
    assert widest() == before
    view.resize(500, 400)
    assert widest() > before
    view = placed(show(f"```\n{WIDE}\n"))
    (bar,) = bars(view)
    bar.setValue(80)
    begin = left(view, "wide")
    view.text.append("more\nlines\n" + "x" * 900 + "\n")
    assert widest() > 900
    assert bars(view) == [bar]
    assert left(view, "wide") == left(view, "lines") == begin


LONG_WORDS = ("Configuration", "Implementation", "Responsibility", "Recommendation")


def table(head, *, rows=2):
    return f"{head}\n{'|---' * (head.count('|') - 1)}|\n" + f"{head}\n" * rows


def split_words(view):
    """The words of tables that a line's end breaks."""
    found = []
    for each in view.text.tables:
        block = each.firstCursorPosition().block()
        while block.position() <= each.lastPosition():
            ends = [
                line.textStart() + line.textLength()
                for line in map(block.layout().lineAt, range(block.layout().lineCount()))
            ]
            around = [block.text()[max(0, end - 1) : end + 1] for end in ends]
            found += [block.text() for one in around if one.isascii() and one.isalpha() and one[1:]]
            block = block.next()
    return found


LATIN = "| " + " | ".join(LONG_WORDS * 2) + " |"
CHINESE, HEBREW = "| 名称 | 一个很长的中文单元格内容在这里 ", "| שם | תיאור ארוך מאוד של הדבר "


@pytest.mark.parametrize("first", ["", CHINESE, HEBREW], ids=["Latin", "Chinese", "Hebrew"])
def test_a_wide_table_keeps_its_words_and_scrolls(show, first):
    view = placed(show(f"before\n\n{table(first + LATIN)}\nbehind"))
    (bar,) = bars(view)
    assert split_words(view) == []
    first, behind = view.document().find("Configuration"), view.document().find("behind")
    places = (view.cursorRect(first).left(), view.cursorRect(behind))
    bar.setValue(bar.maximum())
    assert (view.cursorRect(first).left(), view.cursorRect(behind)) == (
        places[0] - bar.maximum(),
        places[1],
    )
    end = view.text.tables[0].lastCursorPosition()
    assert 0 < view.cursorRect(end).right() <= view.width()
    assert wheel(view, QPoint(40, bar.y() - 10), bar.maximum()).isAccepted()
    assert view.cursorRect(first).left() == places[0]
    view.setTextCursor(view.text.tables[0].cellAt(0, 6).firstCursorPosition())
    QTest.keyClick(view, Qt.Key.Key_End, Qt.KeyboardModifier.ShiftModifier)
    assert bar.value() > 0
    assert 0 <= view.cursorRect().right() <= view.width()
    view.resize(1900, view.height())
    assert bars(view) == [], "a table that fits has no bar"
    assert split_words(view) == []


def test_the_parts_of_a_long_table_scroll_as_one(show):
    view = placed(show(table(LATIN, rows=80)))
    assert len(view.text.tables) > 1
    (bar,) = bars(view)
    bar.setValue(50)
    assert len({one.format().leftMargin() for one in view.text.tables}) == 1
    view.set_formats(Formats(view.font(), DARK))
    while view.text.step():
        view.grab()  # before bars are placed again
    assert bars(placed(view))[0].value() == -round(view.text.tables[-1].format().leftMargin())
