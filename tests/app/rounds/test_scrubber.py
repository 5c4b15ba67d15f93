"""Any answer can be walked through, by mouse and by keyboard, and exported."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPushButton, QToolButton, QWidget
from pytestqt.qtbot import QtBot

from app.rounds.lane import DraftLane
from app.rounds.replay_text import ReplayText
from app.rounds.scrubber import ReplayDialog, Scrubber
from app.rounds.trace import Replay
from app.theme.palette import DARK
from engine.events import (
    Draft,
    DraftedToken,
    Event,
    Span,
    Text,
    TokenVerdict,
    Verdict,
    WrittenToken,
    from_json,
    to_json,
)
from tests.support.app.traces import recorded, text_of, tree_round

EVENTS = recorded("stories_early_exit.jsonl")
ROUNDS = 42


@pytest.fixture
def scrubber(qtbot: QtBot) -> Iterator[Scrubber]:
    window = QWidget()
    qtbot.addWidget(window)
    scrubber = Scrubber(parent=window)
    scrubber.resize(400, 400)
    scrubber.show_trace(EVENTS)
    window.show()
    yield scrubber
    window.close()


def part[T: QWidget](scrubber: Scrubber, kind: type[T]) -> T:
    found = scrubber.findChild(kind)
    assert found is not None
    return found


def push_button(scrubber: Scrubber, words: str) -> QPushButton:
    return next(b for b in scrubber.findChildren(QPushButton) if b.text() == words)


def text(scrubber: Scrubber) -> str:
    return part(scrubber, ReplayText).toPlainText()


def press(
    widget: QWidget,
    key: Qt.Key,
    modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier,
) -> None:
    QTest.keyClick(widget, key, modifier)


def click(widget: QWidget) -> None:
    QTest.mouseClick(widget, Qt.MouseButton.LeftButton)


def button(scrubber: Scrubber, name: str) -> QToolButton:
    (found,) = (b for b in scrubber.findChildren(QToolButton) if b.accessibleName() == name)
    return found


def kept(scrubber: Scrubber) -> str:
    """The text without what is struck out."""
    document, written = part(scrubber, ReplayText).document(), ""
    block = document.begin()
    while block.isValid():
        written += "\n" if block.blockNumber() else ""
        fragments: Any = block  # which the annotations do not say can be walked through
        for one in fragments:
            fragment = one.fragment()
            written += "" if fragment.charFormat().fontStrikeOut() else fragment.text()
        block = block.next()
    return written


def test_an_answer_is_shown_at_its_end(scrubber: Scrubber) -> None:
    assert scrubber.place == ROUNDS
    assert kept(scrubber) == text_of(EVENTS)


def test_every_place_shows_the_answer_so_far(scrubber: Scrubber) -> None:
    lane = part(scrubber, DraftLane)
    for place in [0, 1, 2, 17, 3, ROUNDS, 41, 40, 0, 5]:
        scrubber.go_to(place)
        pieces = scrubber.replay.pieces_until(place)
        assert kept(scrubber) == "".join(piece.text for piece in pieces if piece.written)
        assert (lane.shown.round.number if lane.shown else 0) == place


def test_rejected_tokens_stand_where_they_would_have_stood(scrubber: Scrubber) -> None:
    scrubber.go_to(2)
    assert text(scrubber) == "named·“O Lily·went·v."


def test_the_keyboard_is_enough(scrubber: Scrubber) -> None:
    slider = scrubber.focusProxy()
    assert slider is not None
    places: list[int] = []
    scrubber.moved.connect(places.append)
    keys = [
        (Qt.Key.Key_Home, 0),
        (Qt.Key.Key_Right, 1),
        (Qt.Key.Key_PageUp, 11),
        (Qt.Key.Key_Left, 10),
        (Qt.Key.Key_End, ROUNDS),
    ]
    for key, place in keys:
        press(slider, key)
        assert scrubber.place == place
    assert places == [place for _, place in keys]
    press(slider, Qt.Key.Key_Space)
    assert scrubber.playing
    press(slider, Qt.Key.Key_Space)
    assert not scrubber.playing


def test_keys_work_from_the_scrubber_itself(scrubber: Scrubber) -> None:
    for key, place in [
        (Qt.Key.Key_Home, 0),
        (Qt.Key.Key_Right, 1),
        (Qt.Key.Key_Left, 0),
        (Qt.Key.Key_End, ROUNDS),
    ]:
        press(scrubber, key)
        assert scrubber.place == place
    press(scrubber, Qt.Key.Key_Left, Qt.KeyboardModifier.ControlModifier)
    assert scrubber.place == ROUNDS, "a shortcut of the window"


def test_buttons_step_and_know_the_ends(scrubber: Scrubber) -> None:
    assert not button(scrubber, "Next round").isEnabled()
    click(button(scrubber, "Previous round"))
    assert scrubber.place == ROUNDS - 1
    click(button(scrubber, "Next round"))
    click(button(scrubber, "To the beginning"))
    assert scrubber.place == 0
    assert not button(scrubber, "Previous round").isEnabled()
    click(button(scrubber, "To the end"))
    assert scrubber.place == ROUNDS


def test_playing_goes_to_the_end_and_stops(qtbot: QtBot, scrubber: Scrubber) -> None:
    scrubber.go_to(ROUNDS - 1)
    scrubber.play()
    assert button(scrubber, "Pause").isEnabled()
    qtbot.waitUntil(lambda: not scrubber.playing)
    assert scrubber.place == ROUNDS
    assert button(scrubber, "Play").isEnabled()


def test_playing_from_the_end_begins_again(scrubber: Scrubber) -> None:
    scrubber.play()
    assert (scrubber.place, scrubber.playing) == (0, True)
    scrubber.show_trace(EVENTS)
    assert not scrubber.playing


def test_the_export_is_the_whole_trace(qtbot: QtBot, scrubber: Scrubber) -> None:
    scrubber.go_to(3)
    with qtbot.waitSignal(scrubber.export_wanted) as signal:
        push_button(scrubber, "Export data…").click()
    assert isinstance(signal.args, list)
    values = json.loads(signal.args[0])
    assert len(values) == len(EVENTS)
    assert values[-1]["event"] == "done"


def test_without_an_answer_there_is_nothing_to_press(scrubber: Scrubber) -> None:
    scrubber.show_trace(())
    assert text(scrubber) == ""
    assert not any(b.isEnabled() for b in scrubber.findChildren(QToolButton))
    assert not push_button(scrubber, "Export data…").isEnabled()
    assert not push_button(scrubber, "Share…").isEnabled()
    scrubber.play()
    assert not scrubber.playing
    assert "no rounds" in [label.text() for label in scrubber.findChildren(QLabel)]


def test_a_tree_is_replayed_in_a_lane_that_has_room_for_it(scrubber: Scrubber) -> None:
    lane = part(scrubber, DraftLane)
    low = lane.sizeHint().height()
    tokens = ((" a", -1, 0.5), (" the", -1, 0.3), (" cat", 1, 0.5), (" dog", 1, 0.2))
    _, judged = tree_round(1, *tokens, path=(1, 3))
    assert judged.verdict is not None
    drafted = tuple(DraftedToken(t.id, t.text, t.q or 0.0) for t in judged.drafted)
    spans = tuple(Span(1, index, 4) for index in range(3))
    events: list[Event] = [
        Draft("g", 1, drafted, "head", judged.tree.parents),
        judged.verdict,
        Text("g", " the dog own", spans),
    ]
    scrubber.show_trace(map(from_json, map(to_json, events)))
    high = lane.sizeHint().height()
    assert high > low
    assert lane.shown is not None
    assert lane.shown.round == judged
    assert text(scrubber) == " the dog own"
    scrubber.go_to(0)
    assert lane.sizeHint().height() == high, "the text below does not jump"
    scrubber.show_trace(EVENTS)
    assert lane.sizeHint().height() == low


def test_hostile_text_is_text(scrubber: Scrubber) -> None:
    hostile = "<img src='file:///etc/passwd'>\u202e\x00\u2028&amp;"
    events: list[Event] = [
        Draft("g", 1, (DraftedToken(1, hostile, 0.5),), "model"),
        Verdict("g", 1, 1, (TokenVerdict(1, 1),), WrittenToken(2, "\n", 1, "bonus"), 0, 1, 1, "r"),
        Text("g", hostile + "\n", (Span(1, 0, len(hostile)), Span(1, 1, 1))),
    ]
    scrubber.show_trace(events)
    assert text(scrubber) == "<img src='file:///etc/passwd'>\n&amp;\n"
    scrubber.go_to(0)
    assert text(scrubber) == ""


def test_a_dark_window_keeps_the_place(scrubber: Scrubber) -> None:
    scrubber.go_to(2)
    palette = QPalette()
    palette.setColor(QPalette.ColorRole.Window, QColor(DARK.paper))
    scrubber.setPalette(palette)
    assert text(scrubber) == "named·“O Lily·went·v."
    view = part(scrubber, ReplayText)
    colours = {view.document().begin().begin().fragment().charFormat().foreground().color().name()}
    assert colours == {DARK.accepted}


def test_the_replay_can_be_played_faster(scrubber: Scrubber, qtbot: QtBot) -> None:
    scrubber.go_to(0)
    intervals = []
    for index in range(scrubber.speeds.count()):
        scrubber.speeds.setCurrentIndex(index)
        intervals.append(scrubber._timer.interval() * scrubber.speed)
    assert scrubber.speed == 8
    assert max(intervals) - min(intervals) < 8
    scrubber.play()
    lane = part(scrubber, DraftLane)
    qtbot.waitUntil(lambda: scrubber.place > 2)
    scrubber.pause()
    shown = lane.shown
    assert shown is not None
    assert shown.judged_at == shown.drafted_at, "the draft has no time to wait for its verdict"


def test_the_beginning_is_not_called_empty(scrubber: Scrubber) -> None:
    scrubber.go_to(0)
    beginning = part(scrubber, ReplayText).placeholderText()
    scrubber.show_trace(())
    assert part(scrubber, ReplayText).placeholderText() != beginning


def test_the_dialog_plays_from_the_beginning_with_its_figures(qtbot: QtBot) -> None:
    dialog = ReplayDialog(Replay(EVENTS))
    qtbot.addWidget(dialog)
    assert dialog.scrubber.playing
    qtbot.waitUntil(lambda: dialog.scrubber.place == 1)
    dialog.scrubber.go_to(9)
    assert dialog.panel.stats.rounds == 9


def test_the_text_does_not_give_away_a_verdict(scrubber: Scrubber, qtbot: QtBot) -> None:
    scrubber.go_to(0)
    scrubber.play()
    qtbot.waitUntil(lambda: scrubber.place == 2)
    scrubber.pause()
    before = text(scrubber)
    assert "went" not in before, "of the second round only its draft is shown"
    qtbot.waitUntil(lambda: text(scrubber) != before)
    assert text(scrubber) == "named·“O Lily·went·v."


def test_the_whole_lane_is_seen_where_there_is_room(qtbot: QtBot) -> None:
    large = ReplayDialog(Replay(EVENTS))
    qtbot.addWidget(large)
    large.resize(1200, 700)
    large.grab()
    lane = part(large.scrubber, DraftLane)
    for place in range(1, ROUNDS + 1):
        large.scrubber.go_to(place)
        layout = lane._layout()
        assert layout is not None
        assert layout.shift == 0.0
