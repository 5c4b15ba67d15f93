"""Rows keep the focus while they change, can be used by keyboard, and are read out whole."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from app.models.row_data import Action, RowData
from app.models.rows import Rows
from app.theme.labels import ShortenedLabel
from tests.support.app.window_use import button_of, row_of

ONE = RowData(
    "1", "One", "small", actions=(Action("get", "Get"), Action("use", "Use", "Not here."))
)
TWO = RowData("2", "Two", reason="Too large.", actions=(Action("get", "Get", "Too large."),))
THREE = RowData("3", "Three", actions=(Action("get", "Get"),), heading="More", progress=0.5)


@pytest.fixture
def rows(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    rows = Rows("Models")
    rows.setParent(window)
    rows.resize(500, 300)
    rows.show_rows((ONE, TWO, THREE))
    window.show()
    window.activateWindow()
    yield rows
    window.close()


@pytest.fixture
def asked(rows):
    heard = []
    rows.asked.connect(lambda *words: heard.append(words))
    return heard


def keys(rows):
    return [row.data.key for row in rows.rows]


def test_a_pressed_button_is_reported(rows, asked):
    button_of(row_of(rows, "3"), "get").click()
    button_of(row_of(rows, "2"), "get").click()  # greyed out
    assert asked == [("3", "get")]
    button = button_of(row_of(rows, "2"), "get")
    assert not button.isEnabled()
    assert (button.toolTip(), button.accessibleName()) == ("Too large.", "Get Two")


def test_arrows_move_through_the_rows_and_enter_runs_an_action(rows, asked):
    row_of(rows, "1").setFocus()
    for row, key in (
        ("1", Qt.Key.Key_Up),
        ("1", Qt.Key.Key_Return),
        ("1", Qt.Key.Key_Down),
        ("2", Qt.Key.Key_Return),  # nothing can be done there
        ("2", Qt.Key.Key_Down),
        ("3", Qt.Key.Key_Down),
        ("3", Qt.Key.Key_Enter),
    ):
        assert row_of(rows, row).hasFocus()
        QTest.keyClick(row_of(rows, row), key)
    assert asked == [("1", "get"), ("3", "get")]


def test_the_focus_stays_where_it_is_while_rows_change(rows):
    button = button_of(row_of(rows, "3"), "get")
    button.setFocus()
    rows.show_rows((TWO, replace(THREE, line="half", progress=0.6), ONE))
    assert keys(rows) == ["2", "3", "1"]
    assert button_of(row_of(rows, "3"), "get") is button
    assert button.hasFocus()
    rows.show_rows((TWO, replace(THREE, actions=(Action("get", "Get", "It comes."),)), ONE))
    assert row_of(rows, "3").hasFocus()  # and not the next one
    rows.show_rows((replace(THREE, actions=(Action("pause", "Pause"),)), ONE))
    assert row_of(rows, "3").hasFocus()
    rows.show_rows((ONE,))
    focused = QApplication.focusWidget()
    assert rows.isAncestorOf(focused)


def test_a_screen_reader_gets_the_whole_row_and_a_heading_stands_above_its_rows(rows):
    assert row_of(rows, "1").accessibleName() == "One. small. Not here"
    assert row_of(rows, "2").accessibleName() == "Two, not available. Too large"
    rows.show_rows((THREE, replace(ONE, heading="More"), TWO))
    headings = [
        label.text()
        for label in rows.findChildren(QLabel)
        if label.text() == "More" and not label.isHidden()
    ]
    assert headings == ["More"]
    warned = replace(TWO, warns=True, badge="New")
    rows.show_rows((warned,))
    assert {one.textFormat() for one in rows.findChildren(QLabel)} == {Qt.TextFormat.PlainText}
    assert row_of(rows, "2").accessibleName() == "Two. New. Too large"


def test_long_names_are_shortened_and_kept_in_the_tool_tip(qtbot):
    label = ShortenedLabel(elide=Qt.TextElideMode.ElideMiddle)
    qtbot.addWidget(label)
    label.resize(120, 20)
    label.say("someone/a-model-with-quite-a-long-name-4bit")
    label.show()
    qtbot.waitUntil(lambda: "…" in label.text())
    assert label.text().startswith("some")
    assert label.toolTip() == label.words == "someone/a-model-with-quite-a-long-name-4bit"
    label.resize(900, 20)
    qtbot.waitUntil(lambda: label.text() == label.words)
    assert label.toolTip() == ""
    label.say("a-model", tip="/models/a-model")
    for width in (40, 900):
        label.resize(width, 20)
        assert label.toolTip() == "/models/a-model"
    label.say("a-model")
    assert label.toolTip() == ""
    label.say("a-model", tip="What is <br>?\nA & b")
    assert label.toolTip() == "What is &lt;br&gt;?<br>A &amp; b"
