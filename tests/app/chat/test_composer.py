"""What is written is kept with every character and sent once; what stands in the way is said."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QGuiApplication, QImage, QInputMethodEvent, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QWidget

from app.chat.composer import Composer, RoundButton
from app.chat.prompt_edit import MOST_CHARACTERS, PromptEdit
from tests.support.mostly_slow import examples


@pytest.fixture
def heard(composer):
    """What the composer said, by signal, from now on."""
    said = {name: [] for name in ("sent", "to_queue", "changed", "stopped", "remedy_asked")}
    for name, values in said.items():
        getattr(composer, name).connect(lambda *value, values=values: values.append(value))
    return SimpleNamespace(**said)


@pytest.fixture
def composer(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    composer = Composer(window)
    composer.resize(600, 120)
    window.show()
    window.activateWindow()
    yield composer
    window.close()


def button(composer):
    return composer.findChild(RoundButton)


def shown(composer):
    """The texts beside the field."""
    return [label.text() for label in composer.findChildren(QLabel) if label.text()]


def enter(composer):
    QTest.keyClick(composer.field, Qt.Key.Key_Return)


def test_enter_and_the_button_send_and_empty_the_field(composer, heard):
    assert not button(composer).isEnabled()
    QTest.keyClicks(composer.field, "hi ")
    enter(composer)
    enter(composer)
    assert (composer.text, heard.sent) == ("", [("hi ",)])
    assert heard.changed == [("h",), ("hi",), ("hi ",), ("",)]
    composer.set_text(" \n\t ")
    enter(composer)
    assert (composer.text, len(heard.sent)) == (" \n\t ", 1)
    composer.set_text("from before")
    assert button(composer).isEnabled()
    composer.setFocus()
    QTest.keyClick(composer.field, Qt.Key.Key_Tab)
    assert button(composer).hasFocus()
    QTest.keyClick(button(composer), Qt.Key.Key_Space)
    assert composer.field.hasFocus()
    assert heard.sent[1:] == [("from before",)]
    assert len(heard.changed) == 5, "set_text is nothing new to whoever keeps the text"


def test_while_answering_escape_stops_and_enter_queues(composer, heard):
    QTest.keyClick(composer.field, Qt.Key.Key_Escape)
    assert heard.stopped == []
    composer.set_answering(True)
    assert button(composer).accessibleName() == "Stop answer"
    QTest.keyClick(composer.field, Qt.Key.Key_Escape)
    QTest.mouseClick(button(composer), Qt.MouseButton.LeftButton)
    assert len(heard.stopped) == 2
    enter(composer)
    QTest.keyClicks(composer.field, "later")
    enter(composer)
    assert (heard.to_queue, heard.sent, composer.text) == ([("later",)], [], "")
    composer.queued.show_queue(["later"], "Sent later", sends=False)
    assert composer.queued.isVisible()
    composer.queued.show_queue([], "", sends=False)
    assert not composer.queued.isVisible()
    composer.set_answering(False)
    assert button(composer).accessibleName() == "Send message"


def test_what_cannot_be_queued_stays(composer, heard):
    composer.set_answering(True)
    composer.queues = False
    QTest.keyClicks(composer.field, "next")
    enter(composer)
    assert (heard.sent, composer.text) == ([], "next")
    assert "(Esc)" in shown(composer)[-1]
    composer.set_text("next", 3)  # another version of a message, which Esc ends
    QTest.keyClick(composer.field, Qt.Key.Key_Escape)
    enter(composer)
    assert (heard.sent, heard.stopped, composer.text) == ([], [], "next")
    assert "(Esc)" not in shown(composer)[-1]
    composer.set_answering(False)
    assert shown(composer) == []
    enter(composer)
    assert heard.sent == [("next",)]


def test_what_blocks_is_said_with_its_remedy(composer, heard):
    composer.set_text("hi")
    composer.set_blocked("No model is loaded.", remedy="Choose a model…")
    assert shown(composer) == ["No model is loaded."]
    assert not button(composer).isEnabled()
    enter(composer)
    assert (heard.sent, composer.text) == ([], "hi")
    composer.field.refused.emit("Not pasted.")
    assert shown(composer) == ["Not pasted."]
    QTest.keyClicks(composer.field, "!")
    assert shown(composer) == ["No model is loaded."]
    QTest.mouseClick(composer.findChild(QPushButton), Qt.MouseButton.LeftButton)
    assert len(heard.remedy_asked) == 1
    composer.set_blocked("")
    assert shown(composer) == []
    assert not composer.findChild(QPushButton).isVisible()
    enter(composer)
    assert len(heard.sent) == 1


def test_tokens_are_counted_and_warned_of_in_words(composer):
    for used, limit, text in (
        (None, 4096, ""),
        (None, None, ""),
        (12, None, "12 tokens"),
        (900, 1000, "900 of 1,000 tokens"),
        (901, 1000, "⚠ 901 of 1,000 tokens: nearly full"),
        (1000, 1000, "⚠ 1,000 of 1,000 tokens: nearly full"),
        (1001, 1000, "⚠ 1,001 of 1,000 tokens: 1 too many"),
    ):
        composer.set_tokens(500, 501)
        composer.set_tokens(used, limit)
        assert shown(composer) == ([text] if text else [])
    composer.set_tokens(1001, 1000, leaves_out=True)
    assert shown(composer)[0].startswith("1,001 of 1,000"), "what goes on is not a warning"


LONG = "no line ends here. " * 1_000  # 19,000 characters
MODIFIER = Qt.KeyboardModifier


@pytest.fixture
def field(composer):
    return composer.field


def paste(field, text):
    data = QMimeData()
    data.setText(text)
    field.insertFromMimeData(data)


@pytest.mark.parametrize(
    ("enter_sends", "line", "submit"),
    [
        (True, MODIFIER.ShiftModifier, (Qt.Key.Key_Return, MODIFIER.NoModifier)),
        (True, MODIFIER.ShiftModifier, (Qt.Key.Key_Enter, MODIFIER.KeypadModifier)),
        (False, MODIFIER.NoModifier, (Qt.Key.Key_Return, MODIFIER.ControlModifier)),
    ],
)
def test_enter_or_only_control_enter_sends_and_the_other_begins_a_line(
    composer, heard, enter_sends, line, submit
):
    composer.set_enter_sends(enter_sends)
    QTest.keyClicks(composer.field, "one")
    QTest.keyClick(composer.field, Qt.Key.Key_Return, line)
    QTest.keyClicks(composer.field, "two")
    assert heard.sent == []
    QTest.keyClick(composer.field, *submit)
    assert heard.sent == [("one\ntwo",)]


FILES = [Path("/home/me/notes.txt"), Path("/home/me/src")]
URLS = [file.as_uri() for file in FILES]


@pytest.mark.parametrize(
    ("pictured", "urls", "html", "text", "pasted"),
    [
        pytest.param(True, [], "", "", "picture", id="picture"),
        pytest.param(False, URLS, "", "", "files", id="files"),
        pytest.param(False, URLS, "", "/home/me/notes.txt", "files", id="files with a name"),
        pytest.param(False, ["https://a.b/"], "", "", "https://a.b/", id="link"),
        pytest.param(True, [], "", "1\t2", "1\t2", id="table with its picture"),
        pytest.param(False, [], "<b>bold</b>", "bold", "bold", id="rich text"),
    ],
)
def test_pictures_and_files_that_are_pasted_are_given_and_all_else_is_text(
    field, pictured, urls, html, text, pasted
):
    data, given = QMimeData(), []
    field.picture_given.connect(lambda picture: given.append((picture.width(), picture.height())))
    field.files_given.connect(given.append)
    if pictured:
        data.setImageData(QImage(2, 3, QImage.Format.Format_RGB32))
    if urls:
        data.setUrls(list(map(QUrl, urls)))
    if html:
        data.setHtml(html)
    if text:
        data.setText(text)
    assert field.canInsertFromMimeData(data)
    field.insertFromMimeData(data)
    expected = {"picture": [(2, 3)], "files": [FILES]}.get(pasted, [])
    assert (given, field.text()) == (expected, "" if expected else pasted)


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


def test_it_grows_to_eight_lines_and_asks_for_nothing_where_words_are_composed(field):
    heights = []
    for lines in (1, 8, 40, 0):
        field.set_text("\n".join("x" * lines))
        heights.append(field.height())
    assert heights[0] == heights[3] < heights[1] == heights[2]
    field.setPlaceholderText("Write a message")
    for composed in ("ni", ""):
        QApplication.sendEvent(field, QInputMethodEvent(composed, []))
        assert field.placeholderText() == ("" if composed else "Write a message")


def test_lines_begun_in_a_long_line_are_lines(field):
    field.set_text(LONG)
    for place in (0, 4_000, 4_001, 9_000):
        expected = field.text()
        cursor = field.textCursor()
        cursor.setPosition(place)
        field.setTextCursor(cursor)
        for key in (Qt.Key.Key_Return, Qt.Key.Key_Backspace, Qt.Key.Key_Return):
            QTest.keyClick(field, key, MODIFIER.ShiftModifier)
            lines = expected.count("\n") + (key == Qt.Key.Key_Return)
            assert (field.text().count("\n"), field.text().replace("\n", "")) == (lines, LONG)


def take(field, how):
    """Take what is selected away, or put something in its place."""
    if how == "\u4e2d":
        event = QInputMethodEvent()
        event.setCommitString(how)
        QApplication.sendEvent(field, event)
    elif how.startswith("edit-"):
        menu = field.make_menu()
        next(action for action in menu.actions() if action.objectName() == how).trigger()
        menu.deleteLater()
    elif how == "Ctrl+X":
        QTest.keyClick(field, Qt.Key.Key_X, Qt.KeyboardModifier.ControlModifier)
    else:
        QTest.keyClicks(field, how)


@pytest.mark.parametrize("how", ["Ctrl+X", "edit-cut", "edit-delete", "z", "\u4e2d"])
@pytest.mark.parametrize("start", [6, 9])
def test_what_is_taken_from_a_lines_beginning_joins_no_lines(field, start, how):
    instead = how if len(how) == 1 else ""
    text = "first\n" + LONG
    field.set_text(text)
    assert field.document().blockCount() > 4, "a long line is laid out in parts"
    cursor = field.textCursor()
    cursor.setPosition(start)
    end = start + 5_000  # in the next of the blocks that the line is in
    cursor.setPosition(end + 1, QTextCursor.MoveMode.KeepAnchor)
    field.setTextCursor(cursor)
    take(field, how)
    assert field.text() == text[:start] + instead + text[end:]
    while field.document().isUndoAvailable():
        field.undo()
    assert field.text() == text
    if how in ("Ctrl+X", "edit-cut"):
        assert QGuiApplication.clipboard().text() == text[start:end]


def test_a_paste_has_one_kind_of_line_ends_and_what_is_seen_and_is_refused_if_it_is_too_long(
    field, qtbot
):
    paste(field, "a\r\nb\rc\u2028d\u2029e\x00\x1b[0m\ttab\u00a0hard")
    assert field.text() == "a\nb\nc\nd\ne[0m\ttab\u00a0hard"
    field.set_text("mine")
    with qtbot.waitSignal(field.refused) as refusal:
        paste(field, "x" * (MOST_CHARACTERS - 3))
    assert "with 4 written already" in refusal.args[0]
    assert field.text() == "mine"
    field.selectAll()
    paste(field, "x" * (MOST_CHARACTERS - 2) + "\ny")  # in the place of what was written
    assert len(field.text()) == MOST_CHARACTERS


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
