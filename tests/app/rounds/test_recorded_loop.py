"""The first page's loop is a real answer, and moves only while it is seen."""

from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from pytestqt.qtbot import QtBot

from app.rounds.recorded_loop import RecordedLoop, Recording, Word, read_recording
from app.theme.palette import LIGHT
from app.welcome import EXAMPLES
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)
ROUNDS = (
    (Word("The", "accepted"), Word(" night", "rejected"), Word(" reason", "correction")),
    (Word(" for", "accepted"), Word(" it", "bonus")),
)


@pytest.fixture
def loop(qtbot: QtBot) -> RecordedLoop:
    loop = RecordedLoop(Recording("Why?", "tiny", ROUNDS), clock=lambda: 0.0)
    qtbot.addWidget(loop)
    loop.resize(500, loop.height())
    return loop


def colours(loop: RecordedLoop, seconds: float) -> set[str]:
    """The inks of a moment: words are wide enough to have some pixels in their very colour."""
    loop.show_moment(seconds)
    image = loop.grab().toImage()
    places = ((x, y) for x in range(image.width()) for y in range(image.height()))
    return {image.pixelColor(*place).name() for place in places}


def moves(loop: RecordedLoop) -> bool:
    return loop.findChild(QTimer).isActive()


def test_the_recording_has_all_that_can_happen_and_is_an_example() -> None:
    recording = read_recording()
    kinds = {word.kind for one in recording.rounds for word in one}
    assert kinds == {"accepted", "rejected", "discarded", "correction", "bonus"}
    assert recording.text.endswith(".")
    assert recording.tokens > 2 * len(recording.rounds)
    assert recording.question in [question for _, question in EXAMPLES]


def test_a_draft_is_pale_then_judged_and_then_part_of_the_text(loop: RecordedLoop) -> None:
    fates = {LIGHT.accepted, LIGHT.rejected, LIGHT.correction, LIGHT.bonus}
    assert not colours(loop, 0.2) & fates
    assert colours(loop, 0.29) & fates == {LIGHT.accepted, LIGHT.rejected}
    assert LIGHT.rejected not in colours(loop, 0.54)
    assert not colours(loop, loop.seconds - 0.1) & fates
    assert LIGHT.text in colours(loop, loop.seconds - 0.1)


def test_it_moves_only_while_it_is_seen(loop: RecordedLoop) -> None:
    assert not moves(loop)
    loop.show()
    assert moves(loop)
    loop.hide()
    assert not moves(loop)


def test_with_reduced_motion_it_shows_a_judged_round(qtbot: QtBot) -> None:
    still = RecordedLoop(Recording("Why?", "tiny", ROUNDS), still=True)
    qtbot.addWidget(still)
    still.resize(500, still.height())
    still.show()
    assert not moves(still)
    assert LIGHT.accepted in colours(still, 0.0)


def test_text_does_not_move_and_has_room_at_any_width(loop: RecordedLoop) -> None:
    for width in (500, 90):
        loop.resize(width, loop.height())
        loop.grab()  # it is laid out
        places = [place for line in loop.places for place in line]
        assert max(place.y() for place in places) < loop.height()


def test_a_file_is_read_as_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(
        '{"question": "Why?", "target": "tiny", "rounds": [[["accepted", "So"], ["bonus", "."]]]}'
    )
    assert read_recording(file).text == "So."
