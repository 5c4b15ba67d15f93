"""The first page's loop is a real answer, and moves only while it is seen."""

import pytest
from PySide6.QtCore import QTimer

from app.chat.draft_ahead import DraftAhead
from app.markdown.view import TextView
from app.replay.first_page import RecordedLoop, read_recording
from app.welcome import EXAMPLES
from tests.support.app.laid_over import laid_over


@pytest.fixture
def loop(qtbot):
    loop = RecordedLoop(read_recording())
    qtbot.addWidget(loop)
    loop.resize(500, loop.height())
    return loop


def text(loop):
    return loop.findChild(TextView).toPlainText()


def moves(loop):
    return any(timer.isActive() for timer in loop.findChildren(QTimer))


def test_the_recording_has_all_that_can_happen_and_is_an_example():
    recording = read_recording()
    kinds = {piece.kind for piece in recording.replay.pieces}
    assert kinds == {"accepted", "rejected", "discarded", "correction", "bonus"}
    assert recording.text.endswith(".")
    assert recording.tokens > 2 * len(recording.replay)
    assert recording.question in [question for _, question in EXAMPLES]


def test_a_draft_runs_ahead_is_judged_and_then_part_of_the_text(loop, qtbot):
    ahead = loop.findChild(DraftAhead)
    loop.go_on()
    qtbot.waitUntil(lambda: ahead.round is not None)
    assert (text(loop), {token.fate for token in ahead.round.tokens}) == ("", {"drafted"})
    loop.go_on()
    qtbot.waitUntil(lambda: ahead.round.verdict is not None)
    assert text(loop) == "The reason"
    while loop.place < len(read_recording().replay):
        loop.go_on()
    qtbot.waitUntil(lambda: text(loop) == read_recording().text)
    loop.go_on()
    assert text(loop) == "", "it begins again"
    for _ in range(6 * len(read_recording().replay)):
        loop.go_on()
    qtbot.waitUntil(lambda: not moves(loop))  # it rests after the third time
    assert text(loop) == read_recording().text  # no word of it moves


def test_it_moves_only_while_it_is_seen(loop):
    assert not loop._next.isActive()
    loop.show()
    assert loop._next.isActive()
    loop.hide()
    assert not loop._next.isActive()


def test_with_reduced_motion_it_shows_all_tokens(qtbot):
    still = RecordedLoop(read_recording(), still=True)
    qtbot.addWidget(still)
    still.resize(500, still.height())
    still.show()
    qtbot.waitUntil(lambda: bool(laid_over(still.findChild(TextView).document())))
    assert "night" in text(still), "which was rejected"
    assert not still._next.isActive()
