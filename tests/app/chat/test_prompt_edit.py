"""The text field keeps every character, however it came in, and is as high as its text."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QGuiApplication, QImage, QInputMethodEvent, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app.chat.prompt_edit import MOST_CHARACTERS, PromptEdit
from app.theme.style import STYLE_SHEET
from tests.support.mostly_slow import examples

LONG = "no line ends here. " * 1_000  # 19,000 characters


@pytest.fixture
def field(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    field = PromptEdit(window)
    field.resize(500, 40)
    window.resize(500, 300)
    window.show()
    yield field
    window.close()


def paste(field, text):
    data = QMimeData()
    data.setText(text)
    field.insertFromMimeData(data)


def test_enter_or_only_control_enter_submits_and_the_other_begins_a_line(field):
    submitted = []
    field.submitted.connect(lambda: submitted.append(field.text()))
    key, modifier = Qt.Key, Qt.KeyboardModifier
    for enter_sends, line, submit in (
        (True, modifier.ShiftModifier, (key.Key_Return, modifier.NoModifier)),
        (True, modifier.ShiftModifier, (key.Key_Enter, modifier.KeypadModifier)),
        (False, modifier.NoModifier, (key.Key_Return, modifier.ControlModifier)),
    ):
        field.set_text("")
        field.enter_sends = enter_sends
        QTest.keyClicks(field, "one")
        QTest.keyClick(field, key.Key_Return, line)
        QTest.keyClicks(field, "two")
        assert submitted == []
        QTest.keyClick(field, *submit)
        assert submitted == ["one\ntwo"]
        submitted.clear()


def test_a_picture_that_is_pasted_is_given(field):
    data, given = QMimeData(), list[QImage]()
    field.picture_given.connect(given.append)
    data.setImageData(QImage(2, 3, QImage.Format.Format_RGB32))
    assert field.canInsertFromMimeData(data)
    field.insertFromMimeData(data)
    assert field.text() == ""
    assert [(picture.width(), picture.height()) for picture in given] == [(2, 3)]


@pytest.mark.parametrize("named", [False, True])
def test_files_that_are_pasted_are_no_text(field, named):
    data, files = QMimeData(), list[list[Path]]()
    field.files_given.connect(files.append)
    data.setUrls([QUrl.fromLocalFile("/home/me/notes.txt"), QUrl.fromLocalFile("/home/me/src")])
    if named:
        data.setText("/home/me/notes.txt")
    assert field.canInsertFromMimeData(data)
    field.insertFromMimeData(data)
    assert (field.text(), files) == ("", [[Path("/home/me/notes.txt"), Path("/home/me/src")]])


def test_a_link_a_table_with_its_picture_and_rich_text_are_pasted_as_text(field):
    link, table, rich = QMimeData(), QMimeData(), QMimeData()
    link.setUrls([QUrl("https://example.org/")])
    table.setText(" 1\t2")
    table.setImageData(QImage(2, 2, QImage.Format.Format_RGB32))
    rich.setHtml("<b>bold</b>")
    rich.setText(" bold")
    for data in (link, table, rich):
        field.insertFromMimeData(data)
    assert field.text() == "https://example.org/ 1\t2 bold"


def test_a_file_that_is_refused_is_not_moved_away(field):
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile("/home/me/notes.txt")])
    actions = Qt.DropAction.MoveAction | Qt.DropAction.CopyAction
    event = QDropEvent(
        QPointF(4, 4), actions, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier
    )
    field.dropEvent(event)
    assert event.dropAction() is Qt.DropAction.CopyAction
    assert field.text() == ""


def test_it_grows_to_eight_lines_and_scrolls_beyond(field):
    heights = []
    for lines in (1, 2, 8, 9, 40):
        field.set_text("\n".join("x" * lines))
        heights.append(field.height())
    assert heights[0] < heights[1] < heights[2]
    assert heights[2] == heights[3] == heights[4]
    assert heights[2] - heights[0] == 7 * (heights[1] - heights[0])
    field.set_text("")
    assert field.height() == heights[0]


def test_what_it_asks_for_is_as_large_as_what_is_written_and_hides_where_words_are_composed(
    field, qtbot
):
    window = QWidget()
    qtbot.addWidget(window)
    window.setStyleSheet(STYLE_SHEET)  # with which no part takes its font from another
    field.setParent(window)
    window.grab()
    font = field.font()
    font.setPointSizeF(3 * font.pointSizeF())
    field.setFont(font)
    assert field.viewport().font().pointSizeF() == font.pointSizeF()
    field.setPlaceholderText("Write a message")
    for composed, shown in (
        ("ni", ""),
        ("", "Write a message"),
        ("n", ""),
        ("", "Write a message"),
    ):
        QApplication.sendEvent(field, QInputMethodEvent(composed, []))
        assert field.placeholderText() == shown


def test_lines_begun_in_a_long_line_are_lines(field):
    field.set_text(LONG)
    for place in (0, 4_000, 4_001, 9_000):
        expected = field.text()
        cursor = field.textCursor()
        cursor.setPosition(place)
        field.setTextCursor(cursor)
        QTest.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
        assert field.text().count("\n") == expected.count("\n") + 1
        assert field.text().replace("\n", "") == LONG
        QTest.keyClick(field, Qt.Key.Key_Backspace)
        assert field.text() == expected
        QTest.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)


def test_a_part_of_a_long_line_is_copied_as_it_is_read(field):
    field.set_text("\U0001f600" * 5_000)
    cursor = field.textCursor()
    cursor.setPosition(2 * 3_999)
    cursor.movePosition(QTextCursor.MoveOperation.Right, QTextCursor.MoveMode.KeepAnchor, 3)
    field.setTextCursor(cursor)
    field.copy()
    assert QGuiApplication.clipboard().text() == "\U0001f600" * 2


def cut_by_key(field):
    QTest.keyClick(field, Qt.Key.Key_X, Qt.KeyboardModifier.ControlModifier)


def cut_by_menu(field):
    press_in_menu(field, "edit-cut")


def type_over(field):
    QTest.keyClick(field, Qt.Key.Key_Z)


def compose_over(field):
    event = QInputMethodEvent()
    event.setCommitString("\u4e2d")
    QApplication.sendEvent(field, event)


def delete_by_menu(field):
    press_in_menu(field, "edit-delete")


def press_in_menu(field, name):
    menu = field.make_menu()
    next(action for action in menu.actions() if action.objectName() == name).trigger()
    menu.deleteLater()


@pytest.mark.parametrize(
    ("take", "instead"),
    [
        (cut_by_key, ""),
        (cut_by_menu, ""),
        (delete_by_menu, ""),
        (type_over, "z"),
        (compose_over, "\u4e2d"),
    ],
)
@pytest.mark.parametrize("start", [6, 9])
def test_what_is_taken_from_a_lines_beginning_joins_no_lines(field, start, take, instead):
    text = "first\n" + LONG
    field.set_text(text)
    assert field.document().blockCount() > 4, "a long line is laid out in parts"
    cursor = field.textCursor()
    cursor.setPosition(start)
    end = start + 5_000  # in the next of the blocks that the line is in
    cursor.setPosition(end + 1, QTextCursor.MoveMode.KeepAnchor)
    field.setTextCursor(cursor)
    take(field)
    assert field.text() == text[:start] + instead + text[end:]
    while field.document().isUndoAvailable():
        field.undo()
    assert field.text() == text
    if not instead and take not in (delete_by_menu,):
        assert QGuiApplication.clipboard().text() == text[start:end]


def test_a_paste_that_is_too_long_is_refused_in_a_line(field, qtbot):
    field.set_text("mine")
    with qtbot.waitSignal(field.refused) as refusal:
        paste(field, "x" * (MOST_CHARACTERS - 3))
    assert "with 4 written already" in refusal.args[0]
    assert field.text() == "mine"
    field.selectAll()
    paste(field, "x" * (MOST_CHARACTERS - 2) + "\ny")  # in the place of what was written
    assert len(field.text()) == MOST_CHARACTERS


def test_line_ends_are_one_kind_and_what_is_not_seen_is_left_out(field):
    paste(field, "a\r\nb\rc\u2028d\u2029e\x00\x1b[0m\ttab\u00a0hard")
    assert field.text() == "a\nb\nc\nd\ne[0m\ttab\u00a0hard"


words = st.text(alphabet=st.sampled_from("ab \n\u00e9\u4e2d"), max_size=12)
stretches = st.builds(lambda text, times: text * times, words, st.sampled_from([1, 700]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25))
@given(steps=st.lists(st.tuples(stretches, st.floats(0, 1), st.floats(0, 1)), max_size=5))
def test_whatever_is_pasted_over_whatever_is_there(qapp, steps):
    """Against the same splices in a string; then all of it undone, and done again."""
    field = PromptEdit()
    texts = [""]
    for text, one, other in steps:
        length = field.document().characterCount() - 1
        start, end = sorted((round(one * length), round(other * length)))
        parts = []  # before, in and after what is replaced
        for begin, stop in ((0, start), (end, length), (start, end)):
            cursor = field.textCursor()
            cursor.setPosition(begin)
            cursor.setPosition(stop, QTextCursor.MoveMode.KeepAnchor)
            field.setTextCursor(cursor)
            parts.append(field.createMimeDataFromSelection().text())
        assert field.text() == parts[0] + parts[2] + parts[1]
        paste(field, text)
        assert field.text() == parts[0] + text + parts[1]
        texts.append(field.text())
    while field.document().isUndoAvailable():
        field.undo()
        assert field.text() in texts
    assert field.text() == ""
    while field.document().isRedoAvailable():
        field.redo()
        assert field.text() in texts
    assert field.text() == texts[-1]
